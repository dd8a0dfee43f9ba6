"""Check which plugins can be attached to another trainer, and what they need.

A plugin declares it (``Capabilities.attachable``), or its hooks do: a plugin needs the arguments of
its hooks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from clframe.core.plugin import Plugin
from clframe.errors import PluginError
from clframe.hookspecs import HOOKS

_REASONS = {
    "fit_experience": "it trains an experience by itself, which your own code does here",
    "extra_data": "it adds samples to an experience's data, which your own loader does not give",
    "predict": "it makes its own predictions, which your own code does not use",
    "evaluate_task": "it measures, which your own code does here",
    "evaluate_tasks": "it measures, which your own code does here",
}
_OF_STEPS = ("extra_batches", "penalty", "after_backward", "after_step")


def reason_against(plugin: type[Plugin] | Plugin) -> str:
    """Return why a plugin cannot be attached, as the second half of a sentence; empty if it can."""
    attachable = plugin.capabilities.attachable
    if attachable is True:
        return ""
    if isinstance(attachable, str):
        return attachable
    if plugin.capabilities.evaluator:
        return "it measures clframe's own runs and does not change the training"
    for hook in _OF_STEPS:
        how = getattr(implementation(plugin, hook), "clframe_impl", {})
        if how.get("wrapper") or how.get("hookwrapper"):
            return f"it wraps other plugins in '{hook}'"
    return next((why for hook, why in _REASONS.items() if implementation(plugin, hook)), "")


def check_attachable(plugins: Sequence[Plugin]) -> None:
    """Refuse plugins that cannot be attached to another trainer."""
    for plugin in plugins:
        if reason := reason_against(plugin):
            raise PluginError(
                f"plugin '{plugin.name}' cannot be attached to another trainer: {reason}; use it "
                "in clframe.fit"
            )


def implementation(plugin: type[Plugin] | Plugin, hook: str) -> Callable[..., Any] | None:
    """Return a plugin's own implementation of a hook, or None."""
    assert hook in HOOKS
    method = getattr(plugin, hook, None)
    return method if hasattr(method, "clframe_impl") else None


def asks_for(plugin: type[Plugin] | Plugin, hook: str, *arguments: str) -> bool:
    """Return whether a plugin has a hook with one of these arguments."""
    method = implementation(plugin, hook)
    return method is not None and not set(arguments).isdisjoint(
        inspect.signature(method).parameters
    )


def needs_batches(plugin: Plugin) -> bool:
    """Return whether a plugin needs the samples and labels of each step."""
    return any(asks_for(plugin, hook, "batch", "step") for hook in _OF_STEPS)


def check_data(plugin: Plugin, name: str, given: bool, losses: bool, retrained: bool) -> None:
    """Refuse an experience without the data that a plugin needs at its end.

    Args:
        plugin: A plugin of the strategy.
        name: Name of the experience.
        given: Whether there is data.
        losses: Whether there is a closure to estimate importance from.
        retrained: Whether there is a closure that trains again.
    """
    if given or not asks_for(plugin, "after_experience", "data"):
        return
    if plugin.capabilities.multi_pass:
        if not retrained:
            raise PluginError(
                f"plugin '{plugin.name}' trains again after experience '{name}': "
                "give the experience data=, or retrain= with your own training"
            )
    elif not losses:
        raise PluginError(
            f"plugin '{plugin.name}' needs the samples of experience '{name}' at its "
            "end: give the experience data="
        )
    elif plugin.capabilities.batch_losses is None:
        raise PluginError(
            f"plugin '{plugin.name}' needs single samples and cannot use the losses of "
            "importance=: give data= instead (with ewc you can also set fisher=batch)"
        )
