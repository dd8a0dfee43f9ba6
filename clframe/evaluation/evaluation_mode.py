"""Evaluate during training without affecting training."""

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
    """Switch to evaluation mode without gradients, and restore everything afterwards.

    This restores the mode of every module (so that batch statistics and dropout continue, including
    frozen layers), all random generators, and the task of gated layers. Time in this context counts
    as evaluation in the run's timing.
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
