"""The learner of an attached model, whose training loop is the host's.

Plugins see the same as in one of clframe's runs: a :class:`clframe.Learner` with model, stream,
optimizer, generator and engine. The stream grows as the host names its experiences.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from clframe.core.learner import Learner
from clframe.core.plugin import Plugin
from clframe.core.stream import Experience, Scenario, Stream, Task
from clframe.core.trainer import Budget, TrainerSettings
from clframe.data.dataset import Batch, Data
from clframe.evaluation.evaluation_settings import EvaluationSettings
from clframe.recording.logging_settings import LoggingSettings
from clframe.training import loop

T = TypeVar("T")
Loss = Callable[[Any, Tensor], Tensor]
Retrain = Callable[[Budget], None]
UNNAMED = "(to come "
"""Prefix of the names of tasks that the host has not named yet."""


class HostLoss(NamedTuple):
    """A loss that the host computed, in place of a model's outputs."""

    value: Tensor


class HostEngine:
    """The engine for plugins when the host decides on device and precision.

    Args:
        model: The host's model.
        settings: Batch sizes and budget for plugins.
    """

    ranks = None
    world_size = 1

    def __init__(self, model: nn.Module, settings: TrainerSettings) -> None:
        self.settings = settings
        self.evaluation = EvaluationSettings()
        self.logging = LoggingSettings()
        self._model = model
        self.retrain: Retrain | None = None
        """The host's function for a phase of training; None to use clframe's loop."""
        self.keep_optimizer = False
        """Whether a state is being loaded; the host loads the optimizer's."""
        self.hand_over: Callable[[], contextlib.AbstractContextManager[None]] = (
            contextlib.nullcontext
        )
        """Context in which the host trains and plugins act within its steps."""

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self._model.parameters()).device

    def bind(self, learner: Any) -> None:
        """Do nothing: model and optimizer are the host's."""

    def check_in_sync(self, learner: Any) -> None:
        """Do nothing: there is one process."""

    def train(self, learner: Any, experience: Experience, data: Data, budget: Budget) -> None:
        """Run a phase that a plugin adds: with the host's closure, or with clframe's own loop."""
        if self.retrain is None:
            loop.run_epochs([loop.FitRequest(learner, experience, data, budget)])
        elif budget.epochs != 0 and budget.steps != 0:
            with self.hand_over():
                self.retrain(budget)

    def backward(self, loss: Tensor) -> None:
        """Backward pass."""
        loss.backward()

    def renew_optimizer(self, learner: Any) -> None:
        """Reset the host's optimizer: no state, but its current settings."""
        if not self.keep_optimizer:
            learner.optimizer.state.clear()

    def batches(self, data: Data, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Yield the batches of an epoch in this order."""
        return data.batches(order, batch_size)

    def share(self, order: Tensor) -> Tensor:
        """Return all positions: there is one process."""
        return order

    def sum(self, tensors: Mapping[str, Tensor]) -> None:
        """Do nothing: there is one process."""

    def broadcast(self, value: T) -> T:
        """Return the value."""
        return value

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return full precision, outside of the host's own passes."""
        return contextlib.nullcontext()

    def precision_state(self) -> dict[str, Any]:
        """Return nothing: the gradient scaler is the host's."""
        return {}

    def load_precision_state(self, state: dict[str, Any]) -> None:
        """Do nothing: there is no state."""


class AttachedLearner(Learner):
    """A learner over the host's model and optimizer.

    Args:
        model: The host's model.
        optimizer: The host's optimizer.
        stream: Stream of the tasks that may come and the experiences so far.
        plugins: The plugins of the strategy, in order.
        engine: Engine with the host's device.
        loss: Loss of outputs and labels, for samples of plugins; None for cross-entropy.
        active_outputs: As in :class:`clframe.Learner`.
        seed: Seed of the plugins.
    """

    classifies = True

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        stream: Stream,
        plugins: Sequence[Plugin],
        engine: HostEngine,
        loss: Loss | None,
        active_outputs: str,
        seed: int,
    ) -> None:
        super().__init__(model, stream, plugins, engine, None, active_outputs, seed)
        self.host_engine = engine
        self._own_loss = loss is not None
        self._host_loss = loss
        self.features: Any = None
        """The last input of the model's head."""
        self.watching = False
        """Whether a plugin runs the model, so that the head's input is kept."""
        self.last = False
        """Whether the current experience is the last."""
        self.takes_optimizer(optimizer)
        # Not `to`, which would also move a model that is spread over devices.
        for name in ("inactive_of_task", "inactive"):
            setattr(self, name, getattr(self, name).to(engine.device))
        self.generator = torch.Generator(device=engine.device)
        self.generator.manual_seed(seed)
        self._any_closed = bool(self.inactive_of_task[:-1].any())

    def takes_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Train with this optimizer, and the model's parameters that it holds."""
        self.optimizer = optimizer
        held = {p for group in optimizer.param_groups for p in group["params"]}
        self._learned = {n: p for n, p in self.model.named_parameters() if p in held}

    def named_trainable(self) -> dict[str, nn.Parameter]:
        """Return the model's parameters that the host's optimizer trains, by name."""
        return {n: p for n, p in self._learned.items() if p.requires_grad}

    @property
    def has_next_experience(self) -> bool:
        """Whether more may come: always, unless the host marks this experience as the last."""
        return not self.last

    @property
    def masks(self) -> bool:
        """Whether some outputs do not compete at present."""
        return self._any_inactive or (self.stream.scenario == "task" and self._any_closed)

    def mask_outputs(self, logits: Tensor, task: Tensor) -> Tensor:
        """Mask the outputs that do not compete."""
        return super().mask_outputs(logits, task) if self.masks else logits

    def run_model(self, x: Any, task: Tensor) -> tuple[Any, Tensor | None]:
        """Return the outputs of the model as the host calls it, and its head's input."""
        self.set_task(task)
        if callable(x):
            return HostLoss(x()), None
        self.watching = True
        outputs = self.model(x)
        self.watching = False
        features, self.features = self.features, None
        return self.mask_outputs(outputs, task), features

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the host's loss if there is one, else cross-entropy."""
        if self._host_loss is None:
            return super().task_loss(outputs, batch)
        return self._host_loss(outputs, batch.y)

    def label_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the loss of a batch; if the host computed it already, the host's."""
        if isinstance(outputs, HostLoss):
            return outputs.value
        return super().label_loss(outputs, batch)


def growing_stream(
    scenario: Scenario, tasks: int | Sequence[Sequence[int]], n_outputs: int
) -> Stream:
    """Return a stream without experiences, whose tasks have no names yet.

    Args:
        scenario: task, domain or class.
        tasks: Maximum number of tasks, each with all outputs; or the outputs of each.
        n_outputs: Outputs of the model.
    """
    units = [range(n_outputs)] * tasks if isinstance(tasks, int) else tasks
    unnamed = [Task(i, f"{UNNAMED}{i})", tuple(outputs)) for i, outputs in enumerate(units)]
    experiences = [Experience(0, "none", (unnamed[0],), _nothing)]
    stream = Stream("attached", scenario, experiences, unnamed, (), n_outputs)
    experiences.clear()
    return stream


def _nothing() -> Data:
    raise RuntimeError("no experience has begun")
