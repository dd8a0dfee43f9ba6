"""The learner of an attached model: the real one, whose training loop is the host's.

Plugins see what they see in a run of clframe's own: a :class:`clframe.Learner` with model, stream,
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
"""What the name of a task begins with that the host has not named yet."""


class HostLoss(NamedTuple):
    """A loss that the host computed by itself, in the place of a model's outputs."""

    value: Tensor


class HostEngine:
    """What plugins may ask of an engine, where the host decides on device and precision.

    Args:
        model: The host's.
        settings: Batch sizes and budget, which plugins go by.
    """

    ranks = None
    world_size = 1

    def __init__(self, model: nn.Module, settings: TrainerSettings) -> None:
        self.settings = settings
        self.evaluation = EvaluationSettings()
        self.logging = LoggingSettings()
        self._model = model
        self.retrain: Retrain | None = None
        """Trains the host's way for so long; None where clframe's loop does."""
        self.keep_optimizer = False
        """While a state is loaded, the optimizer's is the host's to load."""
        self.hand_over: Callable[[], contextlib.AbstractContextManager[None]] = (
            contextlib.nullcontext
        )
        """While it lasts, the host trains and plugins act within its steps."""

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self._model.parameters()).device

    def bind(self, learner: Any) -> None:
        """Nothing: model and optimizer are the host's."""

    def check_in_sync(self, learner: Any) -> None:
        """Nothing: there is one process."""

    def train(self, learner: Any, experience: Experience, data: Data, budget: Budget) -> None:
        """A phase that a plugin adds: by the host's closure, or by clframe's own loop."""
        if self.retrain is None:
            loop.run_epochs([loop.FitRequest(learner, experience, data, budget)])
        elif budget.epochs != 0 and budget.steps != 0:
            with self.hand_over():
                self.retrain(budget)

    def backward(self, loss: Tensor) -> None:
        """Backward pass."""
        loss.backward()

    def renew_optimizer(self, learner: Any) -> None:
        """Make the host's optimizer forget its steps: as a fresh one, at the current settings."""
        if not self.keep_optimizer:
            learner.optimizer.state.clear()

    def batches(self, data: Data, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """The batches of an epoch in this order."""
        return data.batches(order, batch_size)

    def share(self, order: Tensor) -> Tensor:
        """All of it: there is one process."""
        return order

    def sum(self, tensors: Mapping[str, Tensor]) -> None:
        """Nothing to add: there is one process."""

    def broadcast(self, value: T) -> T:
        """The value itself."""
        return value

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Full precision outside the host's own passes."""
        return contextlib.nullcontext()

    def precision_state(self) -> dict[str, Any]:
        """Nothing: a gradient scaler is the host's."""
        return {}

    def load_precision_state(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


class AttachedLearner(Learner):
    """A learner over the host's model and optimizer.

    Args:
        model: The host's.
        optimizer: The host's.
        stream: Of tasks that may come, and of the experiences so far.
        plugins: The strategy, in order.
        engine: The host's device.
        loss: Of outputs and labels, for samples that plugins bring; None for cross-entropy.
        active_outputs: As in :class:`clframe.Learner`.
        seed: Of what plugins draw.
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
        """What last went into the model's head."""
        self.watching = False
        """Whether the pass at hand is a plugin's, for which that is kept."""
        self.last = False
        """Whether nothing comes after the current experience."""
        self.takes_optimizer(optimizer)
        # Not `to`, which would move a model that is spread over devices as well.
        for name in ("inactive_of_task", "inactive"):
            setattr(self, name, getattr(self, name).to(engine.device))
        self.generator = torch.Generator(device=engine.device)
        self.generator.manual_seed(seed)
        self._any_closed = bool(self.inactive_of_task[:-1].any())

    def takes_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Learn by this optimizer, and what it holds of the model."""
        self.optimizer = optimizer
        held = {p for group in optimizer.param_groups for p in group["params"]}
        self._learned = {n: p for n, p in self.model.named_parameters() if p in held}

    def named_trainable(self) -> dict[str, nn.Parameter]:
        """The model's parameters that the host's optimizer moves, by name."""
        return {n: p for n, p in self._learned.items() if p.requires_grad}

    @property
    def has_next_experience(self) -> bool:
        """Yes, unless the host says that this is the last: nobody knows what it will name next."""
        return not self.last

    @property
    def masks(self) -> bool:
        """Whether some outputs do not compete at present."""
        return self._any_inactive or (self.stream.scenario == "task" and self._any_closed)

    def mask_outputs(self, logits: Tensor, task: Tensor) -> Tensor:
        """Mask the outputs that do not compete; nothing where all of them do."""
        return super().mask_outputs(logits, task) if self.masks else logits

    def run_model(self, x: Any, task: Tensor) -> tuple[Any, Tensor | None]:
        """The model as the host calls it; what goes into its head is kept on the way."""
        self.set_task(task)
        if callable(x):
            return HostLoss(x()), None
        self.watching = True
        outputs = self.model(x)
        self.watching = False
        features, self.features = self.features, None
        return self.mask_outputs(outputs, task), features

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """The host's loss where it gave one, else cross-entropy."""
        if self._host_loss is None:
            return super().task_loss(outputs, batch)
        return self._host_loss(outputs, batch.y)

    def label_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """The loss of a batch; the host's own, where it is what was computed."""
        if isinstance(outputs, HostLoss):
            return outputs.value
        return super().label_loss(outputs, batch)


def growing_stream(
    scenario: Scenario, tasks: int | Sequence[Sequence[int]], n_outputs: int
) -> Stream:
    """A stream without an experience yet, whose tasks have places but no names.

    Args:
        scenario: task, domain or class.
        tasks: How many may come, all with all outputs; or the outputs of each.
        n_outputs: Output units of the model.
    """
    units = [range(n_outputs)] * tasks if isinstance(tasks, int) else tasks
    places = [Task(i, f"{UNNAMED}{i})", tuple(outputs)) for i, outputs in enumerate(units)]
    experiences = [Experience(0, "none", (places[0],), _nothing)]
    stream = Stream("attached", scenario, experiences, places, (), n_outputs)
    experiences.clear()
    return stream


def _nothing() -> Data:
    raise RuntimeError("no experience has begun")
