"""Starting from what another run has learned: ``pretrain=RUN``.

LIBERO pretrains on its ninety short tasks at once and then learns a suite from there (Liu et al.,
2023, T5). Taken over are the weights and buffers of the model at the end of a run, whatever stream
and strategy made it; the optimizer, plugins and random numbers start anew.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clframe.checkpoint.settings import KEEP_ALL
from clframe.core.results import Result
from clframe.errors import RunFolderError, nearest
from clframe.runs.folder import RunFolder
from clframe.utils.regular import read_json

_MODEL = "model."
"""What the model's entries in a learner's state begin with."""


def begin(
    path: str | Path | None, folder: RunFolder | None, model: nn.Module
) -> dict[str, Any] | None:
    """Start a model from another run if one is named; returns what is to be recorded of it.

    A resumed run has weights of its own, and does not need the other folder any more; unless it
    tunes what it began with, which its checkpoints do not hold (clframe/models/tuning).
    """
    if path is None:
        return None
    where = Path(path).expanduser()
    if folder is not None and folder.resumed and folder.checkpoints.numbers():
        with contextlib.suppress(RunFolderError):
            return start_from(where, model)
        return describe(where)
    return start_from(where, model)


def start_from(path: Path, model: nn.Module) -> dict[str, Any]:
    """Put the final weights of another run into a model.

    Args:
        path: The run folder.
        model: As it was made; it must have the same weights, in the same shapes.

    Returns:
        What ``results.json`` says of it; see :func:`describe`.

    Raises:
        RunFolderError: There is no such run, it has not come to its end, or its model is another.
    """
    source = describe(path)
    folder = RunFolder(path)
    if "stream" not in source:
        folder.read_config()  # which says so where it is no run folder at all
        raise RunFolderError(
            f"pretrain: run '{path}' has not come to its end; finish it with resume={path}"
        )
    info = folder.checkpoints.newest(final=True)
    if info is None:
        raise RunFolderError(f"pretrain: run '{path}' has no checkpoint to take weights from")
    put_weights(folder, info.number, model)
    return source


def put_weights(folder: RunFolder, number: int, model: nn.Module) -> None:
    """Put the weights of a run's checkpoint into a model.

    Raises:
        RunFolderError: The model is another one.
    """
    state = folder.checkpoints.read(number, torch.device("cpu")).get("learner")
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise RunFolderError(f"run '{folder.path}' has a checkpoint that holds no weights")
    weights = {k.removeprefix(_MODEL): v for k, v in state.items() if k.startswith(_MODEL)}
    _check(weights, model.state_dict(), folder.path)
    model.load_state_dict(weights)


def find_checkpoint(folder: RunFolder, after: str | int | None) -> int:
    """The number of a run's newest checkpoint, or of one between two experiences.

    Args:
        folder: Of the run.
        after: How many experiences were learned then, or the name of the last of them; None for
            the newest.

    Raises:
        RunFolderError: There is none; the sentence says which there are.
    """
    store = folder.checkpoints
    newest = store.newest(final=after is None and folder.results.exists())
    if newest is None:
        raise RunFolderError(f"run '{folder.path}' has no checkpoint to load")
    if after is None:
        return newest.number
    found: dict[int, int] = {}
    for info in store.usable():
        if info.learned is not None:
            found.setdefault(info.learned, info.number)
    wanted = after if isinstance(after, int) else _place(folder, after)
    if wanted not in found:
        kept = ", ".join(str(learned) for learned in sorted(found)) or "none"
        raise RunFolderError(
            f"run '{folder.path}' has no checkpoint after {wanted} experiences (it has: {kept}); "
            f"{KEEP_ALL}"
        )
    return found[wanted]


def _place(folder: RunFolder, name: str) -> int:
    """How many experiences were learned with the one of that name."""
    rows = Result.load(folder.path).matrix.rows
    if name not in rows:
        raise RunFolderError(
            f"run '{folder.path}' has learned no experience '{name}'; {nearest(name, rows)}"
        )
    return rows.index(name)


def describe(path: Path) -> dict[str, Any]:
    """Which run it is; only its folder where it is not finished or not there any more."""
    source: dict[str, Any] = {"run": str(path)}
    try:
        results = read_json(RunFolder(path).results)
        return source | {key: results[key] for key in ("stream", "strategy", "seed")}
    except (OSError, ValueError, KeyError, TypeError):
        return source


def _check(weights: dict[str, Tensor], expected: dict[str, Tensor], path: Path) -> None:
    """Refuse weights that are not this model's, naming the first that differs."""
    for name, tensor in expected.items():
        if name not in weights:
            raise RunFolderError(
                f"pretrain: the model of run '{path}' has no weights '{name}', which this one has; "
                "give both runs the same model"
            )
        if weights[name].shape != tensor.shape:
            raise RunFolderError(
                f"pretrain: '{name}' is {list(weights[name].shape)} in run '{path}' and "
                f"{list(tensor.shape)} here; both runs need the same model on inputs and outputs "
                "of the same size"
            )
    for name in weights:
        if name not in expected:
            raise RunFolderError(
                f"pretrain: the model of run '{path}' has weights '{name}', which this one lacks; "
                "give both runs the same model"
            )
