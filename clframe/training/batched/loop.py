"""Training and evaluation of several seeds in lock-step, on the stack of their models."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clframe.core import hooks
from clframe.core.learner import Step
from clframe.data.dataset import Batch, Data, cat_inputs, map_inputs
from clframe.data.joined import join
from clframe.training.batched.stack import Stack
from clframe.training.faults import NotFiniteError
from clframe.training.loop import Budget, epoch_order, samples_of_epoch

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Task


class Lesson(NamedTuple):
    """What one seed is to be trained on."""

    learner: Learner
    experience: Experience
    data: Data
    budget: Budget


def train_together(stack: Stack, lessons: Sequence[Lesson]) -> None:
    """The loop of :mod:`clframe.training.loop` for several seeds at once.

    The loss of the stack is the sum of the seeds' losses, so each seed's gradient is its own.
    """
    learners = stack.learners
    device = learners[0].engine.device
    feed = Feed([lesson.data.to(device) for lesson in lessons])
    budget = lessons[0].budget
    n = len(lessons[0].data)
    left, epoch = budget.steps, 0
    for learner in learners:
        learner.train()
    trainer = Trainer(stack, feed)
    while n and (budget.epochs is None or epoch < budget.epochs) and left != 0:
        for learner, experience, _, _ in lessons:
            learner.plugins.hook.before_epoch(
                learner=learner, experience=experience, epoch=learner.epoch
            )
        started = time.perf_counter()
        used = samples_of_epoch(n, budget, left)
        orders = torch.stack(
            [
                epoch_order(n, learner.seed, experience.index, learner.epoch)[:used]
                for learner, experience, _, _ in lessons
            ]
        )
        totals = torch.zeros(len(lessons), device=device)
        steps = 0
        for chunk in feed.chunks(orders, budget.batch_size):
            totals += trainer.step(chunk)
            steps += 1
        if left is not None:
            left -= steps
        seconds = (time.perf_counter() - started) / len(lessons)
        for (learner, experience, _, _), total in zip(lessons, totals.tolist(), strict=True):
            if learner.engine.settings.on_nan == "stop" and not math.isfinite(total):
                raise NotFiniteError(
                    f"the loss of seed {learner.seed} is not finite in experience "
                    f"'{experience.name}', epoch {learner.epoch + 1}: a smaller learning rate or "
                    "weight may help, trainer.on_nan=ignore goes on all the same"
                )
            learner.global_steps += steps
            learner.samples += used
            logs = {
                "loss": total / max(steps, 1),
                "steps": steps,
                "samples": used,
                "seconds": seconds,
            }
            learner.plugins.hook.after_epoch(
                learner=learner, experience=experience, epoch=learner.epoch, logs=logs
            )
            learner.train()
            learner.epoch += 1
        epoch += 1
    trainer.close()


@torch.inference_mode()
def accuracies_together(stack: Stack, tasks: Sequence[Task]) -> list[float]:
    """The accuracy of each seed on its task of the same number."""
    settings, device = stack.learners[0].engine.settings, stack.learners[0].engine.device
    feed = Feed([task.data.to(device) for task in tasks])
    mask = Masks(stack.learners)
    n = len(feed.data[0])
    right = torch.zeros(len(tasks), dtype=torch.long, device=device)
    orders = torch.arange(n).expand(len(tasks), n)
    for chunk in feed.chunks(orders, settings.eval_batch_size):
        outputs = mask(stack.run(chunk.x)[0], chunk.task)
        right += (outputs.argmax(2) == chunk.y).sum(1)
    return [hits / max(n, 1) for hits in right.tolist()]


class Chunk(NamedTuple):
    """A batch of every seed; all tensors have seeds as their first dimension."""

    x: Any
    y: Tensor
    task: Tensor
    positions: Tensor


class Feed:
    """Batches of several data sets of equal length, gathered in one go.

    Args:
        data: One of each seed.
    """

    def __init__(self, data: Sequence[Data]) -> None:
        self.data = list(data)
        self._joined = join(self.data)
        self._starts = torch.tensor([0, *(len(d) for d in data[:-1])]).cumsum(0)[:, None]

    def chunks(self, orders: Tensor, size: int) -> Iterator[Chunk]:
        """Batches in these orders, one row for each seed."""
        seeds = len(orders)
        offset = orders + self._starts
        batches = self._joined.batches(
            torch.cat([part.flatten() for part in offset.split(size, 1)]), size * seeds
        )
        for positions, batch in zip(orders.split(size, 1), batches, strict=True):
            shape = positions.shape
            yield Chunk(
                map_inputs(lambda t, s=shape: t.view(*s, *t.shape[1:]), batch.x),  # type: ignore[misc]
                batch.y.view(shape),
                batch.task.view(shape),
                positions,
            )

    def batch(self, chunk: Chunk, seat: int) -> Batch:
        """One seed's part of a chunk."""
        return Batch(
            map_inputs(lambda t: t[seat], chunk.x),
            chunk.y[seat],
            chunk.task[seat],
            data=self.data[seat],
            positions=chunk.positions[seat],
        )


class Trainer:
    """One step after the other on a stack of learners.

    Args:
        stack: Of learners whose plugins can work side by side.
        feed: Where their batches come from.
    """

    def __init__(self, stack: Stack, feed: Feed) -> None:
        self.stack = stack
        self.feed = feed
        implements = stack.learners[0].plugins.implements
        # Where no plugin adds to a step, the losses of all seeds are one expression.
        self.plain = not (implements("extra_batches") or implements("penalty"))
        self.on_backward = implements("after_backward")
        self.on_step = implements("after_step")
        self.clip = stack.learners[0].engine.settings.gradient_clip_val
        self.parameters = [[p for p in x.parameters() if p.requires_grad] for x in stack.learners]
        self.optimizer = stack.take_optimizers()
        self.mask = Masks(stack.learners)

    def close(self) -> None:
        """Give every learner its optimiser's state back."""
        self.stack.return_optimizers(self.optimizer)

    def step(self, chunk: Chunk) -> Tensor:
        """Train all seeds on their batches; gives their losses."""
        learners = self.stack.learners
        self.stack.zero_grad()
        if self.plain:
            steps, losses = self._plain_steps(chunk)
        else:
            steps, losses = self._steps(chunk)
        losses.sum().backward()
        if self.on_backward:
            for learner, step in zip(learners, steps, strict=True):
                learner.plugins.hook.after_backward(learner=learner, step=step)
        if self.clip is not None:
            for parameters in self.parameters:
                torch.nn.utils.clip_grad_norm_(parameters, self.clip)
        self.optimizer.step()
        if self.on_step:
            for learner, step in zip(learners, steps, strict=True):
                learner.plugins.hook.after_step(learner=learner, step=step)
        return losses.detach()

    def _plain_steps(self, chunk: Chunk) -> tuple[list[Step], Tensor]:
        """The mean cross-entropy of every seed, and steps where a plugin looks at them."""
        outputs, features = self.stack.run(chunk.x)
        outputs = self.mask(outputs, chunk.task)
        losses = functional.cross_entropy(
            outputs.flatten(0, 1), chunk.y.flatten(), reduction="none"
        )
        losses = losses.view(chunk.y.shape).mean(1)
        steps = []
        if self.on_backward or self.on_step:
            kept = [None] * len(outputs) if features is None else list(features)
            steps = [
                Step([self.feed.batch(chunk, seat)], [of_seed], [kept[seat]])
                for seat, of_seed in enumerate(outputs)
            ]
            for step, loss in zip(steps, losses, strict=True):
                step.loss = loss
        return steps, losses

    def _steps(self, chunk: Chunk) -> tuple[list[Step], Tensor]:
        """Every seed's step and loss, with the outputs and the parts' losses made in one pass."""
        learners = self.stack.learners
        parts = [
            hooks.extra_batches(learner, self.feed.batch(chunk, seat))
            for seat, learner in enumerate(learners)
        ]
        sizes = [len(part) for part in parts[0]]
        x, y, task = chunk.x, chunk.y, chunk.task
        if len(sizes) > 1:
            x = stack_inputs([cat_inputs([part.x for part in of_seed]) for of_seed in parts])
            y = torch.stack([torch.cat([part.y for part in of_seed]) for of_seed in parts])
            task = torch.stack([torch.cat([part.task for part in of_seed]) for of_seed in parts])
        outputs, features = self.stack.run(x)
        outputs = self.mask(outputs, task)
        of_parts: list[Any] = [None] * len(learners)
        if all(part.loss is None for of_seed in parts for part in of_seed):
            of_samples = functional.cross_entropy(
                outputs.flatten(0, 1), y.flatten(), reduction="none"
            ).view(y.shape)
            means = torch.stack([part.mean(1) for part in of_samples.split(sizes, 1)], 1)
            of_parts = [of_seed.unbind() for of_seed in means.unbind()]
        # Taken apart in one go: the gradient of a slice is a tensor as large as the whole.
        seen = [None] * len(learners) if features is None else features.unbind()
        tasks = task.unbind()
        steps, losses = [], []
        for seat, of_seed in enumerate(outputs.unbind()):
            learner, features_of_seed = learners[seat], seen[seat]
            learner.current_task = tasks[seat]
            step = Step(parts[seat], [of_seed], [features_of_seed])
            if len(sizes) > 1:
                step.outputs = list(of_seed.split(sizes))
                if features_of_seed is None:
                    step.features = [None] * len(sizes)
                else:
                    step.features = list(features_of_seed.split(sizes))
            steps.append(step)
            losses.append(learner.loss_of(step, of_parts[seat]))
        return steps, torch.stack(losses)


class Masks:
    """The outputs that do not compete, for all seeds at once; open outputs must not change.

    Args:
        learners: Whose outputs are masked.
    """

    def __init__(self, learners: Sequence[Learner]) -> None:
        self._of_task: Tensor | None = None
        self._shut: Tensor | None = None
        if learners[0].stream.scenario == "task":
            self._of_task = torch.stack([learner.inactive_of_task for learner in learners])
            self._seat = torch.arange(len(learners), device=self._of_task.device)[:, None]
        elif any(learner._any_inactive for learner in learners):
            self._shut = torch.stack([learner.inactive for learner in learners])[:, None]

    def __call__(self, outputs: Tensor, task: Tensor) -> Tensor:
        """Outputs (seeds, samples, units) with those shut that do not compete."""
        shut = self._shut if self._of_task is None else self._of_task[self._seat, task]
        if shut is None:
            return outputs
        return outputs.masked_fill(shut, torch.finfo(outputs.dtype).min)


def stack_inputs(inputs: Sequence[Any]) -> Any:
    """Put inputs of equal shape side by side, seeds first."""
    if isinstance(inputs[0], dict):
        return {key: torch.stack([x[key] for x in inputs]) for key in inputs[0]}
    return torch.stack(list(inputs))
