"""``clframe fit``: compose, run, and show the matrix."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from clframe.cli.show import headline
from clframe.distributed import launch
from clframe.errors import SettingError
from clframe.utils.console import coloured, matrix_table, notice, say


def main(words: Sequence[str]) -> int:
    """Run once, or several times with ``-m``."""
    _quiet()
    # A polite end (a scheduler's, `kill`) is the same as Ctrl-C: leave with 130, ready to resume.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "-m" in words or "--multirun" in words:
        from clframe.cli.sweep import sweep

        return sweep([word for word in words if word not in ("-m", "--multirun")])
    for word in words:
        if word.startswith(("sweep.", "sweep_dir=")):
            raise SettingError(f"'{word}' is for a sweep; put -m after fit to sweep")
    return run_once(words)


def run_once(overrides: Sequence[str]) -> int:
    """One run from its overrides."""
    from clframe.api import fit
    from clframe.config.compose import compose

    others, resumed, allowed = _divide(overrides)
    several = [word.partition("=")[2] for word in others if word.startswith("seeds=")]
    if several:
        return run_seeds([word for word in others if not word.startswith("seeds=")], several[-1])
    if resumed in (None, "auto"):
        arguments, name = compose(others)
        arguments["strategy_name"] = name
        arguments["resume"] = resumed
    else:
        if others:
            raise SettingError(
                "resume=RUN continues a run with its own settings; leave the other settings out"
            )
        arguments = _arguments_of(Path(resumed))
    arguments["resume_allow"] = allowed
    with launch.command(["fit", *overrides]):
        result = fit(**arguments)
    if launch.speaks():
        show(result)
    return 0


def run_seeds(overrides: Sequence[str], seeds: str) -> int:
    """Several seeds at once: ``seeds=[0,1,2]``."""
    from clframe.config.compose import compose
    from clframe.sweep.seeds import fit_seeds

    words = [word.strip() for word in seeds.strip().strip("[]").split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise SettingError(f"seeds must be a list such as seeds=[0,1,2], got '{seeds}'")
    if any(word.startswith("seed=") for word in overrides):
        raise SettingError("seed and seeds cannot both be given; leave one of them out")
    arguments, name = compose(overrides)
    arguments.pop("seed", None)
    results = fit_seeds([int(word) for word in words], strategy_name=name, **arguments)
    show_seeds(results)
    return 0


def _divide(overrides: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """All other overrides, what to resume, and what may be different then."""
    others: list[str] = []
    resumed: str | None = None
    allowed: list[str] = []
    for word in overrides:
        key, _, value = word.partition("=")
        if key == "resume":
            resumed = None if value in ("", "null") else value
        elif key in ("resume.allow", "resume_allow"):
            names = value.strip().strip("[]").split(",")
            allowed += [name.strip().strip("'\"") for name in names if name.strip()]
        else:
            others.append(word)
    return others, resumed, allowed


def _arguments_of(folder: Path) -> dict[str, Any]:
    """The arguments a run was made with, from its config.yaml."""
    from clframe.runs.folder import RunFolder

    config = RunFolder(folder).read_config()
    for group in ("stream", "model"):
        if "object" in (config.get(group) or {}):
            raise SettingError(
                f"run '{folder}' was made in Python with a {group} of its own "
                f"({config[group]['object']}); continue it there with clframe.fit(..., resume=...)"
            )
    return {**config, "resume": str(folder)}


def show(result: Any) -> None:
    """The matrix and the headline metrics."""
    content = result.matrix.to_json()
    colour = coloured(sys.stdout)
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    say()
    say(
        f"{result.strategy} on {result.stream} ({result.scenario}-incremental, "
        f"seed {result.seed}), data: {result.source}"
    )
    say(f"{content['measure']} on each task (columns) after each experience (rows):")
    say()
    say(matrix_table(content["rows"], content["columns"], content["values"], colour, width))
    say()
    say(headline(result.metrics))
    learning, measuring = result.timing["train_seconds"], result.timing["eval_seconds"]
    how = "rollouts" if content["measure"] == "success" else "evaluation"
    say(f"\n{learning + measuring:.0f} s, {result.timing['eval_share']:.0%} of it {how}")
    if result.run_dir is not None:
        say(f"run folder: {result.run_dir}")


def show_seeds(results: Sequence[Any]) -> None:
    """The mean matrix over seeds, and the headline metrics with their standard errors."""
    from clframe.utils.statistics import summarise

    first = results[0]
    content = first.matrix.to_json()
    mean = sum(result.matrix.values for result in results) / len(results)
    seeds = ", ".join(str(result.seed) for result in results)
    say()
    say(
        f"{first.strategy} on {first.stream} ({first.scenario}-incremental, seeds {seeds}), "
        f"data: {first.source}"
    )
    say(f"mean {content['measure']} over seeds on each task after each experience:")
    say()
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    table = mean.tolist()
    say(matrix_table(content["rows"], content["columns"], table, coloured(sys.stdout), width))
    say()
    for family, name in (("gem", "acc"), ("gem", "bwt"), ("openloris", "accuracy")):
        values = [result.metrics.get(family, {}).get(name) for result in results]
        if all(isinstance(value, int | float) for value in values):
            summary = summarise(values)
            error = "" if summary.standard_error is None else f" ± {summary.standard_error:.3f}"
            say(f"{family + '.' + name:<20}{summary.mean:>8.3f}{error}  over {summary.n} seeds")
    for result in results:
        if result.run_dir is not None:
            say(f"run folder: {result.run_dir}")


def _quiet() -> None:
    """Show only what is meant for the user; warnings of libraries are for CLFRAME_DEBUG."""
    if not os.environ.get("CLFRAME_DEBUG"):
        warnings.showwarning = _show_warning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if "clframe" in Path(filename).parts:
        notice(str(message))
