"""Overrides: the arguments ``key=value`` of a command, in Hydra's grammar.

An override chooses in a group (``strategy=ewc``) or changes a setting: ``trainer.max_epochs=2``,
its bare name ``max_epochs=2``, or ``~optimizer.lr`` for the default. :func:`divide` checks keys and
names with the catalog before Hydra is imported. :func:`apply` puts the settings into the config
that Hydra has composed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clframe.config.catalog import Catalog, Item, Setting
from clframe.config.groups import (
    CHOSEN,
    EMPTY_CHOICES,
    GROUPS,
    NAMED,
    ROOT_KEYS,
    SETTINGS,
    SEVERAL,
)
from clframe.errors import SettingError, nearest

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

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
            f"'{word}' is a setting of Hydra's, which clframe runs without: a run's folder is "
            "run_dir=DIR, a sweep's settings are sweep.NAME=value"
        )
    valid = sign in ("", "+", "++", "~") and (equals or sign == "~")
    if not valid or not _KEY.fullmatch(key):
        raise SettingError(f"'{word}' is not a setting; write key=value")
    if at:
        raise SettingError(
            f"'{word}': '@' moves a group elsewhere, which no run has a use for; write "
            f"{key}={value}"
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
            f"'{word}' cannot be read ({reason}); several values are a,b,c or range(0,10), and "
            "a text with other signs goes in quotes"
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
        raise SettingError(f"'{word}': a name is missing beside '+'; write strategy=ewc+replay")
    parts = re.split(r"(\[[^\]]*\])|,", value)
    plain = []
    for part in filter(None, parts):
        if part.startswith("["):
            plain.append(part.replace("+", ","))
        else:
            plain.append(f"[{part.replace('+', ',')}]" if "+" in part else part)
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


def take_config_dirs(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return all other words, and the folders of ``--config-dir DIR`` or ``config_dir=DIR``.

    >>> take_config_dirs(["--config-dir", "mine", "seed=1", "config_dir=yours"])
    (['seed=1'], ['mine', 'yours'])
    """
    others: list[str] = []
    folders: list[str] = []
    rest = iter(words)
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


# ---------------------------------------------------------------- checking names


def divide(words: Sequence[str], catalog: Catalog) -> tuple[list[str], list[str]]:
    """Divide overrides into choices in Hydra's groups and settings, and check their names.

    Raises:
        SettingError: A key is unknown, or a group cannot be left out.
        UnknownNameError: A name is unknown.
    """
    choices: list[str] = []
    settings: list[str] = []
    for word in map(split_plus, words):
        sign, key, value = split(word)
        if key in ROOT_KEYS:
            choices.append(f"~{key}" if sign == "~" else f"{key}={value}")
        elif key in CHOSEN:
            choice, more = _choice(word, catalog)
            choices.append(choice)
            settings += more
        else:
            check_key(sign, key, words, catalog)
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


def check_key(sign: str, key: str, words: Sequence[str], catalog: Catalog) -> None:
    """Refuse the key of a setting that nothing has."""
    group, dot, name = key.partition(".")
    offered = {*GROUPS, *ROOT_KEYS}
    if not dot:
        if key in SETTINGS or sign == "~":
            return
        items = [item for kind in catalog.items.values() for item in kind.values()]
        if not any(key in item.settings for item in items):
            for names in chosen_settings(catalog, words).values():
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
        if name not in settings:
            raise SettingError(f"unknown setting '{name}' for {group}; {nearest(name, settings)}")


def chosen_settings(catalog: Catalog, words: Sequence[str]) -> dict[str, list[str]]:
    """Return the settings of what overrides choose, or of the defaults, by their place."""
    values = {key: value for key, _, value in (word.partition("=") for word in words)}
    settings = {group: list(catalog.items[group][group].settings) for group in SETTINGS}
    for group in catalog.groups:
        value = values.get(group, catalog.defaults.get(group, ""))
        names = [name for name in BETWEEN_NAMES.split(value) if name]
        if group == "model" and not names:
            stream = catalog.items["stream"].get(values.get("stream", catalog.defaults["stream"]))
            names = [stream.model.get("name", "mlp") if stream is not None else "mlp"]
        for name in names:
            item = catalog.items.get(group, {}).get(name)
            if item is None:
                continue
            if group == "strategy":
                for plugin in item.plugins:
                    part = catalog.items["plugin"][plugin]
                    settings[f"strategy.{plugin}"] = list(part.settings)
            elif group == "logger":
                settings[f"logger.{name}"] = list(item.settings)
            elif item.settings:
                settings[group] = list(item.settings)
    return settings


# ---------------------------------------------------------------- applying


def apply(config: DictConfig, words: Sequence[str], catalog: Catalog) -> None:
    """Put settings into a composed config, or take them out of it.

    Args:
        config: Changed in place.
        words: Overrides of settings, with checked keys.
        catalog: The names and settings that there are.

    Raises:
        SettingError: A setting belongs to nothing in the config, or to several things.
    """
    from omegaconf import OmegaConf

    overrides: list[Override] = []
    for override in map(read_single, words):
        key = override.key_or_group
        same = [one for one in overrides if one.key_or_group == key and not one.is_delete()]
        if override.is_delete() and same and "." not in key:  # of a bare name given before
            _check_value(override, same[-1].value())
            overrides = [one for one in overrides if one not in same]
        else:
            overrides.append(override)
    for override in overrides:
        key = _of_only_logger(config, override.key_or_group)
        if override.is_delete():
            _delete(config, override)
        elif key in SETTINGS and not isinstance(override.value(), dict):
            raise SettingError(f"'{override.input_line}': write {key}.SETTING=value")
        else:
            place = key if key in SETTINGS else find_place(config, key, catalog)
            OmegaConf.update(config, place, override.value(), force_add=True)


def find_place(config: DictConfig, key: str, catalog: Catalog) -> str:
    """Return where a setting is in a config; a bare name belongs to the one thing that has it."""
    if "." in key:
        holder = _holder(config, key)
    else:
        parts = settings_in(config, catalog)
        homes = [where for where, settings in parts.items() if key in settings]
        if not homes:
            offered = {*GROUPS, *ROOT_KEYS, *(name for part in parts.values() for name in part)}
            raise SettingError(f"unknown key '{key}'; {nearest(key, offered)}")
        if len(homes) > 1:
            places = " or ".join(f"{where}.{key}" for where in homes)
            raise SettingError(f"'{key}' could be {places}; write which one you mean")
        holder = homes[0]
        key = f"{holder}.{key}"
    group, _, name = holder.partition(".")
    if config.get(group) is None:
        config[group] = {}
    if name and config[group].get(name) is None:
        config[group][name] = {}
    return key


def _holder(config: DictConfig, key: str) -> str:
    """Return what a dotted key is a setting of."""
    group, _, rest = key.partition(".")
    if group not in SEVERAL:
        return group
    name = rest.partition(".")[0]
    chosen = config.get(group) or {}
    if name not in chosen:
        what = "part of this strategy" if group == "strategy" else "a logger of this run"
        raise SettingError(f"'{key}': '{name}' is not {what}; {nearest(name, chosen)}")
    return f"{group}.{name}" if "." in rest else group


def settings_in(config: DictConfig, catalog: Catalog) -> dict[str, dict[str, Setting]]:
    """Return the settings of everything chosen in a config that bare names can stand for."""
    items: dict[str, Item] = {kind: catalog.get(kind, config[kind]["name"]) for kind in NAMED}
    items |= {group: catalog.items[group][group] for group in SETTINGS}
    for plugin in config.get("strategy") or {}:
        items[f"strategy.{plugin}"] = catalog.get("plugin", plugin)
    return {where: item.settings for where, item in items.items()}


def _of_only_logger(config: DictConfig, key: str) -> str:
    """Return ``logger.name`` as a setting of the only logger, if there is one."""
    group, _, rest = key.partition(".")
    loggers = list(config.get("logger") or {}) if group == "logger" else []
    if len(loggers) == 1 and rest and "." not in rest and rest != loggers[0]:
        return f"logger.{loggers[0]}.{rest}"
    return key


def _delete(config: DictConfig, override: Override) -> None:
    """Take a setting out, so that its default holds: ``~optimizer.lr`` or ``~lr``."""
    from omegaconf import OmegaConf

    key = _of_only_logger(config, override.key_or_group)
    holder, _, name = key.rpartition(".")
    if holder:
        _holder(config, key)
        places = [(holder, OmegaConf.select(config, holder))]
    else:
        places = [place for place in _filled(config) if name in place[1]]
    if len(places) > 1:
        ways = " or ".join(f"~{where}.{name}" for where, _ in places)
        raise SettingError(f"'~{key}' could be {ways}; write which one you mean")
    if not places or name not in (places[0][1] or {}):
        raise SettingError(f"'~{key}': nothing sets {key} here, so there is nothing to take out")
    _check_value(override, places[0][1][name])
    del places[0][1][name]


def _check_value(override: Override, value: Any) -> None:
    """Refuse to take out a setting with another value than the override names."""
    named = override.value()
    if named is not None and named != value:
        key = override.key_or_group
        raise SettingError(f"'{override.input_line}': {key} is {value}, not {named}")


def _filled(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a config that hold settings, with their places."""
    for group in (*NAMED, *SETTINGS):
        if config.get(group):
            yield group, config[group]
    for group in SEVERAL:
        for name, values in (config.get(group) or {}).items():
            if values:
                yield f"{group}.{name}", values
