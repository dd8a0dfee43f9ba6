"""Read overrides, the arguments ``key=value`` of a command, and check their names.

An override chooses in a group (``strategy=ewc``) or changes a setting: ``trainer.max_epochs=2``,
its bare name ``max_epochs=2``, or ``~optimizer.lr`` for the default. Hydra's parser reads the
values. It is not needed to check keys and names with the catalog, so mistakes are found at once.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.config import name_catalog
from clframe.config.groups import CHOSEN, EMPTY_CHOICES, GROUPS, ROOT_KEYS, SETTINGS, SEVERAL
from clframe.config.name_catalog import Catalog, installed
from clframe.errors import SettingError, nearest

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

_KEY = re.compile(r"[A-Za-z_][\w.-]*")
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
"""Whole numbers from..to, which clframe knows in addition to Hydra's grammar."""
_PLAIN = re.compile(r"[\w./-]+|\[ *[\w./-]+( *, *[\w./-]+)* *\]")
"""A name or a list of names, which needs no parser."""
BETWEEN_NAMES = re.compile(r"[,+\[\] ]+")


# ---------------------------------------------------------------- reading


def split(word: str) -> tuple[str, str, str]:
    """Split an override into its sign (``+``, ``++``, ``~`` or none), key and value.

    >>> split("strategy=ewc"), split("~optimizer.lr")
    (('', 'strategy', 'ewc'), ('~', 'optimizer.lr', ''))

    Raises:
        SettingError: It is not an override, or one that has no meaning for a run.
    """
    sign = word[: len(word) - len(word.lstrip("+~"))]
    key, equals, value = word[len(sign) :].partition("=")
    key, at, _ = key.strip().partition("@")
    if re.match(r"hydra\b", key):
        raise SettingError(
            f"'{word}' is a setting of Hydra's, which clframe does not use: a run's folder is "
            "run_dir=DIR, a sweep's settings are sweep.NAME=value"
        )
    valid = sign in ("", "+", "++", "~") and (equals or sign == "~")
    if not valid or not _KEY.fullmatch(key):
        raise SettingError(f"'{word}' is not a setting; write key=value")
    if at:
        raise SettingError(
            f"'{word}': '@' moves a group elsewhere, which runs do not use; write {key}={value}"
        )
    return sign, key, value


def read(word: str) -> Override:
    """Read an override with Hydra's parser.

    Raises:
        SettingError: It does not follow Hydra's grammar, or has no meaning for a run.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    split(word)
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException as error:
        reason = " ".join(str(error).split())
        raise SettingError(
            f"'{word}' cannot be read ({reason}); write several values as a,b,c or "
            "range(0,10), and put a text with other characters in quotes"
        ) from error


def read_single(word: str) -> Override:
    """Read an override with a single value, for a single run."""
    override = read(word)
    if override.is_sweep_override() or RANGE.fullmatch(word.partition("=")[2]):
        raise SettingError(f"'{word}' names several values; put -m after fit to sweep them")
    return override


def split_plus(word: str) -> str:
    """Write ``strategy=ewc+replay`` in Hydra's grammar, alone or among several.

    >>> split_plus("strategy=ewc+replay,si")
    'strategy=[ewc,replay],si'
    >>> split_plus("strategy=[ewc+si,replay]")
    'strategy=[ewc,si,replay]'

    Raises:
        SettingError: A plus sign has no name before or after it.
    """
    key, equals, value = word.partition("=")
    if key != "strategy" or "+" not in value:
        return word
    if re.search(r"(^|[+,\[])\s*\+|\+\s*($|[,\]])", value):
        raise SettingError(f"'{word}': a name is missing next to '+'; write strategy=ewc+replay")
    items = re.split(r"(\[[^\]]*\])|,", value)
    plain = []
    for item in filter(None, items):
        if item.startswith("["):
            plain.append(item.replace("+", ","))
        else:
            plain.append(f"[{item.replace('+', ',')}]" if "+" in item else item)
    return key + equals + ",".join(plain)


def names_in(word: str) -> list[str]:
    """Return the names that an override chooses: of ``ewc`` or ``[ewc,replay]``; none of ``null``.

    Raises:
        SettingError: The value is something else.
    """
    _, group, text = split(word)
    if _PLAIN.fullmatch(text) and not RANGE.fullmatch(text):
        names: Any = [name for name in BETWEEN_NAMES.split(text) if name]
        return [] if names == ["null"] else names
    value: Any = read_single(word).value()
    names = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(name, str | int | float) for name in names):
        raise SettingError(
            f"'{word}': {group} takes the name of a choice; its settings are {group}.NAME=value"
        )
    return [str(name) for name in names]


def take_config_dirs(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return all other arguments, and the folders of ``--config-dir`` or ``config_dir=``.

    >>> take_config_dirs(["--config-dir", "mine", "seed=1", "config_dir=yours"])
    (['seed=1'], ['mine', 'yours'])
    """
    others: list[str] = []
    folders: list[str] = []
    rest = iter(arguments)
    for word in rest:
        key, _, value = word.partition("=")
        if word == "--config-dir":
            value = next(rest, "")
        elif key not in ("--config-dir", "config_dir"):
            others.append(word)
            continue
        value = value.strip().strip("[]").strip("'\"")
        if not value:
            raise SettingError(f"{key} needs a folder: config_dir=DIR")
        folders += [folder.strip() for folder in value.split(",")]
    return others, folders


def plugin_paths(overrides: Sequence[str]) -> list[str]:
    """Return the files named by ``plugin_path=``, which are loaded before names are checked."""
    if not any(override.startswith("plugin_path=") for override in overrides):
        return []
    from clframe.runs import received

    return received.plugin_paths(overrides)


def chosen_strategies(choices: Sequence[str]) -> list[str] | None:
    """Return the strategies named on the command line; None if there are none."""
    named = [choice for choice in choices if choice.startswith("strategy=")]
    return names_in(named[-1]) if named else None


# ---------------------------------------------------------------- checking names


def catalog_of(plugin_path: Sequence[str | Path] = (), config_dirs: Sequence[str] = ()) -> Catalog:
    """Return the catalog for one run, with the user's own files in it.

    Args:
        plugin_path: Files with plugins.
        config_dirs: Folders with config files, in addition to ``$CLFRAME_CONFIG``.
    """
    installed_catalog = _of_process(tuple(installed()))
    if not (plugin_path or config_dirs or os.environ.get("CLFRAME_CONFIG")):
        return installed_catalog
    from clframe.config.make_catalog import make
    from clframe.core.registry import discover

    return make(discover(plugin_path, config_dirs), installed_catalog)


@functools.lru_cache(maxsize=2)
def _of_process(packages: tuple[str, ...]) -> Catalog:
    """Return the catalog of what was installed when it was first read in this process."""
    return load_catalog()


def load_catalog() -> Catalog:
    """Return the catalog of clframe and the installed packages, from its file or the registry."""
    catalog = name_catalog.cached()
    if catalog is not None:
        return catalog
    from clframe.config.make_catalog import make_installed

    return make_installed()


def divide(overrides: Sequence[str], catalog: Catalog) -> tuple[list[str], list[str]]:
    """Divide overrides into choices in Hydra's groups and settings, and check their names.

    Raises:
        SettingError: A key is unknown, or a group cannot be left out.
        UnknownNameError: A name is unknown.
    """
    choices: list[str] = []
    settings: list[str] = []
    for word in map(split_plus, overrides):
        sign, key, value = split(word)
        if key in ROOT_KEYS:
            choices.append(f"~{key}" if sign == "~" else f"{key}={value}")
        elif key in CHOSEN:
            choice, more = _choice(word, catalog)
            choices.append(choice)
            settings += more
        else:
            check_key(sign, key, overrides, catalog)
            settings.append(word)
    return choices, settings


def _choice(word: str, catalog: Catalog) -> tuple[str, list[str]]:
    """Return the choice in a group as Hydra takes it, and settings that follow from it."""
    sign, key, text = split(word)
    names = names_in(word) if text or sign != "~" else []
    if sign == "+" and key in SEVERAL:
        raise SettingError(f"'{word}': list every {key}: {key}=[a,{text}]")
    if sign == "~" or not names:
        if key not in EMPTY_CHOICES:
            raise SettingError(f"'{word}': {key} cannot be left out; write {key}=NAME")
        if names:
            raise SettingError(f"'{word}': write ~{key}, or {key}=NAME for another one")
        return f"{key}={EMPTY_CHOICES[key]}", []
    classes = [name for name in names if key == "logger" and "." in name]
    for name in names:
        if name in classes or name in catalog.groups[key]:
            continue
        if key == "model" and _is_backbone(name):
            return "model=timm", [f"model.backbone={name}"]
        catalog.check(key, name)
    if not classes:
        return f"{key}={text}", []
    if len(classes) > 1 or "lightning" in names:
        raise SettingError(f"'{word}' names several classes; a run can have one of them")
    chosen = ["lightning" if "." in name else name for name in names]
    return f"logger=[{','.join(chosen)}]", [f"logger.lightning.class_path={classes[0]}"]


def _is_backbone(name: str) -> bool:
    from clframe.models.backbone import is_backbone

    return is_backbone(name)


def check_key(sign: str, key: str, overrides: Sequence[str], catalog: Catalog) -> None:
    """Refuse a setting that nothing in the run has."""
    group, dot, name = key.partition(".")
    offered = {*GROUPS, *ROOT_KEYS}
    if not dot:
        if key in SETTINGS or sign == "~":
            return
        items = [item for kind in catalog.items.values() for item in kind.values()]
        if not any(key in item.settings for item in items):
            from clframe.config.chosen_settings import chosen_settings

            for names in chosen_settings(catalog, overrides).values():
                offered.update(names)
            raise SettingError(f"unknown key '{key}'; {nearest(key, offered)}")
        return
    if group not in GROUPS or group == "experiment":
        raise SettingError(f"unknown key '{key}'; {nearest(group, offered)}")
    depth = 1 if group in SEVERAL else 0
    if name.count(".") > depth:
        form = ".".join((group, *name.split(".")[:depth], "NAME=value"))
        raise SettingError(f"'{key}' has too many parts; settings are {form}")
    if group in SETTINGS:
        settings = catalog.items[group][group].settings
        homes = [other for other in SETTINGS if name in catalog.items[other][other].settings]
        if group not in homes:
            right = f"write {homes[0]}.{name}" if homes else nearest(name, settings)
            raise SettingError(f"unknown setting '{name}' for {group}; {right}")
