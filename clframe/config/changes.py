"""Single settings put into, or taken out of, a config that Hydra has composed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clframe.checkpoint.settings import CheckpointSettings
from clframe.core.registry import GIVEN, Kind, Registry
from clframe.core.trainer import TrainerSettings
from clframe.errors import SettingError, nearest
from clframe.utils import setting_checks

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

_NAMED: tuple[Kind, ...] = ("stream", "model", "learner", "optimizer", "scheduler")
_SEVERAL = ("strategy", "logger")
"""Groups whose settings lie one level deeper, under the name of a plugin or logger."""


def change(config: DictConfig, override: Override, known: Sequence[str]) -> None:
    """Do what one word says.

    Args:
        config: Changed in place.
        override: Of a dotted key or a bare name, which stays at the root until it is placed.
        known: What a key may begin with.

    Raises:
        SettingError: The place is not there.
    """
    from omegaconf import OmegaConf

    key = _of_only_logger(config, override.key_or_group)
    if "." in key:
        _check_place(config, key, known)
    if override.is_delete():
        _delete(config, override)
    elif key == "checkpoint" and not isinstance(override.value(), dict):
        raise SettingError(f"'{override.input_line}': write checkpoint.SETTING=value")
    else:
        OmegaConf.update(config, key, override.value(), force_add=True)


def _of_only_logger(config: DictConfig, key: str) -> str:
    """``logger.name`` is a setting of the one logger that there is."""
    group, _, rest = key.partition(".")
    loggers = list(config.get("logger") or {}) if group == "logger" else []
    if len(loggers) == 1 and rest and "." not in rest and rest != loggers[0]:
        return f"logger.{loggers[0]}.{rest}"
    return key


def _check_place(config: DictConfig, key: str, known: Sequence[str]) -> None:
    group, _, rest = key.partition(".")
    if group not in known or group == "experiment":
        raise SettingError(f"unknown key '{key}'; {nearest(group, known)}")
    if config.get(group) is None:
        config[group] = {}
    if group not in _SEVERAL:
        if "." in rest:
            raise SettingError(f"'{key}' has too many parts; settings are {group}.NAME=value")
        return
    name, _, setting = rest.partition(".")
    if name not in config[group]:
        words = "part of this strategy" if group == "strategy" else "a logger of this run"
        raise SettingError(f"'{key}': '{name}' is not {words}; {nearest(name, config[group])}")
    if config[group][name] is None:
        config[group][name] = {}
    if "." in setting:
        raise SettingError(f"'{key}' has too many parts; settings are {group}.{name}.NAME=value")


def _delete(config: DictConfig, override: Override) -> None:
    """``~optimizer.lr`` or bare ``~lr``: the default holds again."""
    key = override.key_or_group
    holder, _, name = key.rpartition(".")
    if holder:
        places = [(holder, _select(config, holder))]
    elif name in config:  # given before, and not placed yet
        places = [("", config)]
    else:
        places = [place for place in _places(config) if name in place[1]]
    if len(places) > 1:
        ways = " or ".join(f"~{where}.{name}" for where, _ in places)
        raise SettingError(f"'~{key}' could be {ways}; write which one you mean")
    if not places or name not in places[0][1]:
        raise SettingError(f"'~{key}': nothing sets {key} here, so there is nothing to take out")
    target = places[0][1]
    wanted = override.value()
    if wanted is not None and wanted != target[name]:
        raise SettingError(f"'{override.input_line}': {key} is {target[name]}, not {wanted}")
    del target[name]


def _select(config: DictConfig, key: str) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.select(config, key)


def _places(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """The parts of a config that hold settings."""
    for group in (*_NAMED, "trainer", "checkpoint"):
        if config.get(group):
            yield group, config[group]
    for group in _SEVERAL:
        for name, values in (config.get(group) or {}).items():
            if values:
                yield f"{group}.{name}", values


# ---------------------------------------------------------------- resolving


def resolve(config: DictConfig, registry: Registry) -> dict[str, Any]:
    """The config as plain values.

    An interpolation may refer to a setting that is not given and has its default then. Variables
    of the environment are refused: what is in them would be written down in ``config.yaml``.

    Raises:
        SettingError: Something that must be given is not, or the environment is asked for.
        OmegaConfBaseException: An interpolation cannot be resolved.
    """
    from omegaconf import OmegaConf

    raw = OmegaConf.to_container(config)
    assert isinstance(raw, dict)
    for key in _missing(raw):
        raise SettingError(f"{key} must be given, as {key}=value")
    if "${" not in str(raw):
        return {str(key): value for key, value in raw.items()}
    whole = OmegaConf.merge(_defaults(config, registry), config)
    with _without_environment():
        resolved: Any = OmegaConf.to_container(whole, resolve=True)
    return {str(key): _only(resolved[key], raw[key]) for key in raw}


def _missing(content: Any, key: str = "") -> Iterator[str]:
    """The keys whose value is ``???``, which is how a file leaves a value open."""
    if content == setting_checks.REQUIRED:
        yield key
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _missing(value, f"{key}.{name}" if key else str(name))


@contextlib.contextmanager
def _without_environment() -> Iterator[None]:
    """While it lasts ``${oc.env:NAME}`` is refused."""
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    def refuse(*words: str) -> Any:
        raise SettingError(
            f"'${{oc.env:{','.join(words)}}}' would write a variable of the environment into "
            "config.yaml; let the shell put it in: key=$NAME"
        )

    OmegaConf.register_new_resolver("oc.env", refuse, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def _defaults(config: DictConfig, registry: Registry) -> dict[str, Any]:
    """All settings of what is chosen, with their defaults."""
    defaults: dict[str, Any] = {
        "trainer": setting_checks.defaults(TrainerSettings),
        "checkpoint": setting_checks.defaults(CheckpointSettings),
        "strategy": {
            name: setting_checks.defaults(registry.get("plugin", name).factory)
            for name in config.get("strategy") or {}
        },
    }
    for kind in _NAMED:
        factory = registry.get(kind, config[kind].name).factory
        defaults[kind] = setting_checks.defaults(factory, GIVEN.get(kind, ()))
    return defaults


def _only(value: Any, wanted: Any) -> Any:
    """What ``wanted`` holds, with the values of the other."""
    if isinstance(wanted, dict) and isinstance(value, dict):
        return {str(key): _only(value[key], wanted[key]) for key in wanted}
    return value
