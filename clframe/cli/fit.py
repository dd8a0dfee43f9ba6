"""``clframe fit``: compose, run, and show the matrix."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clframe.cli.show import headline
from clframe.config.overrides import take_config_dirs
from clframe.distributed import launch
from clframe.errors import SettingError
from clframe.utils.console import colored, hide_library_warnings, matrix_table, say


def main(words: Sequence[str]) -> int:
    """Run once, or several times with ``-m``."""
    hide_library_warnings()
    # A polite end (a scheduler's, `kill`) is the same as Ctrl-C: leave with 130, ready to resume.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    words, folders = take_config_dirs(words)
    words += [f"config_dir='{Path(folder).resolve()}'" for folder in folders]
    if "--cfg" in words:
        if "-m" in words or "--multirun" in words:
            raise SettingError("--cfg shows a single run; leave -m out")
        return show_config([word for word in words if word != "--cfg"])
    if "-m" in words or "--multirun" in words:
        from clframe.cli.sweep import sweep

        return sweep([word for word in words if word not in ("-m", "--multirun")])
    for word in words:
        if word.startswith(("sweep.", "sweep_dir=")):
            raise SettingError(f"'{word}' is for a sweep; put -m after fit to sweep")
    return run_once(words)


def show_config(overrides: Sequence[str]) -> int:
    """Print what ``config.yaml`` would hold, and run nothing."""
    from clframe.config.compose import compose, plugin_paths
    from clframe.config.show import as_yaml
    from clframe.core.registry import discover

    folders = take_config_dirs(overrides)[1]
    say(as_yaml(compose(overrides), discover(plugin_paths(overrides), folders)).rstrip())
    return 0


def run_once(overrides: Sequence[str]) -> int:
    """One run from its overrides, or several seeds at once."""
    from clframe.api import fit_config
    from clframe.config.compose import compose

    seeds = [word.partition("=")[2] for word in overrides if word.startswith("seeds=")]
    if seeds:
        return run_seeds([word for word in overrides if not word.startswith("seeds=")], seeds[-1])
    config = compose(overrides)
    with launch.command(["fit", *overrides]):
        result = fit_config(config)
    if launch.is_main_process():
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
    show_seeds(fit_seeds(compose(overrides), [int(word) for word in words]))
    return 0


def show(result: Any) -> None:
    """The matrix and the headline metrics."""
    content = result.matrix.to_json()
    color = colored(sys.stdout)
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    say()
    say(
        f"{result.strategy} on {result.stream} ({result.scenario}-incremental, "
        f"seed {result.seed}), data: {result.source}"
    )
    say(f"{content['measure']} on each task (columns) after each experience (rows):")
    say()
    say(matrix_table(content["rows"], content["columns"], content["values"], color, width))
    say()
    say(headline(result.metrics))
    learning, measuring = result.timing["train_seconds"], result.timing["eval_seconds"]
    how = "rollouts" if content["measure"] == "success" else "evaluation"
    say(f"\n{learning + measuring:.0f} s, {result.timing['eval_share']:.0%} of it {how}")
    if result.run_dir is not None:
        say(f"run folder: {result.run_dir}")


def show_seeds(results: Sequence[Any]) -> None:
    """The mean matrix over seeds, and the headline metrics with their standard errors."""
    from clframe.utils.statistics import summarize

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
    say(matrix_table(content["rows"], content["columns"], table, colored(sys.stdout), width))
    say()
    for family, name in (("gem", "acc"), ("gem", "bwt"), ("openloris", "accuracy")):
        values = [result.metrics.get(family, {}).get(name) for result in results]
        if all(isinstance(value, int | float) for value in values):
            summary = summarize(values)
            error = "" if summary.standard_error is None else f" ± {summary.standard_error:.3f}"
            say(f"{family + '.' + name:<20}{summary.mean:>8.3f}{error}  over {summary.n} seeds")
    for result in results:
        if result.run_dir is not None:
            say(f"run folder: {result.run_dir}")
