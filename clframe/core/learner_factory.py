"""How a stream is learned: the config group ``learner``.

A :class:`LearnerFactory` is made from the group's settings before there is a model or an engine.
It adjusts the trainer's settings and the stream, and chooses the learner class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from clframe.core.factory import Named, make
from clframe.core.learner import Learner
from clframe.core.stream import Stream
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl
from clframe.utils.overrides import check_overrides

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule
    from torch import nn

    from clframe.core.engine import Engine
    from clframe.core.registry import Registry

STREAMS_OWN = "default"
"""The name of the stream's own way of learning."""


class LearnerFactory:
    """The stream's own way: classification, or imitation if tasks are robot environments.

    Derive from it to choose another learner class by a name, with settings of its own.

    Example:
        >>> class Double(LearnerFactory):
        ...     '''Learns for twice the epochs.'''
        ...
        ...     def trainer(self, defaults, given):
        ...         return {**defaults, "max_epochs": 2 * defaults.get("max_epochs", 1)}
        >>> Double().trainer({"max_epochs": 3}, {})
        {'max_epochs': 6}
    """

    supports_distributed: ClassVar[bool] = True
    """Whether several processes can learn one run this way."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_overrides(cls, [LearnerFactory])

    def for_stream(self, stream: Stream) -> LearnerFactory:
        """Return a factory with the settings that follow from the stream, before it has tasks."""
        return self

    def trainer(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the trainer's settings.

        Args:
            defaults: The stream's defaults, overridden by what the user gave.
            given: What the user gave.
        """
        return dict(defaults)

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """Return the stream as it is learned; raise an error if this learner cannot learn it."""
        return stream

    def learner_class(self, stream: Stream) -> Callable[..., LightningModule]:
        """Return the class that makes a learner from :class:`clframe.Learner`'s arguments."""
        return stream.learner or Learner


def name_of(named: Named) -> str:
    """Return the name from a name or a mapping with a name and settings."""
    return named if isinstance(named, str) else str(named.get("name"))


def make_learner_factory(registry: Registry, named: Named, stream: Stream) -> LearnerFactory:
    """Make a learner factory with the stream's defaults for it."""
    if isinstance(named, str):
        named = {"name": named}
    values = {**registry.learner_for(stream.name, name_of(named)), **named}
    learning: LearnerFactory = make(registry, "learner", values)
    if not isinstance(learning, LearnerFactory):
        raise PluginError(
            f"learner '{name_of(named)}' is a {type(learning).__name__}: register a subclass of "
            "clframe.LearnerFactory, whose 'learner_class' chooses the learner"
        )
    return learning.for_stream(stream)


@hookimpl
def register(registry: Registry) -> None:
    """Register the stream's own way of learning."""
    registry.add("learner", STREAMS_OWN, LearnerFactory)
