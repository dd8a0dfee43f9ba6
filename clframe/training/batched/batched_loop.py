"""Training of several seeds in lock-step, on the stack of their models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from clframe.core import hooks
from clframe.core.step import Step
from clframe.data.inputs import cat_inputs
from clframe.training.batched.batched_data import Chunk, Feed, stack_inputs
from clframe.training.batched.masks import Masks
from clframe.training.batched.stack import Stack
from clframe.training.loop import FitRequest, clip_gradients, run_epochs
from clframe.training.step_metrics import log_gradient_norm


def train_batched(stack: Stack, requests: Sequence[FitRequest]) -> None:
    """Train several seeds at once, as :mod:`clframe.training.loop` does for one.

    The loss of the stack is the sum of the seeds' losses, so each seed's gradient is its own.
    """
    device = stack.learners[0].engine.device
    requests = [request._replace(data=request.data.to(device)) for request in requests]
    run_epochs(requests, BatchedStepper(stack, Feed([request.data for request in requests])))


class BatchedStepper:
    """Training steps of several learners, taken as one on the stack of their models.

    Args:
        stack: Learners whose plugins can be batched.
        feed: Source of their batches.
    """

    def __init__(self, stack: Stack, feed: Feed) -> None:
        self.stack = stack
        self.feed = feed
        implements = stack.learners[0].plugins.implements
        # If no plugin adds to a step, the losses of all seeds are one expression.
        self.plain = not (implements("extra_batches") or implements("penalty"))
        self.on_backward = implements("after_backward")
        self.on_step = implements("after_step")
        self.settings = stack.learners[0].engine.settings
        self.log_grad_norm = stack.learners[0].engine.logging.log_grad_norm
        self.parameters = [[p for p in x.parameters() if p.requires_grad] for x in stack.learners]
        self._optimizer: torch.optim.Optimizer | None = None
        self.scheduled = stack.learners[0].schedule is not None
        self.mask = Masks(stack.learners)
        self._no_steps: list[Step | None] = [None] * len(stack.learners)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer of all seeds, made at the first step, after a resumed run is restored."""
        if self._optimizer is None:
            self._optimizer = self.stack.take_optimizers()
        return self._optimizer

    def batches(self, orders: Sequence[Tensor], size: int) -> Iterator[Chunk]:
        """Return the batches of all seeds' epochs."""
        return self.feed.chunks(torch.stack(list(orders)), size)

    def close(self) -> None:
        """Release the gradients."""
        self.stack.end_sharing()

    def step(self, chunk: Chunk) -> Sequence[tuple[Tensor, Step | None]]:
        """Train all seeds on their batches."""
        learners, optimizer = self.stack.learners, self.optimizer
        self.stack.zero_grad()
        if self.plain:
            steps, losses = self._plain_steps(chunk)
        else:
            steps, losses = self._steps(chunk)
        losses.sum().backward()
        if self.on_backward:
            for learner, step in zip(learners, steps, strict=True):
                learner.plugins.hook.after_backward(learner=learner, step=step)
        for learner, parameters in zip(learners, self.parameters, strict=True):
            if self.log_grad_norm:
                log_gradient_norm(learner, parameters)
            clip_gradients(parameters, self.settings)
        if self.scheduled:
            self.stack.follow_schedule(optimizer)
        optimizer.step()
        if self.on_step:
            for learner, step in zip(learners, steps, strict=True):
                learner.plugins.hook.after_step(learner=learner, step=step)
        return list(zip(losses.detach().unbind(), steps or self._no_steps, strict=True))

    def _plain_steps(self, chunk: Chunk) -> tuple[list[Step], Tensor]:
        """Return every seed's mean cross-entropy, and its steps if a plugin uses them."""
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
                Step([self.feed.batch(chunk, index)], [of_seed], [kept[index]])
                for index, of_seed in enumerate(outputs)
            ]
            for step, loss in zip(steps, losses, strict=True):
                step.loss = loss
        return steps, losses

    def _steps(self, chunk: Chunk) -> tuple[list[Step], Tensor]:
        """Return every seed's step and loss, with outputs and losses computed in one pass."""
        learners = self.stack.learners
        batches = [
            hooks.extra_batches(learner, self.feed.batch(chunk, index))
            for index, learner in enumerate(learners)
        ]
        sizes = [len(batch) for batch in batches[0]]
        x, y, task = chunk.x, chunk.y, chunk.task
        if len(sizes) > 1:
            x = stack_inputs([cat_inputs([batch.x for batch in of_seed]) for of_seed in batches])
            y = torch.stack([torch.cat([batch.y for batch in of_seed]) for of_seed in batches])
            task = torch.stack(
                [torch.cat([batch.task for batch in of_seed]) for of_seed in batches]
            )
        outputs, features = self.stack.run(x)
        outputs = self.mask(outputs, task)
        of_parts: list[Any] = [None] * len(learners)
        if all(batch.loss is None for of_seed in batches for batch in of_seed):
            of_samples = functional.cross_entropy(
                outputs.flatten(0, 1), y.flatten(), reduction="none"
            ).view(y.shape)
            means = torch.stack([batch.mean(1) for batch in of_samples.split(sizes, 1)], 1)
            of_parts = [of_seed.unbind() for of_seed in means.unbind()]
        # Unbind in one operation: the gradient of a slice is a tensor as large as the whole.
        seen = [None] * len(learners) if features is None else features.unbind()
        tasks = task.unbind()
        steps, losses = [], []
        for index, of_seed in enumerate(outputs.unbind()):
            learner, features_of_seed = learners[index], seen[index]
            learner.set_task(tasks[index])
            step = Step(batches[index], [of_seed], [features_of_seed])
            if len(sizes) > 1:
                step.outputs = list(of_seed.split(sizes))
                if features_of_seed is None:
                    step.features = [None] * len(sizes)
                else:
                    step.features = list(features_of_seed.split(sizes))
            steps.append(step)
            losses.append(learner.loss_of(step, of_parts[index]))
        return steps, torch.stack(losses)
