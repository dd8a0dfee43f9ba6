"""``clframe ste``: a single-task expert for every task of a stream, for RP and SE of `clframe l2`.

An expert is a fresh model that learns what the stream teaches of one task and nothing else: the
same samples in the same blocks with the same budget, without a strategy.
"""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.errors import RunFolderError, SettingError
from clframe.utils.console import notice, say

if TYPE_CHECKING:
    from clframe.core.results import Result
    from clframe.core.stream import Stream

WEIGHTS = "weights.safetensors"


def main(words: Sequence[str]) -> int:
    """Train the experts one after the other and say where they are."""
    from clframe.api import make_stream
    from clframe.cli.fit import _quiet
    from clframe.config.compose import compose, plugin_paths
    from clframe.core.registry import discover
    from clframe.training.engine import ONE_PROCESS

    _quiet()
    overrides, out = divide(words)
    arguments, _ = compose(overrides)
    if arguments["strategy"]:
        notice(
            f"experts learn without a strategy; '{', '.join(arguments['strategy'])}' is left out"
        )
    arguments["strategy"] = {}
    arguments["trainer"] = {**(arguments.get("trainer") or {}), **ONE_PROCESS}
    stream = make_stream(
        discover(plugin_paths(overrides)),
        arguments["stream"],
        arguments["scenario"],
        arguments["seed"],
        arguments["data_dir"],
        arguments["download"],
    )
    folder = out or default_folder(stream, arguments["seed"])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunFolderError(f"out '{folder}' is not empty; give a new folder for the experts")
    taught = dict.fromkeys(task.name for experience in stream for task in experience.tasks)
    for number, name in enumerate(taught):
        notice(f"expert {number + 1} of {len(taught)}: {name}")
        place = folder / re.sub(r"[^\w.-]+", "-", name)
        result = train_expert(arguments, name, place)
        content = result.matrix.to_json()
        last = content["values"][-1][0]
        say(f"{name:<20} {content['measure']} {'-' if last is None else format(last, '.3f')}")
    say(f"\nexperts: {folder}")
    say(f"relative performance and sample efficiency: clframe l2 RUN/log --ste {folder}")
    return 0


def divide(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The overrides of fit, and the folder named by ``out=DIR`` or ``--out DIR``."""
    overrides: list[str] = []
    out: str | None = None
    rest = iter(words)
    for word in rest:
        key, _, value = word.partition("=")
        if word == "--out":
            out = next(rest, "")
        elif key in ("out", "--out"):
            out = value
        elif key in ("run_dir", "resume", "-m", "--multirun"):
            raise SettingError(
                f"clframe ste does not take '{key}': it trains all experts anew, into out=DIR"
            )
        else:
            overrides.append(word)
    if out == "":
        raise SettingError("out needs a folder: out=DIR")
    return overrides, None if out is None else Path(out)


def default_folder(stream: Stream, seed: int) -> Path:
    """A new folder ``runs/ste/<stream>/<time>-s<seed>``."""
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / "ste" / stream.name
    path, number = base / f"{now}-s{seed}", 1
    while path.exists():  # twice in one second
        number += 1
        path = base / f"{now}-s{seed}-{number}"
    return path


def train_expert(arguments: dict[str, Any], task: str, place: Path) -> Result:
    """Train the expert of one task and store its run, log and weights.

    Args:
        arguments: Of :func:`clframe.fit`, with the stream that teaches the task.
        task: The task's name.
        place: The run folder to make.
    """
    from clframe.api import prepare_run
    from clframe.plugins.builtin.progress import ProgressBar
    from clframe.run import run

    own = {"name": "single_task", "base": dict(arguments["stream"]), "task": task}
    prepared = prepare_run(
        **{**arguments, "stream": own, "run_dir": place, "strategy_name": "expert"},
        progress=True,
    )
    try:
        result = run(prepared.learner, prepared.stream, prepared.strategy, prepared.folder)
    finally:
        for plugin in prepared.learner.plugins.ordered:
            if isinstance(plugin, ProgressBar):
                plugin.close()
    save_weights(place / WEIGHTS, prepared.learner.model)
    # The checkpoint was for going on; what is kept of an expert can be read without pickle.
    shutil.rmtree(place / "checkpoints", ignore_errors=True)
    return result


def save_weights(path: Path, model: Any) -> None:
    """Write a model's weights as safetensors."""
    from safetensors.torch import save

    from clframe.utils.files import write_bytes

    weights = {
        # Copies, since tensors that share memory cannot be stored.
        name: value.detach().cpu().clone().contiguous()
        for name, value in model.state_dict().items()
    }
    write_bytes(path, save(weights))
