"""Which plugins can act inside another trainer, and what each of them needs there.

A plugin says it itself (``Capabilities.attachable``), or its hooks do: what a hook asks for is what
it needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from clframe.core.plugin import Plugin
from clframe.errors import PluginError
from clframe.hookspecs import HOOKS

_REASONS = {
    "fit_experience": "it learns an experience by itself, which your own code does here",
    "extra_data": "it adds samples to an experience's data, which your own loader does not give",
    "predict": "it predicts in a way of its own, which your own code does not ask for",
    "evaluate_task": "it measures, which your own code does here",
    "evaluate_tasks": "it measures, which your own code does here",
}
_OF_STEPS = ("extra_batches", "penalty", "after_backward", "after_step")


def reason_against(plugin: type[Plugin] | Plugin) -> str:
    """Why a plugin cannot be attached, as the second half of a sentence; empty where it can."""
    said = plugin.capabilities.attachable
    if said is True:
        return ""
    if isinstance(said, str):
        return said
    if plugin.capabilities.evaluator:
        return "it measures runs of clframe's own and changes nothing that is learned"
    for hook in _OF_STEPS:
        how = getattr(implementation(plugin, hook), "clframe_impl", {})
        if how.get("wrapper") or how.get("hookwrapper"):
            return f"it wraps what other plugins do in '{hook}'"
    return next((why for hook, why in _REASONS.items() if implementation(plugin, hook)), "")


def check_attachable(plugins: Sequence[Plugin]) -> None:
    """Refuse plugins that cannot act inside another trainer."""
    for plugin in plugins:
        if reason := reason_against(plugin):
            raise PluginError(
                f"plugin '{plugin.name}' cannot be attached to another trainer: {reason}; use it "
                "in clframe.fit"
            )


def implementation(plugin: type[Plugin] | Plugin, hook: str) -> Callable[..., Any] | None:
    """A plugin's own answer to a hook; None without one."""
    assert hook in HOOKS
    found = getattr(plugin, hook, None)
    return found if hasattr(found, "clframe_impl") else None


def asks_for(plugin: type[Plugin] | Plugin, hook: str, *arguments: str) -> bool:
    """Whether a plugin has a hook that asks for one of these arguments."""
    found = implementation(plugin, hook)
    return found is not None and not set(arguments).isdisjoint(inspect.signature(found).parameters)


def needs_batches(plugin: Plugin) -> bool:
    """Whether a plugin has to be shown the samples and labels of each step."""
    return any(asks_for(plugin, hook, "batch", "step") for hook in _OF_STEPS)


def check_data(plugin: Plugin, name: str, given: bool, losses: bool, retrained: bool) -> None:
    """Refuse an experience that lacks what a plugin makes of its data when it ends.

    Args:
        plugin: One of the strategy.
        name: Of the experience.
        given: Whether there is data.
        losses: Whether there is a closure to estimate importance from.
        retrained: Whether there is a closure that trains again.
    """
    if given or not asks_for(plugin, "after_experience", "data"):
        return
    if plugin.capabilities.multi_pass:
        if not retrained:
            raise PluginError(
                f"plugin '{plugin.name}' trains again when experience '{name}' has been learned: "
                "give the experience data=, or retrain= that trains your own way"
            )
    elif not losses:
        raise PluginError(
            f"plugin '{plugin.name}' needs the samples of experience '{name}' when it has been "
            "learned: give the experience data="
        )
    elif plugin.capabilities.batch_losses is None:
        raise PluginError(
            f"plugin '{plugin.name}' looks at single samples and cannot use the losses of "
            "importance=: give data= instead (with ewc you can also set fisher=batch)"
        )
