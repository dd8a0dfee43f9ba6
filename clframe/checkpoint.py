"""The state of a run as one file, written atomically and read without executing code."""

from __future__ import annotations

import dataclasses
import io
import pickle
import random
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clframe.errors import RunFolderError
from clframe.files import write_bytes
from clframe.matrix import AccuracyMatrix
from clframe.state import plain_value

if TYPE_CHECKING:
    from clframe.learner import Learner
    from clframe.results import Timing

VERSION = 1


def save(path: Path, learner: Learner, matrix: AccuracyMatrix, timing: Timing) -> None:
    """Write everything a run needs to go on after the experiences learned so far."""
    state = {
        "version": VERSION,
        "learner": learner.state_dict(),
        "optimizer": plain_value(learner.optimizer),
        "plugins": learner.plugins.state_dict(),
        "experiences": len(learner.seen),
        "global_steps": learner.global_steps,
        "matrix": matrix.to_json(),
        "samples": learner.samples,
        "timing": dataclasses.asdict(timing),
        "random": {
            "torch": torch.get_rng_state(),
            "learner": learner.generator.get_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "python": _plain_python_state(),
            "numpy": _plain_numpy_state(),
        },
    }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, buffer.getvalue())


def read(path: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint; anything but tensors and plain values in it is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of old formats before refusing them
            state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise RunFolderError(f"there is no checkpoint '{path}' to continue from") from None
    except pickle.UnpicklingError as error:
        raise RunFolderError(
            f"checkpoint '{path}' holds more than tensors and plain values and was not loaded"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise RunFolderError(
            f"checkpoint '{path}' is damaged: {str(error).splitlines()[0]}"
        ) from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise RunFolderError(f"checkpoint '{path}' is not one of this version of clframe")
    return state


def restore(
    state: dict[str, Any], learner: Learner, matrix: AccuracyMatrix, timing: Timing
) -> None:
    """Put a saved state back into a freshly made run."""
    seen = list(learner.stream.experiences[: state["experiences"]])
    learner.restore(state["learner"], seen)
    if learner.optimizer is not None and state["optimizer"] is not None:
        learner.optimizer.load_state_dict(state["optimizer"])
    learner.plugins.load_state_dict(state["plugins"])
    learner.global_steps = state["global_steps"]
    saved = AccuracyMatrix.from_json(state["matrix"])
    matrix.rows, matrix._values = saved.rows, saved._values
    learner.samples = state["samples"]
    for key, value in state["timing"].items():
        setattr(timing, key, value)
    torch.set_rng_state(state["random"]["torch"].cpu())
    learner.generator.set_state(state["random"]["learner"].cpu())
    if torch.cuda.is_available() and state["random"]["cuda"]:
        torch.cuda.set_rng_state_all([s.cpu() for s in state["random"]["cuda"]])
    version, internal, gauss = state["random"]["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["random"]["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))


def _plain_python_state() -> list[Any]:
    version, internal, gauss = random.getstate()
    return [version, list(internal), gauss]


def _plain_numpy_state() -> list[Any]:
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    plain_keys = torch.from_numpy(np.asarray(keys).astype(np.int64))
    return [str(name), plain_keys, int(position), int(has_gauss), float(cached)]
