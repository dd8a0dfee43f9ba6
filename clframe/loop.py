"""The training loop: epochs and steps on one experience's data.

The order of the samples is a function of seed, experience and epoch alone, so a run can be taken
up at any place without replaying what came before.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from clframe.data import Data
    from clframe.experience import Experience
    from clframe.learner import Learner


@dataclass(frozen=True)
class Budget:
    """How long and in what portions to train.

    Args:
        epochs: Passes over the data; None for no limit.
        steps: Optimiser steps; None for no limit.
        batch_size: Samples per step.
        drop_last: Leave out an epoch's last batch when it is smaller.
        batches_per_epoch: At most so many batches an epoch; None for all.
    """

    epochs: int | None = 1
    steps: int | None = None
    batch_size: int = 128
    drop_last: bool = False
    batches_per_epoch: int | None = None

    def times(self, factor: int) -> Budget:
        """The same with so many times the steps; epochs stay, since they grow with the data."""
        return dataclasses.replace(self, steps=None if self.steps is None else self.steps * factor)


def epoch_order(n: int, *key: int) -> Tensor:
    """A shuffled order of n samples that depends on nothing but the key.

    >>> bool((epoch_order(100, 1, 2) == epoch_order(100, 1, 2)).all())
    True
    >>> bool((epoch_order(100, 1, 2) == epoch_order(100, 1, 3)).all())
    False
    """
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(state >> np.uint64(1)))
    return torch.randperm(n, generator=generator)


def train(learner: Learner, experience: Experience, data: Data, budget: Budget) -> None:
    """Train on the data until the budget is used up, calling the hooks of each epoch and step."""
    engine = learner.engine
    device = engine.device
    data = data.to(device)
    plugins, hook = learner.plugins, learner.plugins.hook
    parameters = [p for p in learner.parameters() if p.requires_grad]
    clip = engine.settings.gradient_clip_val
    # Looked up once: a hook that nobody has is not called at all.
    on_backward = plugins.implements("after_backward")
    on_step = plugins.implements("after_step")
    left = budget.steps
    epoch = 0
    learner.train()
    while len(data) and (budget.epochs is None or epoch < budget.epochs) and left != 0:
        hook.before_epoch(learner=learner, experience=experience, epoch=learner.epoch)
        started = time.perf_counter()
        order = epoch_order(len(data), learner.seed, experience.index, learner.epoch)
        order = order[: _samples_of_epoch(len(data), budget, left)]
        total = torch.zeros((), device=device)
        steps = 0
        for batch in data.batches(order, budget.batch_size):
            # Looked up each step: a plugin may have replaced the optimiser in between.
            optimizer = learner.optimizer
            optimizer.zero_grad(set_to_none=True)  # type: ignore[union-attr]
            step = engine.run_step(batch)
            engine.backward(step.loss)  # type: ignore[arg-type]
            if on_backward:
                hook.after_backward(learner=learner, step=step)
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()  # type: ignore[union-attr]
            if on_step:
                hook.after_step(learner=learner, step=step)
            total += step.loss.detach()  # type: ignore[union-attr]
            steps += 1
        if left is not None:
            left -= steps
        learner.global_steps += steps
        learner.samples += len(order)
        logs = {
            "loss": float(total) / max(steps, 1),
            "steps": steps,
            "samples": len(order),
            "seconds": time.perf_counter() - started,
        }
        hook.after_epoch(learner=learner, experience=experience, epoch=learner.epoch, logs=logs)
        learner.train()
        learner.epoch += 1
        epoch += 1


def _samples_of_epoch(n: int, budget: Budget, steps_left: int | None) -> int:
    """How many samples of an epoch's order are used."""
    batches = n // budget.batch_size if budget.drop_last else -(-n // budget.batch_size)
    # Data smaller than one batch is still learned from.
    batches = max(batches, 1)
    for limit in (budget.batches_per_epoch, steps_left):
        if limit is not None:
            batches = min(batches, limit)
    return min(n, batches * budget.batch_size)
