"""The learner that clones behavior; method plugins act on it as on a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clframe.core.learner import Learner
from clframe.core.learner_factory import LearnerFactory
from clframe.core.protocols import RobotStream
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
    outputs are the action, learned by the mean squared error. A :class:`clframe.Policy` has its
    own loss and way of acting, such as a mixture of Gaussians. All outputs belong to every task.

    A learner that collects its own data can take the same place; see :mod:`clframe.rl`.
    """

    classifies = False

    def mask_outputs(self, logits: Tensor, task: Tensor) -> Tensor:
        """Nothing competes: the numbers of an action belong to all tasks."""
        return logits

    @property
    def squared_error(self) -> bool:
        """Whether outputs are actions, learned by their squared error."""
        return self.policy.squared_error

    @property
    def acts(self) -> Mapping[str, Any]:
        """How the policy acts, for the results."""
        return self.policy.acts

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the policy's loss, mean over samples."""
        return self.policy.action_loss(outputs, batch.y)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the actions that outputs stand for."""
        if self.squared_error and outputs.shape[-1] != self.stream.n_outputs:
            raise SettingError(
                f"the model has {outputs.shape[-1]} outputs, but an action of stream "
                f"'{self.stream.name}' has {self.stream.n_outputs} numbers"
            )
        action = self.policy.action_of(outputs, generator)
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
    def acts(self) -> Mapping[str, Any]:
        """By the most likely choice."""
        return {"head": "categorical"}

    def run_model(self, x: Any, task: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits of what is possible and, where the model tells them apart, the head's inputs."""
        outputs, features = super().run_model(x, task)
        return self.possible(outputs, x), features

    def possible(self, outputs: Tensor, x: Any) -> Tensor:
        """The outputs, with the lowest number of their type for what the inputs rule out."""
        mask = self.stream.mask if isinstance(self.stream, RobotStream) else None
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
