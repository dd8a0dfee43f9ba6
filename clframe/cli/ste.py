"""``clframe ste``: train single-task experts for all tasks, for RP and SE of ``clframe l2``.

An expert is a fresh model that learns only what the stream teaches of one task: the same samples in
the same blocks with the same budget, without a strategy.
"""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.cli.parser import Parser, named
from clframe.config.compose import compose
from clframe.errors import RunFolderError, SettingError
from clframe.utils.console import print_out, warn_user

if TYPE_CHECKING:
    from clframe.config.run_config import RunConfig
    from clframe.core.stream import Stream

WEIGHTS = "weights.safetensors"


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "ste",
        "Train a single-task expert for every task of a stream: a fresh model that learns this "
        "task alone.\nWith them, clframe l2 knows relative performance and sample efficiency.",
        [
            (
                "clframe ste stream=split_mnist max_epochs=1 --out experts",
                "one expert per task",
            ),
            ("clframe l2 RUN/log --ste experts", "uses them"),
        ],
        key_value=True,
    )
    parser.add_settings("settings of the run, as clframe fit takes them")
    parser.add_argument(
        "--out", type=named, metavar="DIR", help="a new folder; default: below runs/ste"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Train the experts and print where they are."""
    arguments = parser().parse(argv)
    overrides = arguments.settings
    for word in overrides:
        key = word.partition("=")[0]
        if key in ("run_dir", "resume"):
            raise SettingError(
                f"clframe ste does not take '{key}': it trains new experts, into --out DIR"
            )
    config = compose(overrides)
    from clframe.build import build_stream
    from clframe.core.registry import discover
    from clframe.core.results import Result
    from clframe.runs.folder import RunFolder
    from clframe.training.engine import ONE_PROCESS

    if config.strategy:
        warn_user(f"experts learn without a strategy; '{', '.join(config.strategy)}' is left out")  # type: ignore[arg-type]
    config = config.replace(strategy={}, trainer={**(config.trainer or {}), **ONE_PROCESS})
    stream = build_stream(config, discover(config.plugin_paths))
    folder = Path(arguments.out) if arguments.out else default_folder(stream, config.seed)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunFolderError(f"out '{folder}' is not empty; give a new folder for the experts")
    RunFolder(folder).check()
    taught = dict.fromkeys(task.name for experience in stream for task in experience.tasks)
    folders = {name: folder / re.sub(r"[^\w.-]+", "-", name) for name in taught}
    warn_user(f"{len(folders)} experts in {folder}")
    train_experts(config, folders)
    for name, path in folders.items():
        content = Result.load(path).matrix.to_json()
        last = content["values"][-1][0]
        print_out(f"{name:<20} {content['measure']} {'-' if last is None else format(last, '.3f')}")
    print_out()
    print_out(f"experts: {folder}")
    print_out(f"relative performance and sample efficiency: clframe l2 RUN/log --ste {folder}")
    return 0


def default_folder(stream: Stream, seed: int) -> Path:
    """Return a new folder ``runs/ste/<stream>/<time>-s<seed>``."""
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / "ste" / stream.name
    path, number = base / f"{now}-s{seed}", 1
    while path.exists():  # started twice in one second
        number += 1
        path = base / f"{now}-s{seed}-{number}"
    return path


def train_experts(config: RunConfig, folders: Mapping[str, Path]) -> None:
    """Train the experts, several at once, and store each one's run, log and weights.

    Args:
        config: Config of a run on the stream that teaches the tasks.
        folders: The run folder of each task's expert.
    """
    from clframe.api import load_learner
    from clframe.sweep.runner import job_of, run_jobs

    jobs = []
    for task, path in folders.items():
        assert isinstance(config.stream, Mapping)
        stream = {"name": "single_task", "base": dict(config.stream), "task": task}
        expert = config.replace(stream=stream, run_dir=path, strategy_name="expert", overrides=None)
        jobs.append(job_of(expert, task))
    failures = run_jobs(jobs)
    for job in jobs:
        if job.name in failures:
            raise RunFolderError(
                f"the expert of '{job.title}' failed: {failures[job.name]} (its output: {job.log})"
            )
        learner, _ = load_learner(job.folder)
        save_weights(job.folder / WEIGHTS, learner.model)
        # The checkpoint was for resuming; the rest of an expert can be read without pickle.
        shutil.rmtree(job.folder / "checkpoints", ignore_errors=True)


def save_weights(path: Path, model: Any) -> None:
    """Write a model's weights as safetensors."""
    from safetensors.torch import save

    from clframe.utils.files import write_bytes

    weights = {
        # Copies, because tensors that share memory cannot be stored.
        name: value.detach().cpu().clone().contiguous()
        for name, value in model.state_dict().items()
    }
    write_bytes(path, save(weights))
