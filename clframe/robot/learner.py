"""The learner for behavior cloning; method plugins act on it as on a classifier."""

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
    """Learns to imitate demonstrations.

    Labels are actions. Any model with one output per number of an action can be used: its outputs
    are the action, learned by the mean squared error. A :class:`clframe.Policy` defines its own
    loss and way of acting, such as a mixture of Gaussians. All outputs belong to every task.

    A learner that collects its own data can replace this one; see :mod:`clframe.rl`.
    """

    classifies = False

    def mask_outputs(self, logits: Tensor, task: Tensor) -> Tensor:
        """Return all outputs unmasked: the numbers of an action belong to all tasks."""
        return logits

    @property
    def squared_error(self) -> bool:
        """Whether outputs are actions, learned by their squared error."""
        return self.policy.squared_error

    @property
    def acts(self) -> Mapping[str, Any]:
        """A description of how the policy acts, for the results."""
        return self.policy.acts

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the policy's loss, mean over samples."""
        return self.policy.action_loss(outputs, batch.y)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the actions from the outputs."""
        if self.squared_error and outputs.shape[-1] != self.stream.n_outputs:
            raise SettingError(
                f"the model has {outputs.shape[-1]} outputs, but an action of stream "
                f"'{self.stream.name}' has {self.stream.n_outputs} numbers"
            )
        action = self.policy.action_of(outputs, generator)
        # A discrete choice is an integer and is not clamped.
        return action.clamp(-1.0, 1.0) if action.is_floating_point() else action


class ChoiceLearner(ImitationLearner):
    """Learns to make the choices of demonstrations: a classifier of actions.

    Labels are the numbers of choices, learned by cross-entropy, so strategies that need classes
    work as usual. If inputs tell which choices are possible (``stream.mask``), the others are
    masked for every model.
    """

    classifies = True
    task_loss = Learner.task_loss

    @property
    def squared_error(self) -> bool:
        """False, because outputs are logits."""
        return False

    @property
    def acts(self) -> Mapping[str, Any]:
        """A description of how the policy acts: by the most likely choice."""
        return {"head": "categorical"}

    def run_model(self, x: Any, task: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the logits of possible choices, and the head's inputs if the model has them."""
        outputs, features = super().run_model(x, task)
        return self.possible(outputs, x), features

    def possible(self, outputs: Tensor, x: Any) -> Tensor:
        """Mask impossible choices with the lowest number of the outputs' type."""
        mask = self.stream.mask if isinstance(self.stream, RobotStream) else None
        if mask is None:
            return outputs
        return outputs.masked_fill(x[:, mask] < 0.5, torch.finfo(outputs.dtype).min)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the most likely choice."""
        return outputs.argmax(-1)


class Imitation(LearnerFactory):
    """Imitation of demonstrations, the default way to learn robot streams."""

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """Return the stream unchanged."""
        learner = stream.learner
        if learner is None or not issubclass(learner, ImitationLearner):
            raise SettingError(
                f"learner=imitation needs a stream of robot tasks, but '{stream.name}' is not one"
            )
        return stream


@hookimpl
def register(registry: Registry) -> None:
    """Register the learner."""
    registry.add("learner", "imitation", Imitation)
