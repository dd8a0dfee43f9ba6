"""Put settings into the config that Hydra has composed, and return it as plain values."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clframe.config.groups import GROUPS, NAMED, ROOT_KEYS, SETTINGS, SEVERAL
from clframe.config.name_catalog import Catalog, Item, Setting
from clframe.config.read_overrides import read_single
from clframe.errors import SettingError, nearest

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig


def apply(config: DictConfig, settings: Sequence[str], catalog: Catalog) -> None:
    """Put settings into a composed config, or take them out of it.

    Args:
        config: Changed in place.
        settings: Overrides of settings, with checked keys.
        catalog: The names and settings that there are.

    Raises:
        SettingError: A setting belongs to nothing in the config, or to several entries.
    """
    from omegaconf import OmegaConf

    overrides: list[Override] = []
    for override in map(read_single, settings):
        key = override.key_or_group
        same = [other for other in overrides if other.key_or_group == key and not other.is_delete()]
        if override.is_delete() and same and "." not in key:  # of a bare name given before
            _check_value(override, same[-1].value())
            overrides = [other for other in overrides if other not in same]
        else:
            overrides.append(override)
    for override in overrides:
        key = _of_only_logger(config, override.key_or_group)
        if override.is_delete():
            _delete(config, override)
        elif key in SETTINGS and not isinstance(override.value(), dict):
            raise SettingError(f"'{override.input_line}': write {key}.SETTING=value")
        else:
            path = key if key in SETTINGS else find_place(config, key, catalog)
            OmegaConf.update(config, path, override.value(), force_add=True)


def find_place(config: DictConfig, key: str, catalog: Catalog) -> str:
    """Return the place of a setting in a config; a bare name must have exactly one."""
    if "." in key:
        holder = _holder(config, key)
    else:
        entries = settings_in(config, catalog)
        homes = [entry for entry, settings in entries.items() if key in settings]
        if not homes:
            offered = {*GROUPS, *ROOT_KEYS, *(name for own in entries.values() for name in own)}
            raise SettingError(f"unknown key '{key}'; {nearest(key, offered)}")
        if len(homes) > 1:
            candidates = " or ".join(f"{entry}.{key}" for entry in homes)
            raise SettingError(f"'{key}' could be {candidates}; write which one you mean")
        holder = homes[0]
        key = f"{holder}.{key}"
    group, _, name = holder.partition(".")
    if config.get(group) is None:
        config[group] = {}
    if name and config[group].get(name) is None:
        config[group][name] = {}
    return key


def _holder(config: DictConfig, key: str) -> str:
    """Return the entry that a dotted key is a setting of."""
    group, _, rest = key.partition(".")
    if group not in SEVERAL:
        return group
    name = rest.partition(".")[0]
    chosen = config.get(group) or {}
    if name not in chosen:
        role = "part of this strategy" if group == "strategy" else "a logger of this run"
        raise SettingError(f"'{key}': '{name}' is not {role}; {nearest(name, chosen)}")
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
    """Remove a setting, so that its default holds: ``~optimizer.lr`` or ``~lr``."""
    from omegaconf import OmegaConf

    key = _of_only_logger(config, override.key_or_group)
    holder, _, name = key.rpartition(".")
    if holder:
        _holder(config, key)
        holders = [(holder, OmegaConf.select(config, holder))]
    else:
        holders = [item for item in _filled(config) if name in item[1]]
    if len(holders) > 1:
        ways = " or ".join(f"~{group}.{name}" for group, _ in holders)
        raise SettingError(f"'~{key}' could be {ways}; write which one you mean")
    if not holders or name not in (holders[0][1] or {}):
        raise SettingError(f"'~{key}': {key} is not set here, so it cannot be removed")
    _check_value(override, holders[0][1][name])
    del holders[0][1][name]


def _check_value(override: Override, value: Any) -> None:
    """Refuse to remove a setting with another value than the override names."""
    named = override.value()
    if named is not None and named != value:
        key = override.key_or_group
        raise SettingError(f"'{override.input_line}': {key} is {value}, not {named}")


def _filled(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a config that hold settings, with their places."""
    for group in (*NAMED, *SETTINGS):
        if config.get(group):
            yield group, config[group]
    for group in SEVERAL:
        for name, values in (config.get(group) or {}).items():
            if values:
                yield f"{group}.{name}", values


# ---------------------------------------------------------------- values


def resolve(config: DictConfig, settings: Sequence[str], catalog: Catalog) -> dict[str, Any]:
    """Put settings into a composed config and return it as plain values.

    An interpolation may refer to a setting that is left out, and gets its default. Environment
    variables are refused, because their values would be written into ``config.yaml``.

    Args:
        config: Changed in place.
        settings: Overrides of settings, with checked keys.
        catalog: The names and settings that there are.

    Raises:
        ClframeError: A name is unknown, a required value is missing, or an environment variable
            is used.
        OmegaConfBaseException: An interpolation cannot be resolved.
    """
    from omegaconf import OmegaConf

    with _without_environment():
        apply(config, settings, catalog)
        raw = OmegaConf.to_container(config)
        assert isinstance(raw, dict)
        for key in _missing(raw):
            raise SettingError(f"{key} must be given, as {key}=value")
        defaults: dict[str, Any] = {"strategy": {}}
        for where, settings_of_entry in settings_in(config, catalog).items():
            values = {name: setting.default for name, setting in settings_of_entry.items()}
            group, _, plugin = where.partition(".")
            (defaults[group] if plugin else defaults)[plugin or group] = values
        if "${" not in str(raw):
            return {str(key): value for key, value in raw.items()}
        resolved: Any = OmegaConf.to_container(OmegaConf.merge(defaults, config), resolve=True)
    return {str(key): _only(resolved[key], raw[key]) for key in raw}


def _missing(content: Any, key: str = "") -> Iterator[str]:
    """Yield the keys with the value ``???``, which is how a file leaves a value open."""
    if content == "???":
        yield key
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _missing(value, f"{key}.{name}" if key else str(name))


@contextlib.contextmanager
def _without_environment() -> Iterator[None]:
    """Refuse ``${oc.env:NAME}``."""
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    def refuse(*names: str) -> Any:
        raise SettingError(
            f"'${{oc.env:{','.join(names)}}}' would write an environment variable into "
            "config.yaml; let the shell insert it: key=$NAME"
        )

    OmegaConf.register_new_resolver("oc.env", refuse, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def _only(value: Any, template: Any) -> Any:
    """Return the entries of ``value`` that ``template`` has too."""
    if isinstance(template, dict) and isinstance(value, dict):
        return {str(key): _only(value[key], template[key]) for key in template}
    return value


@contextlib.contextmanager
def error_messages() -> Iterator[None]:
    """Turn errors of Hydra and OmegaConf into one line of clframe's."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise SettingError(_message(error)) from error


def _message(error: Exception) -> str:
    """Return a message of Hydra's as one line; of a resolver's error, only its own text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    ours = re.match(r"SettingError raised while resolving interpolation: (.*)", first)
    if ours:
        return ours[1]
    keys = [line.removeprefix("full_key: ") for line in lines if line.startswith("full_key: ")]
    details = [line for line in lines[1:] if not line.startswith(("full_key:", "object_type="))]
    return " ".join([*(f"{key}:" for key in keys[:1]), first, *details[:2]])
