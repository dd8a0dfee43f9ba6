"""The learner that clones behavior; method plugins act on it as on a classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from clframe.core.learner import Learner
from clframe.core.learner_factory import LearnerFactory
from clframe.core.stream import Stream
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from torch import nn

    from clframe.core.engine import Engine
    from clframe.core.registry import Registry
    from clframe.data.dataset import Batch


class ImitationLearner(Learner):
    """Learns to do what demonstrations do.

    Labels are actions. Any model with as many outputs as an action has numbers can be used: its
    outputs are the action, learned by the mean squared error. A policy brings its own loss and way
    of acting (``action_loss(outputs, actions)``, ``action_of(outputs, generator)``), as one with a
    mixture of Gaussians does. One that remembers has ``acting()``, a context in which each call
    brings one observation, and ``reset(begun)``, given which rows of the batch begin an episode.
    All outputs belong to every task.

    A learner that collects its own data can take the same place; see :mod:`clframe.rl`.
    """

    classifies = False

    def mask_outputs(self, logits: Tensor, task: Tensor) -> Tensor:
        """Nothing competes: the numbers of an action belong to all tasks."""
        return logits

    @property
    def squared_error(self) -> bool:
        """Whether outputs are actions, learned by their squared error."""
        return not hasattr(self.model, "action_loss")

    @property
    def acts(self) -> dict[str, Any]:
        """How it acts, for the results: by the policy's own words, or by its outputs."""
        said: dict[str, Any] = {"head": "mse"} if self.squared_error else {}
        return getattr(self.model, "acts", said)

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """The policy's own loss, or the mean squared error; mean over samples."""
        action_loss: Any = getattr(self.model, "action_loss", None)
        if action_loss is not None:
            loss: Tensor = action_loss(outputs, batch.y)
            return loss
        return functional.mse_loss(outputs, batch.y)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """The actions that outputs stand for."""
        action_of: Any = getattr(self.model, "action_of", None)
        if action_of is None and outputs.shape[-1] != self.stream.n_outputs:
            raise SettingError(
                f"the model has {outputs.shape[-1]} outputs, but an action of stream "
                f"'{self.stream.name}' has {self.stream.n_outputs} numbers"
            )
        action: Tensor = outputs if action_of is None else action_of(outputs, generator)
        # A choice is a whole number, and as it is.
        return action.clamp(-1.0, 1.0) if action.is_floating_point() else action


class ChoiceLearner(ImitationLearner):
    """Learns to choose what demonstrations choose: a classifier of actions.

    Labels are the numbers of choices, learned by cross-entropy, so strategies that need classes act
    as they do elsewhere. Where inputs say which choices are possible (``stream.mask``), the others
    do not compete, whichever model it is.
    """

    classifies = True
    task_loss = Learner.task_loss

    @property
    def squared_error(self) -> bool:
        """Outputs are logits."""
        return False

    @property
    def acts(self) -> dict[str, Any]:
        """By the most likely choice."""
        return {"head": "categorical"}

    def run_model(self, x: Any, task: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits of what is possible and, where the model tells them apart, the head's inputs."""
        outputs, features = super().run_model(x, task)
        return self.possible(outputs, x), features

    def possible(self, outputs: Tensor, x: Any) -> Tensor:
        """The outputs, with the lowest number of their type for what the inputs rule out."""
        mask: slice | None = getattr(self.stream, "mask", None)
        if mask is None:
            return outputs
        return outputs.masked_fill(x[:, mask] < 0.5, torch.finfo(outputs.dtype).min)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """The most likely choice."""
        return outputs.argmax(-1)


class Imitation(LearnerFactory):
    """Do what demonstrations do: the way in which robot streams are learned by default."""

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """The stream as it is."""
        learner = stream.learner
        if learner is None or not issubclass(learner, ImitationLearner):
            raise SettingError(
                f"learner=imitation needs a stream of robot tasks, which '{stream.name}' is not"
            )
        return stream


@hookimpl
def register(registry: Registry) -> None:
    """Add the way of learning."""
    registry.add("learner", "imitation", Imitation)
