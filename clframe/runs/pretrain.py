"""Starting from what another run has learned: ``pretrain=RUN``.

LIBERO pretrains on its ninety short tasks at once and then learns a suite from there (Liu et al.,
2023, T5). Taken over are the weights and buffers of the model at the end of a run, whatever stream
and strategy made it; the optimizer, plugins and random numbers start anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clframe.errors import RunFolderError
from clframe.runs.folder import RunFolder

_MODEL = "model."
"""What the model's entries in a learner's state begin with."""


def begin(
    path: str | Path | None, folder: RunFolder | None, model: nn.Module
) -> dict[str, Any] | None:
    """Start a model from another run if one is named; returns what is to be recorded of it.

    A resumed run has weights of its own, and does not need the other folder any more.
    """
    if path is None:
        return None
    where = Path(path).expanduser()
    if folder is not None and folder.resumed and folder.checkpoints.numbers():
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
    info = folder.checkpoints.newest()
    if info is None:
        raise RunFolderError(f"pretrain: run '{path}' has no checkpoint to take weights from")
    state = folder.checkpoints.read(info.number, torch.device("cpu"))["learner"]
    weights = {k.removeprefix(_MODEL): v for k, v in state.items() if k.startswith(_MODEL)}
    _check(weights, model.state_dict(), path)
    model.load_state_dict(weights)
    return source


def describe(path: Path) -> dict[str, Any]:
    """Which run it is; only its folder where it is not finished or not there any more."""
    source: dict[str, Any] = {"run": str(path)}
    try:
        results = json.loads(RunFolder(path).results.read_text())
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
