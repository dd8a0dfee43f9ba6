"""Everything a run is at one moment, as tensors and plain values, and back again.

The learner, its optimiser and precision, every plugin's named state, all random generators, the
matrix, the counters and, inside the training loop, the place in the data.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from clframe.core.matrix import AccuracyMatrix
from clframe.core.serialization import plain_value

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Timing


def take(learner: Learner, matrix: AccuracyMatrix, timing: Timing) -> dict[str, Any]:
    """The state of the run now; its tensors are the live ones, to be saved or copied at once."""
    return {
        "learner": dict(learner.state_dict()),
        "optimizer": plain_value(learner.optimizer),
        "precision": learner.engine.precision_state(),
        "plugins": learner.plugins.state_dict(),
        "epoch": learner.epoch,
        "global_steps": learner.global_steps,
        "samples": learner.samples,
        "matrix": matrix.to_json(),
        "timing": timing.state_dict(),
        "random": {
            "torch": torch.get_rng_state(),
            "learner": learner.generator.get_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "python": _plain_python_state(),
            "numpy": _plain_numpy_state(),
        },
    }


def put_back(
    state: dict[str, Any], learner: Learner, matrix: AccuracyMatrix, timing: Timing
) -> None:
    """Make the run what it was when the state was taken."""
    learner.restore(state["learner"])
    if learner.optimizer is not None and state["optimizer"] is not None:
        learner.optimizer.load_state_dict(state["optimizer"])
    learner.engine.load_precision_state(state["precision"])
    learner.plugins.load_state_dict(state["plugins"])
    learner.epoch = state["epoch"]
    learner.global_steps = state["global_steps"]
    learner.samples = state["samples"]
    saved = AccuracyMatrix.from_json(state["matrix"])
    matrix.rows, matrix._values, matrix.measure = saved.rows, saved._values, saved.measure
    timing.load_state_dict(state["timing"])
    torch.set_rng_state(state["random"]["torch"].cpu())
    learner.generator.set_state(state["random"]["learner"].cpu())
    if torch.cuda.is_available() and state["random"]["cuda"]:
        torch.cuda.set_rng_state_all([s.cpu() for s in state["random"]["cuda"]])
    version, internal, gauss = state["random"]["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["random"]["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))


def copied(state: Any) -> Any:
    """The same with tensors of its own in main memory, so that the run can go on."""
    if isinstance(state, Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [copied(value) for value in state]
    return state


def _plain_python_state() -> list[Any]:
    version, internal, gauss = random.getstate()
    return [version, list(internal), gauss]


def _plain_numpy_state() -> list[Any]:
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    plain_keys = torch.from_numpy(np.asarray(keys).astype(np.int64))
    return [str(name), plain_keys, int(position), int(has_gauss), float(cached)]
