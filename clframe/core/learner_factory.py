"""How a stream is learned: the config group ``learner``.

What a name stands for there is made from its settings (:class:`Learning`), before there is a model
or an engine. It says how the trainer is set, what becomes of the stream, and which class learns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from clframe.core.factory import Named, make
from clframe.core.learner import Learner
from clframe.core.stream import Stream
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule
    from torch import nn

    from clframe.core.engine import Engine
    from clframe.core.registry import Registry

STREAMS_OWN = "default"
"""The name of what a stream is learned by where nothing else is chosen."""


class LearnerFactory:
    """As the stream has it: classification, or imitation where tasks are robot environments."""

    supports_distributed: ClassVar[bool] = True
    """Whether several processes can learn one run this way."""

    def for_stream(self, stream: Stream) -> LearnerFactory:
        """The same, with the settings that follow from the stream; its tasks may not be known."""
        return self

    def trainer(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of the trainer, from the stream's defaults and what the user gave.

        Args:
            defaults: The stream's own, with what was given put over them.
            given: What the user says.
        """
        return dict(defaults)

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """The stream as it is learned; refuses one that cannot be."""
        return stream

    def learner_class(self, stream: Stream) -> Callable[..., LightningModule]:
        """Makes the learner from the arguments of :class:`clframe.Learner`."""
        return stream.learner or Learner


def name_of(named: Named) -> str:
    """The name in a name or in a mapping with a name and settings."""
    return named if isinstance(named, str) else str(named.get("name"))


def make_learner_factory(registry: Registry, named: Named, stream: Stream) -> LearnerFactory:
    """What a stream is learned by, with the stream's defaults for it."""
    if isinstance(named, str):
        named = {"name": named}
    values = {**registry.learner_for(stream.name, name_of(named)), **named}
    learning: LearnerFactory = make(registry, "learner", values)
    return learning.for_stream(stream)


@hookimpl
def register(registry: Registry) -> None:
    """Add what every stream has."""
    registry.add("learner", STREAMS_OWN, LearnerFactory)
