"""``clframe wandb RUN...``: send finished runs to Weights & Biases after the fact."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.cli.parser import Parser
from clframe.errors import RunFolderError, SettingError
from clframe.utils.console import print_out, warn_user

if TYPE_CHECKING:
    from clframe.runs.reader import Run


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "wandb",
        "Send finished runs to Weights & Biases: numbers, matrices, videos, results. Each becomes "
        "a W&B run; settings are those of logger.wandb.",
        [
            ("clframe wandb RUN", "one run"),
            ("clframe wandb SWEEP project=thesis", "all runs below a folder, to a project"),
            ("clframe wandb RUN log_model=true", "with its last checkpoint as an artifact"),
        ],
    )
    parser.add_argument(
        "words", nargs="+", metavar="RUN or KEY=VALUE", help="run folders, and settings"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Send each run that is not yet on W&B."""
    arguments = parser().parse(argv).words
    paths = [Path(word) for word in arguments if "=" not in word or Path(word).exists()]
    chosen = [word for word in arguments if "=" in word and not Path(word).exists()]
    if not paths:
        raise SettingError("clframe wandb needs a run folder: clframe wandb RUN")
    settings = _settings(chosen)
    from clframe.runs.reader import find_runs, read_run

    folders = find_runs(paths)
    for folder in folders.unfinished:
        warn_user(f"'{folder}' is not finished and is skipped")
    for folder in folders.finished:
        send(read_run(folder), settings)
    return 0


def _settings(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the logger's settings, parsed by Hydra's grammar and checked."""
    from clframe.config.read_overrides import read_single
    from clframe.core.registry import GIVEN
    from clframe.loggers.wandb import wandb
    from clframe.utils.setting_checks import check

    values = {}
    for override in map(read_single, overrides):
        key = override.key_or_group.removeprefix("logger.").removeprefix("wandb.")
        values[key] = override.value()
    checked = check(wandb, values, "logger 'wandb'", given=GIVEN["logger"])
    return {name: checked[name] for name in values}


def send(run: Run, settings: dict[str, Any]) -> None:
    """Make a W&B run from a run folder."""
    from clframe.loggers.wandb import run_id, wandb
    from clframe.plugins.builtin.media_files import of_matrix
    from clframe.plugins.builtin.videos import FOLDER
    from clframe.recording.media import Media

    folder = run.folder
    sent_as = run_id(folder)
    if sent_as is not None:
        raise RunFolderError(
            f"'{folder}' is W&B run {sent_as} already; send one that was logged offline with "
            f"wandb sync {folder / 'wandb'}/offline-run-*"
        )
    logger = wandb(folder, run.settings or {}, run.result.stream, **settings)
    step = 0
    for numbers, step in points(run):
        logger.log_metrics(numbers, step)
        learned = int(numbers.get("experience", 0))
        if not learned:
            continue
        matrix = run.result.matrix
        first = len(matrix.rows) - len(matrix.learned)
        position = {"experience": float(learned)}
        logger.log_media(of_matrix(folder, _upto(run, first + learned), learned), step, position)
        for video in sorted((folder / FOLDER).glob(f"exp{learned - 1}.*")):
            media = Media("videos", "video", f"{FOLDER}/{video.name}", f"after {learned}")
            logger.log_media([media], step, position)
    files = [folder / name for name in ("results.json", "matrix.csv", "config.yaml")]
    logger.log_files("results", "results", files, ["final"])
    logger.finalize("success")
    print_out(f"{folder}: W&B run {run_id(folder)}")


def _upto(run: Run, rows: int) -> Any:
    """Return the matrix with its first rows."""
    from clframe.core.matrix import AccuracyMatrix

    whole = run.result.matrix
    first_rows = AccuracyMatrix(whole.columns, whole.measure)
    for name, values in zip(whole.rows[:rows], whole.values, strict=False):
        first_rows.add_row(name, dict(zip(whole.columns, values, strict=True)))
    return first_rows


def points(run: Run) -> Iterator[tuple[dict[str, float], int]]:
    """Yield rows of numbers with their steps, from the CSV table or else the events."""
    table = run.folder / "csv" / "metrics.csv"
    if table.is_file():
        with table.open(newline="") as file:
            for row in csv.DictReader(file):
                numbers = {k: float(v) for k, v in row.items() if v and k != "step"}
                if "eval/experiences" in numbers:
                    numbers["experience"] = numbers["eval/experiences"]
                yield numbers, int(row["step"] or 0)
        return
    step = 0
    for numbers, step in _of_events(run.folder / "events.jsonl"):
        yield numbers, step
    metrics = {f"metrics/{name}": v for name, v in run.metrics.items() if v is not None}
    yield {name: v for name, v in metrics.items() if math.isfinite(v)}, step


def _of_events(path: Path) -> Iterator[tuple[dict[str, float], int]]:
    from clframe.plugins.builtin.logging import row_numbers

    step = learned = 0
    for line in path.read_text().splitlines() if path.is_file() else ():
        event = json.loads(line)
        if event["event"] == "epoch":
            step = event["step"]
            kept = {k: v for k, v in event.items() if k not in ("event", "step", "seconds")}
            yield {f"train/{k}": float(v) for k, v in kept.items() if v is not None}, step
        elif event["event"] == "experience":
            learned += 1
        elif event["event"] == "evaluation":
            results = event.get("measures") or {t: {"value": v} for t, v in event["values"].items()}
            means = {
                task: {k: v for k, v in measures.items() if v is not None}
                for task, measures in results.items()
            }
            yield row_numbers({t: m for t, m in means.items() if m}, learned), step
        elif event["event"] == "measurement":
            name = event["name"]
            numbers = {f"{name}/{k}": v for k, v in event["values"].items() if v is not None}
            yield numbers, event["step"]
