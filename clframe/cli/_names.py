"""A misspelt group, key or name is reported before anything heavy is imported.

What is checked here is checked again, and completely, when the run is composed; this only knows the
sentences that need no more than the catalog. Whatever it cannot judge it lets pass: files of the
user's own, options, lists of values in Hydra's grammar.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from clframe.cli import _name_cache
from clframe.cli._name_cache import Catalog
from clframe.errors import SettingError, UnknownNameError, nearest

WORDS_OF_FIT = ("seeds", "sweep", "sweep_dir", "resume", "resume_allow")
"""Keys that ``clframe fit`` reads itself; they are no part of a run's config."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w.]*")
_PLAIN_NAMES = re.compile(r"[\w./,+\[\] -]+")
_BETWEEN_NAMES = re.compile(r"[,+\[\] ]+")


def check_names(words: Sequence[str]) -> None:
    """Refuse a group, key or name of the registry that does not exist.

    Args:
        words: Settings of a run, ``key=value``.

    Raises:
        SettingError: A key is unknown.
        UnknownNameError: A name is.
    """
    others = ("-", "plugin_path=", "resume=", "experiment=", "config_dir=")
    if any(word.startswith(others) for word in words) or os.environ.get("CLFRAME_CONFIG"):
        return
    known = _name_cache.load()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _PLAIN_KEY.fullmatch(key):
            continue
        group, _, rest = key.partition(".")
        if group in known.groups:
            if rest:
                _check_setting(known, group, rest)
            else:
                _check_choice(known, group, value)
        elif group not in known.root_keys and group not in WORDS_OF_FIT:
            _check_key(known, key, words)


def _check_choice(known: Catalog, group: str, value: str) -> None:
    # Hundreds of backbones are models, too, which only timm knows.
    if group == "model" or not known.groups[group] or not _PLAIN_NAMES.fullmatch(value):
        return
    for name in filter(None, _BETWEEN_NAMES.split(value)):
        if group == "logger" and "." in name:
            continue  # the class of a Lightning logger
        if name not in known.groups[group] and name != "null":
            near = nearest(name, known.groups[group])
            raise UnknownNameError(f"unknown {group} '{name}'; {near}")


def _check_setting(known: Catalog, group: str, name: str) -> None:
    if group in ("trainer", "checkpoint"):
        settings = known.items[group][group].settings
        if name not in settings and "." not in name:
            raise SettingError(f"unknown setting '{name}' for {group}; {nearest(name, settings)}")


def _check_key(known: Catalog, key: str, words: Sequence[str]) -> None:
    """Refuse a key that is a setting of nothing, and suggest one of what is chosen."""
    offered = {*known.groups, *known.root_keys}
    if "." in key:
        group = key.partition(".")[0]
        raise SettingError(f"unknown key '{key}'; {nearest(group, offered)}")
    if any(key in item.settings for items in known.items.values() for item in items.values()):
        return
    for settings in chosen_settings(known, words).values():
        offered.update(settings)
    raise SettingError(f"unknown key '{key}'; {nearest(key, offered)}")


def chosen_settings(known: Catalog, words: Sequence[str]) -> dict[str, list[str]]:
    """The settings of what the words choose, or what is chosen by default, by where they belong."""
    values = {key: value for key, _, value in (word.partition("=") for word in words)}
    settings = {
        group: list(known.items[group][group].settings) for group in ("trainer", "checkpoint")
    }
    for group in known.groups:
        value = values.get(group, known.defaults.get(group, ""))
        names = [name for name in _BETWEEN_NAMES.split(value) if name]
        if group == "model" and not names:
            stream = known.items["stream"].get(values.get("stream", known.defaults["stream"]))
            names = [stream.model.get("name", "mlp") if stream is not None else "mlp"]
        for name in names:
            item = known.items.get(group, {}).get(name)
            if item is None:
                continue
            if group == "strategy":
                for plugin in item.plugins:
                    part = known.items["plugin"][plugin]
                    settings[f"strategy.{plugin}"] = list(part.settings)
            elif group == "logger":
                settings[f"logger.{name}"] = list(item.settings)
            elif item.settings:
                settings[group] = list(item.settings)
    return settings
