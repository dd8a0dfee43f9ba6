"""Base class of parameter-efficient methods: a frozen model with a trained head and insertions.

A tuner defines which parameters exist and which of them are trained. Other plugins (penalties,
replay, distillation) see parameters that require a gradient and compose with it unchanged. All
parameters exist before the optimizer is made, including those of later experiences.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from clframe import Capabilities, Plugin, PluginError, hookimpl
from clframe.models.tuning.frozen import hold_norms, tune
from clframe.models.tuning.slots import Slots

if TYPE_CHECKING:
    from clframe import Batch, Learner, Stream

Compete: TypeAlias = Literal["seen", "own"]

KEEPS_HEAD = "it freezes the existing model, and a new head would not be part of it"
"""Why the role "new head" is excluded."""


def brings_samples(learner: Learner, besides: Plugin) -> str:
    """Return the name of another plugin that replays samples of other tasks; empty for none."""
    for plugin in learner.plugins.ordered:
        hooks = (getattr(plugin, hook, None) for hook in ("extra_data", "extra_batches"))
        if plugin is not besides and any(hooks):
            return plugin.name
    return ""


def own_classes_loss(learner: Learner, outputs: Tensor, batch: Batch) -> Tensor:
    """Return the task loss among the classes of each sample's own task."""
    lowest = torch.finfo(outputs.dtype).min
    among = outputs.masked_fill(learner.inactive_of_task[batch.task], lowest)
    return learner.label_loss(among, batch)


def compete_among_own(learner: Learner, batch: Batch) -> None:
    """Make the samples of a batch compete among the classes of their own task, in training."""
    if batch.loss is None and learner.stream.scenario == "class" and learner.classifies:
        batch.loss = lambda outputs, part: own_classes_loss(learner, outputs, part)


class Tuner(Plugin, abc.ABC):
    """Base of tuners: a frozen model with a trained head and the subclass's own parameters.

    Args:
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task.
    """

    roles = ("parameters", "tuning", "fixed weights")
    excludes: ClassVar[Mapping[str, str]] = {"new head": KEEPS_HEAD}
    capabilities = Capabilities(
        distributed=False,
        attachable="it puts its own parameters into the model before the optimizer is made",
    )

    def __init__(self, compete: Compete) -> None:
        self.compete = compete
        self.slots: Slots

    @abc.abstractmethod
    def insert(self, learner: Learner, stream: Stream) -> Iterable[Tensor]:
        """Put modules into the model; return tensors of the model that the method will change."""

    @hookimpl(tryfirst=True)
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Freeze the model and insert the method's own weights."""
        self.slots = Slots(learner.stream)
        if not any(True for _ in learner.model.parameters()):
            raise PluginError(
                f"plugin '{self.name}' tunes a network, and {type(learner.model).__name__} has no "
                "weights"
            )
        tune(learner.model, lambda: self.insert(learner, stream))

    @hookimpl
    def before_epoch(self, learner: Learner) -> None:
        """Keep the running statistics of frozen norms."""
        hold_norms(learner.model)

    @hookimpl(tryfirst=True)
    def extra_batches(self, learner: Learner, batch: Batch) -> None:
        """Set the loss of the current batch."""
        if self.compete == "own":
            compete_among_own(learner, batch)
