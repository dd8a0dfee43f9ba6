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

from clframe.checkpoint.checkpointer import Place
from clframe.training.faults import Losses

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience
    from clframe.data.dataset import Data


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
    keeper = learner.keeper
    parameters = [p for p in learner.parameters() if p.requires_grad]
    clip = engine.settings.gradient_clip_val
    # Looked up once: a hook that nobody has is not called at all.
    on_backward = plugins.implements("after_backward")
    on_step = plugins.implements("after_step")
    place = Place(torch.zeros((), device=device), budget.steps)
    if engine.settings.on_nan == "stop":
        place.losses = Losses(learner, experience, place)
    losses = place.losses
    learner.train()
    # A run that is taken up has been here before: it goes on in its epoch, or after the loop.
    keeper.enter(place)
    while not place.done and len(data) and _is_left(place, budget):
        hook.before_epoch(learner=learner, experience=experience, epoch=learner.epoch)
        keeper.catch_up()
        place.started = time.perf_counter() - place.seconds
        order = epoch_order(len(data), learner.seed, experience.index, learner.epoch)
        order = order[: samples_of_epoch(len(data), budget, place.left)]
        rest = order[place.steps * budget.batch_size :]
        for batch in engine.batches(data, rest, budget.batch_size):
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
            loss = step.loss.detach()  # type: ignore[union-attr]
            place.total += loss
            place.steps += 1
            if losses is not None:
                losses.add(loss, step)
            keeper.step(place)
        if losses is not None:
            losses.check()
        if place.left is not None:
            place.left -= place.steps
        learner.global_steps += place.steps
        learner.samples += len(order)
        logs = {
            "loss": float(place.total) / max(place.steps, 1),
            "steps": place.steps,
            "samples": len(order),
            "seconds": time.perf_counter() - place.started,
        }
        hook.after_epoch(learner=learner, experience=experience, epoch=learner.epoch, logs=logs)
        learner.train()
        learner.epoch += 1
        place.epochs += 1
        place.total, place.steps, place.seconds = torch.zeros((), device=device), 0, 0.0
    keeper.leave(place)


def _is_left(place: Place, budget: Budget) -> bool:
    """Whether there is another epoch to learn."""
    return place.left != 0 and (budget.epochs is None or place.epochs < budget.epochs)


def samples_of_epoch(n: int, budget: Budget, steps_left: int | None) -> int:
    """How many samples of an epoch's order are used."""
    batches = n // budget.batch_size if budget.drop_last else -(-n // budget.batch_size)
    # Data smaller than one batch is still learned from.
    batches = max(batches, 1)
    for limit in (budget.batches_per_epoch, steps_left):
        if limit is not None:
            batches = min(batches, limit)
    return min(n, batches * budget.batch_size)
