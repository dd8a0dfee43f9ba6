"""Strategies: named, validated, ordered sets of plugins. Data, not classes.

A strategy is a mapping from plugin name to settings, kept in ``configs/strategy/NAME.yaml``. Every
plugin is also a strategy of its own name. Any composition is allowed unless the
roles of two plugins conflict (clframe/core/roles.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from clframe.core.plugin import Plugin
from clframe.errors import SettingError, UnknownNameError, nearest
from clframe.utils.config_files import config_files

if TYPE_CHECKING:
    from clframe.core.registry import Registry

StrategyLike: TypeAlias = (
    "str | Plugin | Mapping[str, Any] | Sequence[str | Plugin | Mapping[str, Any]]"
)

DEFAULT_PLUGINS = (
    "curves",
    "continual_evaluation",
    "validation_loss",
    "metrics",
    "recorder",
    "data_record",
    "status",
    "lifetime_log",
    "logging",
    "progress",
    "progress_bar",
    "loop",
    "accuracy",
    "rollouts",
    "videos",
    "samples",
    "held_out",
)
"""Plugins that every run has, in their order, where it needs them; not strategies."""


@dataclass(frozen=True)
class Strategy:
    """A named composition.

    Args:
        name: What users type.
        plugins: Settings by plugin name, in the order of the calls.
        summary: One line.
        has_file: Whether it is kept in ``configs/strategy``.
    """

    name: str
    plugins: dict[str, dict[str, Any]]
    summary: str
    has_file: bool = False


def known_strategies(registry: Registry) -> dict[str, Strategy]:
    """All strategies by name: those with a file, and one for each plugin without."""
    strategies = {}
    for name, file in config_files("strategy", registry.config_dirs).items():
        if file.from_user and name in registry.names("plugin"):
            raise SettingError(f"'{file.path}' has the name of a plugin; call it differently")
        content = file.read()
        for plugin, values in content.items():
            if not isinstance(values, Mapping | None):
                raise SettingError(
                    f"'{file.path}': a strategy is plugins with their settings; '{plugin}' has "
                    f"{values!r}"
                )
        plugins = {plugin: dict(values or {}) for plugin, values in content.items()}
        strategies[name] = Strategy(name, plugins, file.summary, has_file=True)
    for entry in registry.entries("plugin"):
        if entry.name not in strategies and entry.name not in DEFAULT_PLUGINS:
            strategies[entry.name] = Strategy(entry.name, {entry.name: {}}, entry.summary)
    return dict(sorted(strategies.items()))


def compose(
    strategy: StrategyLike, registry: Registry, stream: str = ""
) -> tuple[str, list[Plugin]]:
    """Convert what a user named to a name and plugins, each made from checked settings.

    Plugins that only measure are not part of the name: their runs are of the same strategy.

    Args:
        strategy: A strategy's name, names joined by ``+``, a plugin object, a mapping from plugin
            name to settings, or a list of those.
        registry: Where names resolve.
        stream: What will be learned; it may have defaults of its own for plugins' settings.
    """
    parts = [strategy] if isinstance(strategy, str | Plugin | Mapping) else list(strategy)
    parts = [name for part in parts for name in _divided(part, registry)]
    names: list[str] = []
    plugins: list[Plugin] = []
    settings: dict[str, dict[str, Any]] = {}
    order: list[Plugin | str] = []
    for part in parts:
        if isinstance(part, Plugin):
            names.append(part.name)
            order.append(part)
            continue
        if isinstance(part, str):
            names.append(part)
            chosen: Mapping[str, Any] = _named(part, registry).plugins
        else:
            chosen = part
            names.extend(chosen)
        for plugin, values in chosen.items():
            if values is not None and not isinstance(values, Mapping):
                raise SettingError(
                    f"strategy: the settings of '{plugin}' must be a mapping, got {values!r}"
                )
            if plugin not in settings:
                order.append(plugin)
            settings.setdefault(plugin, {}).update(values or {})
    for item in order:
        if isinstance(item, Plugin):
            plugins.append(item)
        else:
            defaults = registry.plugins_for(stream).get(item, {})
            plugins.append(registry.build("plugin", item, {**defaults, **settings[item]}))
    measuring = {plugin.name for plugin in plugins if plugin.capabilities.evaluator}
    return joined(names, measuring), plugins


def joined(names: Sequence[str], measuring: Collection[str]) -> str:
    """What a composition is called.

    >>> joined(["ewc", "er", "plasticity"], {"plasticity"}), joined(["plasticity"], {"plasticity"})
    ('ewc+er', 'naive')

    Args:
        names: Of its parts, in their order.
        measuring: The plugins that only measure.
    """
    return "+".join(name for name in dict.fromkeys(names) if name not in measuring) or "naive"


def measuring_plugins(registry: Registry) -> set[str]:
    """The registered plugins that only measure."""
    plugins = registry.plugin_classes()
    return {name for name, plugin in plugins.items() if plugin.capabilities.evaluator}


def _divided(part: Any, registry: Registry) -> list[Any]:
    """The names in ``ewc+replay``; anything else alone."""
    if isinstance(part, str) and "+" in part and part not in known_strategies(registry):
        return part.split("+")
    return [part]


def _named(name: str, registry: Registry) -> Strategy:
    known = known_strategies(registry)
    if name not in known:
        raise UnknownNameError(f"unknown strategy '{name}'; {nearest(name, known)}")
    return known[name]
