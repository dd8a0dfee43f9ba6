"""The training loop: epochs and steps on one experience's data.

The order of the samples is a function of seed, experience and epoch alone, so a run can be resumed
at any step without replaying earlier ones. The bookkeeping of epochs (:class:`EpochLoop`) is
the same whether one learner takes a step or several seeds take it as one batched model
(:mod:`clframe.training.batched`); only the step differs (:class:`Stepper`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from clframe.core.state import LoopProgress
from clframe.data.sampler import epoch_order
from clframe.training.nonfinite import NonFiniteMonitor
from clframe.training.step_metrics import StepValues, log_gradient_norm

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.step import Step
    from clframe.core.stream import Experience
    from clframe.core.trainer import Budget, TrainerSettings
    from clframe.data.dataset import Batch, Data


_REPORT_EVERY = 0.25
"""Seconds between two progress reports of the loop."""


class FitRequest(NamedTuple):
    """What one learner is to be trained on."""

    learner: Learner
    experience: Experience
    data: Data
    budget: Budget


class Stepper(Protocol):
    """How a step is taken: for one learner, or for several at once."""

    def batches(self, orders: Sequence[Tensor], size: int) -> Iterator[Any]:
        """Return the batches of an epoch, one order per learner."""

    def step(self, batch: Any) -> Sequence[tuple[Tensor, Step | None]]:
        """Train on a batch; return every learner's loss, detached, and its step."""

    def close(self) -> None:
        """Release resources at the end of the loop."""


def run_epochs(requests: Sequence[FitRequest], stepper: Stepper | None = None) -> None:
    """Train until the budget is used up, calling the hooks of each epoch and step.

    Args:
        requests: One per learner; several learners with equal budgets train in lockstep.
        stepper: Takes the steps; None for the ordinary steps of one learner.
    """
    if stepper is None:
        (request,) = requests
        data = request.data.to(request.learner.engine.device)
        requests, stepper = [request._replace(data=data)], SingleStepper(request.learner, data)
    loops = [EpochLoop(request, len(requests)) for request in requests]
    batch_size = requests[0].budget.batch_size
    for loop in loops:
        loop.begin()
    while loops[0].has_next_epoch():
        orders = [loop.begin_epoch() for loop in loops]
        for batch in stepper.batches(orders, batch_size):
            for loop, (loss, step) in zip(loops, stepper.step(batch), strict=True):
                loop.after_step(loss, step)
        for loop in loops:
            loop.end_epoch()
    stepper.close()
    for loop in loops:
        loop.end()


class EpochLoop:
    """Bookkeeping of one learner's epochs: order, progress, losses, logs, checkpoints, hooks.

    Args:
        request: The training request.
        in_step: Number of learners that share the time of a step.
    """

    def __init__(self, request: FitRequest, in_step: int) -> None:
        self.learner, self.experience, data, self.budget = request
        self.state = self.learner.state
        self.hook = self.learner.plugins.hook
        self.checkpointer = self.state.checkpointer
        self.schedule = self.learner.schedule
        self.n = len(data)
        self.in_step = in_step
        self.device = self.learner.engine.device
        batch_size = self.budget.batch_size
        self.used = 0
        """Samples of the current epoch so far."""
        self.progress = LoopProgress(torch.zeros((), device=self.device), self.budget.steps)
        self.monitor: NonFiniteMonitor | None = None
        if self.learner.engine.settings.on_nan == "stop":
            self.monitor = NonFiniteMonitor(
                self.learner, self.experience, self.progress, named=in_step > 1
            )
        self.values = StepValues(self.learner)
        self.progress.before_save = self._before_save
        self.progress.per_epoch = -(-samples_of_epoch(self.n, self.budget, None) // batch_size)
        self.progress.planned = planned_steps(self.progress.per_epoch, self.budget)
        reports = self.learner.plugins.implements("on_progress")
        self.next_report = 0.0 if reports else math.inf

    def begin(self) -> None:
        """Start, or continue where a resumed run was."""
        self.learner.train()
        if self.schedule is not None:
            self.schedule.begin(self.n, self.budget)
        # A resumed run continues in its epoch, or after the loop.
        self.checkpointer.on_loop_start(self.progress)

    def has_next_epoch(self) -> bool:
        """Return whether there is another epoch to train."""
        progress, epochs = self.progress, self.budget.epochs
        if progress.done or not self.n or progress.left == 0:
            return False
        return epochs is None or progress.epochs < epochs

    def begin_epoch(self) -> Tensor:
        """Call the hook, and return the order of the epoch's remaining samples."""
        progress, state = self.progress, self.state
        self.hook.before_epoch(learner=self.learner, experience=self.experience, epoch=state.epoch)
        self.checkpointer.restore_epoch()
        if self.schedule is not None:
            self.schedule.begin_epoch()
        progress.started = time.perf_counter() - progress.seconds
        state.loop = progress
        if self.budget.shuffle:
            order = epoch_order(self.n, self.learner.seed, self.experience.index, state.epoch)
        else:
            order = torch.arange(self.n)
        order = order[: samples_of_epoch(self.n, self.budget, progress.left)]
        self.used = len(order)
        return order[progress.steps * self.budget.batch_size :]

    def after_step(self, loss: Tensor, step: Step | None) -> None:
        """Count a step, and save the run if a checkpoint is due."""
        progress = self.progress
        self.values.log(loss, step)
        progress.total += loss
        progress.steps += 1
        if self.monitor is not None:
            self.monitor.add(loss, step)
        if self.schedule is not None:
            self.schedule.after_step()
        self.checkpointer.after_step(progress)
        now = time.monotonic()
        if now >= self.next_report:
            self.next_report = now + _REPORT_EVERY
            self.hook.on_progress(
                learner=self.learner,
                unit="steps",
                done=progress.taken,
                total=progress.planned,
                task="",
            )

    def end_epoch(self) -> None:
        """Check the losses, count, and call the hook with the epoch's logs."""
        progress, state = self.progress, self.state
        state.loop = None
        if self.monitor is not None:
            self.monitor.check()
        if progress.left is not None:
            progress.left -= progress.steps
        state.global_steps += progress.steps
        state.samples += self.used
        logs = {
            "loss": float(progress.total) / max(progress.steps, 1),
            "steps": progress.steps,
            "samples": self.used,
            "seconds": (time.perf_counter() - progress.started) / self.in_step,
        }
        if self.schedule is not None:
            logs["lr"] = self.schedule.lr
        self.hook.after_epoch(
            learner=self.learner, experience=self.experience, epoch=state.epoch, logs=logs
        )
        if self.schedule is not None:
            self.schedule.after_epoch(logs["loss"])
        self.learner.train()
        state.epoch += 1
        progress.epochs += 1
        progress.total = torch.zeros((), device=self.device)
        progress.steps, progress.seconds = 0, 0.0

    def end(self) -> None:
        """Finish the loop."""
        self.checkpointer.on_loop_end(self.progress)

    def _before_save(self) -> None:
        if self.monitor is not None:
            self.monitor.check()


class SingleStepper:
    """Training steps of one learner.

    Args:
        learner: The learner.
        data: Data on the learner's device.
    """

    def __init__(self, learner: Learner, data: Data) -> None:
        self.learner = learner
        self.data = data
        self.engine = learner.engine
        self.hook = learner.plugins.hook
        # Looked up once, so that a hook without implementations is never called.
        self.on_backward = learner.plugins.implements("after_backward")
        self.on_step = learner.plugins.implements("after_step")
        self.parameters = [p for p in learner.parameters() if p.requires_grad]
        self.settings = self.engine.settings

    def batches(self, orders: Sequence[Tensor], size: int) -> Iterator[Batch]:
        """Return the batches of the learner's epoch."""
        return self.engine.batches(self.data, orders[0], size)

    def step(self, batch: Batch) -> Sequence[tuple[Tensor, Step | None]]:
        """Run forward, backward, clipping and step, with the hooks between them."""
        learner = self.learner
        # Looked up at each step, because a plugin may have replaced the optimizer.
        optimizer: Any = learner.optimizer
        optimizer.zero_grad(set_to_none=True)
        with self.engine.autocast():
            step = learner.training_step(batch)
        loss: Tensor = step.loss  # type: ignore[assignment]
        self.engine.backward(loss)
        if self.on_backward:
            self.hook.after_backward(learner=learner, step=step)
        if self.engine.logging.log_grad_norm:
            log_gradient_norm(learner, self.parameters)
        clip_gradients(self.parameters, self.settings)
        optimizer.step()
        if self.on_step:
            self.hook.after_step(learner=learner, step=step)
        return ((loss.detach(), step),)

    def close(self) -> None:
        """Do nothing: there are no resources."""


def clip_gradients(parameters: Sequence[nn.Parameter], settings: TrainerSettings) -> None:
    """Clip the norm of all gradients together, or each of their values."""
    bound = settings.gradient_clip_val
    if bound is None:
        return
    if settings.gradient_clip_algorithm == "norm":
        nn.utils.clip_grad_norm_(parameters, bound)
    else:
        nn.utils.clip_grad_value_(parameters, bound)


def planned_steps(per_epoch: int, budget: Budget) -> int | None:
    """Return the number of steps of a call of the loop: the first limit that ends it."""
    limits = [] if budget.steps is None else [budget.steps]
    if budget.epochs is not None:
        limits.append(budget.epochs * per_epoch)
    return min(limits, default=None)


def samples_of_epoch(n: int, budget: Budget, steps_left: int | None) -> int:
    """Return how many samples of an epoch's order are used."""
    batches = n // budget.batch_size if budget.drop_last else -(-n // budget.batch_size)
    # Data smaller than one batch is still used.
    batches = max(batches, 1)
    for limit in (budget.batches_per_epoch, steps_left):
        if limit is not None:
            batches = min(batches, limit)
    return min(n, batches * budget.batch_size)
