"""The complete state of a run as tensors and plain values: capture and restore.

It covers the learner, its optimizer, learning-rate schedule and precision, every plugin's named
state, all random generators, the matrix, the counters and, inside the training loop, the position
in the data.
"""

from __future__ import annotations

import copy
from operator import index
from typing import TYPE_CHECKING, Any

from torch import Tensor

from clframe.checkpoint.foreign import check_optimizer
from clframe.core.matrix import AccuracyMatrix
from clframe.evaluation.forgetting_tensor import ForgettingTensor
from clframe.utils import random_state
from clframe.utils.serialization import plain_value

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.state import RunState


def capture(learner: Learner, state: RunState) -> dict[str, Any]:
    """Return the state of the run; its tensors are live, so save or clone them at once."""
    device = learner.engine.device
    return {
        "learner": dict(learner.state_dict()),
        "optimizer": plain_value(learner.optimizer),
        "schedule": plain_value(learner.schedule),
        "precision": learner.engine.precision_state(),
        "plugins": learner.plugins.state_dict(),
        "files": learner.plugins.written_files(),
        "epoch": state.epoch,
        "global_steps": state.global_steps,
        "samples": state.samples,
        "curves": dict(state.curves),
        "matrix": state.matrix.state_dict(),
        "tensor": state.tensor.state_dict(),
        "timing": state.timing.state_dict(),
        "random": random_state.capture(learner.generator, device),
    }


def restore(saved: dict[str, Any], learner: Learner, state: RunState) -> None:
    """Restore the run to the captured state."""
    learner.restore(saved["learner"])
    if learner.optimizer is not None and saved["optimizer"] is not None:
        check_optimizer(saved["optimizer"], learner.optimizer)
        learner.optimizer.load_state_dict(saved["optimizer"])
    if learner.schedule is not None and saved["schedule"] is not None:
        learner.schedule.load_state_dict(saved["schedule"])
    learner.engine.load_precision_state(saved["precision"])
    learner.plugins.load_state_dict(saved["plugins"])
    state.epoch = index(saved["epoch"])
    state.global_steps = index(saved["global_steps"])
    state.samples = index(saved["samples"])
    for tasks in saved["curves"].values():
        for values in tasks.values():
            list(map(float, values))  # In another run's state, it may be anything.
    state.curves = copy.deepcopy(saved["curves"])
    state.matrix = AccuracyMatrix.from_state(saved["matrix"])
    state.tensor = ForgettingTensor.from_state(state.matrix.columns, saved["tensor"])
    state.timing.load_state_dict(saved["timing"])
    random_state.restore(saved["random"], learner.generator, learner.engine.device)


_FINAL = ("matrix", "tensor", "curves")
"""Entries that only grow: a clone shares them, so its cost does not grow with the stream."""


def clone(saved: dict[str, Any]) -> dict[str, Any]:
    """Return the state with tensors of its own in main memory, so that the run can continue."""
    return {key: value if key in _FINAL else _clone(value) for key, value in saved.items()}


def _clone(state: Any) -> Any:
    if isinstance(state, Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: _clone(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        if all(type(value) in (str, int, float, bool) for value in state):
            return list(state)
        return [_clone(value) for value in state]
    return state
