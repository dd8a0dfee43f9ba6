"""What a plugin needs and what it can do: facts that the framework reads instead of names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from clframe.errors import PluginError, nearest

_RENAMED = {
    "requires_class_labels": "needs_class_labels",
    "supports_distributed": "distributed",
    "supports_batched_seeds": "batched_seeds",
    "freezes_features": "frozen_features",
    "uses_training_steps": "training_steps",
    "is_evaluator": "evaluator",
}
"""Names that a class may still set as attributes of its own, where nothing reads them."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a plugin needs and can do, as ``capabilities = Capabilities(...)`` in its class.

    A subclass replaces its parent's as a whole: restate what still holds, or change the parent's
    with ``dataclasses.replace``. An instance may replace its own in ``__init__`` if a setting
    decides.

    Args:
        needs_class_labels: Labels must be classes, so the method cannot learn actions.
        needs_boundaries: The method must know when a task ends, so it cannot learn a stream without
            boundaries (``Stream.boundaries``).
        needs_tokens: The model must be a transformer.
        distributed: The plugin works if several processes learn one run (clframe/distributed).
        batched_seeds: Several seeds can be trained as one model (clframe/training/batched): the
            plugin draws random numbers from ``learner.generator`` only, trains nothing besides the
            model, evaluates and learns as core does, and acts within a step through its hooks.
        training_steps: The method learns with the steps of the training loop. Without them, plugins
            that act in steps would do nothing and are refused.
        multi_pass: The method trains on the samples of an experience more often than its epochs
            say, so it cannot learn online (``trainer.passes=1``). Replay does not count.
        order_dependent: What is learned or reported depends on the order of later experiences, so a
            run cannot be forked into another order (``clframe fork``).
        task_gated: Units of the model are gated by task, so one pass cannot serve several tasks.
        frozen_features: The features do not change after the first experiences.
        evaluator: The plugin measures and changes nothing that is learned. It is chosen with a
            method (``strategy=er+plasticity``) and is not part of the strategy's name in reports.
        attachable: Whether the method can act inside another trainer (:func:`clframe.attach`):
            True, the reason why not as the second half of a sentence ("it ..."), or None to decide
            by its hooks.
        batch_losses: The size of the mini-batches whose losses alone give the method its importance
            of parameters, 0 for the size in training; None if it looks at samples.

    Example:
        >>> Capabilities(needs_boundaries=True).distributed
        True
    """

    needs_class_labels: bool = False
    needs_boundaries: bool = False
    needs_tokens: bool = False
    distributed: bool = True
    batched_seeds: bool = False
    training_steps: bool = True
    multi_pass: bool = False
    order_dependent: bool = False
    task_gated: bool = False
    frozen_features: bool = False
    evaluator: bool = False
    attachable: bool | str | None = None
    batch_losses: int | None = None

    def __new__(cls, *arguments: Any, **given: Any) -> Self:
        """Refuse an unknown capability with the nearest name."""
        for name in given:
            if name not in cls.__dataclass_fields__:
                known = _RENAMED.get(name)
                hint = f"write {known}" if known else nearest(name, cls.__dataclass_fields__)
                raise PluginError(f"Capabilities has no '{name}'; {hint}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "attachable":
                right = value is None or value is True or isinstance(value, str)
                wanted = "True, a reason or None"
            elif field.name == "batch_losses":
                right = value is None or type(value) is int
                wanted = "a number of samples or None"
            else:
                right = isinstance(value, bool)
                wanted = "True or False"
            if not right:
                raise PluginError(f"Capabilities({field.name}={value!r}): write {wanted} instead")


def check_capabilities(cls: type, declared: object, where: str) -> None:
    """Refuse a class with capabilities in a place or a form that nothing reads.

    Args:
        cls: The class of a plugin.
        declared: Its attribute ``capabilities``.
        where: Its name in messages.
    """
    if not isinstance(declared, Capabilities):
        raise PluginError(
            f"{where}.capabilities is {declared!r}: write capabilities = Capabilities(...)"
        )
    for base in cls.__mro__:
        _check_names(vars(base), where)


def check_attributes(plugin: object) -> None:
    """Refuse a plugin whose ``__init__`` sets a capability as an attribute, unless a setting."""
    settings = inspect.signature(type(plugin)).parameters
    own = {name: value for name, value in vars(plugin).items() if name not in settings}
    _check_names(own, f"a {type(plugin).__name__} object")


def _check_names(attributes: Mapping[str, Any], where: str) -> None:
    """Refuse attributes with the names of capabilities or of what roles replaced."""
    for name, value in attributes.items():
        if name in ("conflicts", "conflict_reasons"):
            raise PluginError(
                f"{where} sets '{name}', which nothing reads: write its own roles in `roles`, and "
                "in `excludes` the roles that it cannot work with, each with the reason"
            )
        # A counter, say, may have the name of a capability; a flag may not.
        flag = name in Capabilities.__dataclass_fields__ and isinstance(
            value, bool | str | property
        )
        if flag or name in _RENAMED:
            written = "..." if isinstance(value, property) else repr(value)
            raise PluginError(
                f"{where} sets '{name}' as an attribute, which nothing reads: write "
                f"capabilities = Capabilities({_RENAMED.get(name, name)}={written})"
            )
