"""Start from the weights of another run: ``pretrain=RUN``.

LIBERO pretrains on its ninety short tasks at once and then learns a suite from there (Liu et al.,
2023, T5). The run takes over the weights and buffers of the model at the end of another run, of any
stream and strategy. The optimizer, plugins and random numbers start fresh.
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
"""Prefix of the model's entries in a learner's state."""


def begin(
    path: str | Path | None, folder: RunFolder | None, model: nn.Module
) -> dict[str, Any] | None:
    """Start a model from another run if one is named, and return the record of that run.

    A resumed run has weights of its own and no longer needs the other folder, unless it tunes its
    initial weights, which its checkpoints do not hold (clframe/models/tuning).
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
    """Load the final weights of another run into a model.

    Args:
        path: The run folder.
        model: A new model; it must have the same weights, in the same shapes.

    Returns:
        The entry for ``results.json``; see :func:`describe`.

    Raises:
        RunFolderError: There is no such run, it is not finished, or its model differs.
    """
    source = describe(path)
    folder = RunFolder(path)
    if "stream" not in source:
        folder.read_config()  # Raises an error if this is not a run folder.
        raise RunFolderError(
            f"pretrain: run '{path}' is not finished; finish it with resume={path}"
        )
    info = folder.checkpoints.newest(final=True)
    if info is None:
        raise RunFolderError(f"pretrain: run '{path}' has no checkpoint to take weights from")
    put_weights(folder, info.number, model)
    return source


def put_weights(folder: RunFolder, number: int, model: nn.Module) -> None:
    """Load the weights of a run's checkpoint into a model.

    Raises:
        RunFolderError: The model differs.
    """
    state = folder.checkpoints.read(number, torch.device("cpu")).get("learner")
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise RunFolderError(f"run '{folder.path}' has a checkpoint that holds no weights")
    weights = {k.removeprefix(_MODEL): v for k, v in state.items() if k.startswith(_MODEL)}
    _check(weights, model.state_dict(), folder.path)
    model.load_state_dict(weights)


def find_checkpoint(folder: RunFolder, after: str | int | None) -> int:
    """Return the number of a run's newest checkpoint, or of one between two experiences.

    Args:
        folder: Folder of the run.
        after: Number of experiences learned by then, or the name of the last of them; None for
            the newest.

    Raises:
        RunFolderError: There is no such checkpoint; the message lists those there are.
    """
    store = folder.checkpoints
    newest = store.newest(final=after is None and folder.results.exists())
    if newest is None:
        raise RunFolderError(f"run '{folder.path}' has no checkpoint to load")
    if after is None:
        return newest.number
    numbers: dict[int, int] = {}
    for info in store.usable():
        if info.learned is not None:
            numbers.setdefault(info.learned, info.number)
    n_learned = after if isinstance(after, int) else _place(folder, after)
    if n_learned not in numbers:
        kept = ", ".join(str(learned) for learned in sorted(numbers)) or "none"
        raise RunFolderError(
            f"run '{folder.path}' has no checkpoint after {n_learned} experiences "
            f"(it has: {kept}); {KEEP_ALL}"
        )
    return numbers[n_learned]


def _place(folder: RunFolder, name: str) -> int:
    """Return how many experiences were learned once this one was."""
    rows = Result.load(folder.path).matrix.rows
    if name not in rows:
        raise RunFolderError(
            f"run '{folder.path}' has learned no experience '{name}'; {nearest(name, rows)}"
        )
    return rows.index(name)


def describe(path: Path) -> dict[str, Any]:
    """Return the record of a run; only its folder if it is unfinished or missing."""
    source: dict[str, Any] = {"run": str(path)}
    try:
        results = read_json(RunFolder(path).results)
        return source | {key: results[key] for key in ("stream", "strategy", "seed")}
    except (OSError, ValueError, KeyError, TypeError):
        return source


def _check(weights: dict[str, Tensor], expected: dict[str, Tensor], path: Path) -> None:
    """Refuse weights that do not fit this model, naming the first that differs."""
    for name, tensor in expected.items():
        if name not in weights:
            raise RunFolderError(
                f"pretrain: the model of run '{path}' lacks the weights '{name}' of this model; "
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
