"""Strategies: named, validated, ordered sets of plugins. Data, not classes.

A strategy is a mapping from plugin name to settings, stored in ``configs/strategy/NAME.yaml``.
Every plugin is also a strategy of the same name. Any composition is allowed unless the
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
"""Plugins of every run that needs them, in order; they are not strategies."""


@dataclass(frozen=True)
class Strategy:
    """A named composition of plugins.

    Args:
        name: The name that users type.
        plugins: Settings by plugin name, in calling order.
        summary: One-line description.
        has_file: Whether it is stored in ``configs/strategy``.
    """

    name: str
    plugins: dict[str, dict[str, Any]]
    summary: str
    has_file: bool = False


def known_strategies(registry: Registry) -> dict[str, Strategy]:
    """Return all strategies by name: those with a file, and one for each other plugin."""
    strategies = {}
    for name, file in config_files("strategy", registry.config_dirs).items():
        if file.from_user and name in registry.names("plugin"):
            raise SettingError(f"'{file.path}' has the name of a plugin: rename the file")
        content = file.read()
        for plugin, values in content.items():
            if not isinstance(values, Mapping | None):
                raise SettingError(
                    f"'{file.path}': a strategy maps plugins to their settings, but '{plugin}' has "
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
    """Return the name and plugins of a strategy, each plugin made from checked settings.

    Plugins that only measure are not part of the name: their runs have the same strategy.

    Args:
        strategy: A strategy's name, names joined by ``+``, a plugin object, a mapping from plugin
            name to settings, or a list of those.
        registry: Registry that resolves names.
        stream: The stream to learn; it may have its own defaults for plugins' settings.
    """
    items = [strategy] if isinstance(strategy, str | Plugin | Mapping) else list(strategy)
    items = [name for entry in items for name in _divided(entry, registry)]
    names: list[str] = []
    plugins: list[Plugin] = []
    settings: dict[str, dict[str, Any]] = {}
    order: list[Plugin | str] = []
    for entry in items:
        if isinstance(entry, Plugin):
            names.append(entry.name)
            order.append(entry)
            continue
        if isinstance(entry, str):
            names.append(entry)
            chosen: Mapping[str, Any] = _named(entry, registry).plugins
        else:
            chosen = entry
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
    """Return the name of a composition.

    >>> joined(["ewc", "er", "plasticity"], {"plasticity"}), joined(["plasticity"], {"plasticity"})
    ('ewc+er', 'naive')

    Args:
        names: Names of its members, in order.
        measuring: The plugins that only measure.
    """
    return "+".join(name for name in dict.fromkeys(names) if name not in measuring) or "naive"


def measuring_plugins(registry: Registry) -> set[str]:
    """Return the registered plugins that only measure."""
    plugins = registry.plugin_classes()
    return {name for name, plugin in plugins.items() if plugin.capabilities.evaluator}


def _divided(item: Any, registry: Registry) -> list[Any]:
    """Split names like ``ewc+replay``; return anything else as a single item."""
    if isinstance(item, str) and "+" in item and item not in known_strategies(registry):
        return item.split("+")
    return [item]


def _named(name: str, registry: Registry) -> Strategy:
    strategies = known_strategies(registry)
    if name not in strategies:
        raise UnknownNameError(f"unknown strategy '{name}'; {nearest(name, strategies)}")
    return strategies[name]
