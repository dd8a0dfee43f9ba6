"""Measuring in the midst of training, so that training goes on as if nothing had been measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from clframe.utils import random_state

if TYPE_CHECKING:
    from clframe.core.learner import Learner


@contextlib.contextmanager
def evaluation_mode(learner: Learner) -> Iterator[None]:
    """Evaluation mode, without gradients; afterwards everything is as it was before.

    Restored are the mode of every module (so that batch statistics and dropout go on as they were,
    frozen layers included), all random generators, and the task that gated layers look at. What is
    done in here counts as evaluation in the run's timing.
    """
    modes = [(module, module.training) for module in learner.modules()]
    device, task = learner.engine.device, learner.current_task
    generators = random_state.capture(learner.generator, device)
    learner.eval()
    try:
        with learner.state.timing.measuring(), torch.inference_mode():
            yield
    finally:
        for module, training in modes:
            module.training = training
        learner.set_task(task)
        random_state.restore(generators, learner.generator, device)
