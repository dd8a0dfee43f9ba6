"""Targets of the previous model for replayed inputs, as a batch for the current one to learn.

Shared by the plugins that replay generated inputs, whose labels must come from a model.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core.losses import distillation_loss, soft_targets
from clframe.data.dataset import Batch, BatchLoss

if TYPE_CHECKING:
    from clframe.core.learner import Learner

NO_TASK = -1
"""Task index of samples without a task: the learner leaves all outputs open."""


def frozen_copy(module: nn.Module, device: torch.device) -> nn.Module:
    """Return a copy in evaluation mode with frozen parameters."""
    return copy.deepcopy(module).to(device).eval().requires_grad_(False)


@torch.no_grad()
def copy_values(source: nn.Module, target: nn.Module) -> None:
    """Copy all parameters and buffers of a module into its copy."""
    ours = [*target.parameters(), *target.buffers()]
    theirs = [*source.parameters(), *source.buffers()]
    for mine, other in zip(ours, theirs, strict=True):
        mine.copy_(other)


class PastTargets:
    """Labels or softened probabilities for replayed inputs.

    Domain- and class-incremental: over the outputs of all experiences before the current one, so
    that the probability of new classes is zero. Task-incremental: one target for every past task,
    from that task's outputs; the loss is the mean over past tasks.

    Args:
        learner: The learner; its previous model gives the targets.
        distill: Softened probabilities instead of the most likely label.
        temperature: Softening temperature.
    """

    def __init__(self, learner: Learner, distill: bool, temperature: float) -> None:
        self.learner = learner
        self.distill = distill
        self.temperature = temperature
        # With units gated by task, one pass cannot serve all tasks. Each sample then gets one
        # random past task, whose loss is in expectation the mean over past tasks.
        self._random_task = any(
            plugin.capabilities.task_gated for plugin in learner.plugins.ordered
        )
        self.past = torch.empty(0)
        self.blocks = torch.empty(0)
        self.masked = torch.empty(0)

    def begin(self) -> None:
        """Read the past tasks from the learner when an experience begins."""
        learner, device = self.learner, self.learner.engine.device
        tasks = {task.index: task for done in learner.seen for task in done.tasks}
        self.past = torch.tensor(sorted(tasks), device=device)
        n_outputs = learner.stream.n_outputs
        self.masked = torch.ones(n_outputs, dtype=torch.bool, device=device)
        for task in tasks.values():
            self.masked[list(task.outputs)] = False
        # Row k: the outputs of the k-th past task, padded with the index of an extra column
        # that is always masked. Cost then grows with the outputs, not with tasks times outputs.
        width = max(len(task.outputs) for task in tasks.values())
        rows = [
            [*tasks[index].outputs, *[n_outputs] * (width - len(tasks[index].outputs))]
            for index in sorted(tasks)
        ]
        self.blocks = torch.tensor(rows, device=device)

    @property
    def every_task(self) -> bool:
        """Whether each sample has a target for each past task."""
        return self.learner.stream.scenario == "task" and not self._random_task

    @torch.no_grad()
    def batch(self, x: Tensor, previous: nn.Module, weight: float) -> Batch:
        """Return the inputs as a batch with the previous model's targets.

        Args:
            x: Replayed inputs of ``previous``.
            previous: Maps them to one logit per output.
            weight: Weight of the batch in the step.
        """
        task = self._draw_tasks(len(x))
        self.learner.set_task(task)
        logits = previous(x)
        if self.learner.stream.scenario == "task" and self._random_task:
            masked = self.learner.mask_outputs(logits, task)
        else:
            masked = logits.masked_fill(self.masked, torch.finfo(logits.dtype).min)
        labels = masked.argmax(1)
        loss: BatchLoss | None = None
        if self.every_task:
            split = self._split(logits)
            loss = self._distil(split) if self.distill else self._label_by_task(split)
        elif self.distill:
            loss = self._distil(masked)
        return Batch(x, labels, task, weight, loss)

    def _draw_tasks(self, n: int) -> Tensor:
        """Return the task under which each replayed sample goes through the models."""
        device = self.learner.engine.device
        if self._random_task:
            drawn = torch.randint(
                len(self.past), (n,), generator=self.learner.generator, device=device
            )
            return self.past[drawn]
        return torch.full((n,), NO_TASK, device=device)

    def _split(self, logits: Tensor) -> Tensor:
        """Split logits [samples, outputs] into [samples, past tasks, outputs of a task]."""
        extra = torch.finfo(logits.dtype).min
        return functional.pad(logits, (0, 1), value=extra)[:, self.blocks]

    def _label_by_task(self, teacher: Tensor) -> BatchLoss:
        labels = teacher.argmax(-1).flatten()

        def loss(outputs: Tensor, batch: Batch) -> Tensor:
            return functional.cross_entropy(self._split(outputs).flatten(0, 1), labels)

        return loss

    def _distil(self, teacher: Tensor) -> BatchLoss:
        targets = soft_targets(teacher, self.temperature).flatten(0, -2)

        def loss(outputs: Tensor, batch: Batch) -> Tensor:
            student = self._split(outputs).flatten(0, 1) if self.every_task else outputs
            return distillation_loss(student, targets, self.temperature)

        return loss
