"""Show a result: the matrix and the main metrics."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from clframe.metrics.catalog import CATALOG
from clframe.utils.console import colored, matrix_table, print_lines, print_out, printable, wrap

_FIRST = ("gem", "openloris", "libero")
"""The most important families; others follow in the order of the catalogue."""


def headline(metrics: Mapping[str, Mapping[str, Any]], measure: str = "accuracy") -> str:
    """Return the main metrics, each under its full name.

    Args:
        metrics: By family and name.
        measure: The measure in the matrix; for robots it is success.
    """
    shown = [(name.partition("."), info.words) for name, info in CATALOG.items() if info.words]
    shown.sort(key=lambda item: _FIRST.index(item[0][0]) if item[0][0] in _FIRST else len(_FIRST))
    lines = []
    for (family, _, key), meaning in shown:
        value = metrics.get(family, {}).get(key)
        if isinstance(value, int | float):
            meaning = meaning.replace("accuracy", measure)
            lines += wrap(meaning, 30, f"{family + '.' + key:<20}{value:>8.3f}  ")
    return "\n".join(lines)


def _say(text: str) -> None:
    print_lines(wrap(printable(text), 2, ""))


def show(result: Any) -> None:
    """Print the matrix and the main metrics."""
    content = result.matrix.to_json()
    color = colored(sys.stdout)
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    print_out()
    _say(
        f"{result.strategy} on {result.stream} ({result.scenario}-incremental, seed {result.seed})"
    )
    _say(f"data: {result.source}")
    _say(f"{content['measure']} on each task (columns) after each experience (rows):")
    print_out()
    print_lines(matrix_table(content["rows"], content["columns"], content["values"], color, width))
    print_out()
    print_lines(headline(result.metrics, content["measure"]))
    _say_classes([result])
    learning, measuring = result.timing["train_seconds"], result.timing["eval_seconds"]
    how = "rollouts" if content["measure"] == "success" else "evaluation"
    print_out()
    print_out(f"{learning + measuring:.0f} s, {result.timing['eval_share']:.0%} of it {how}")
    if result.run_dir is not None:
        print_out(f"run folder: {result.run_dir}")


def _say_classes(results: Sequence[Any]) -> None:
    """Print which class is the worst, if classes differ in size."""
    from clframe.evaluation.class_sizes import class_line

    line = class_line(results)
    if line is not None:
        _say(line)


def show_seeds(results: Sequence[Any]) -> None:
    """Print the mean matrix over seeds, and the main metrics with their standard errors."""
    from clframe.utils.statistics import summarize

    first = results[0]
    content = first.matrix.to_json()
    mean = sum(result.matrix.values for result in results) / len(results)
    seeds = ", ".join(str(result.seed) for result in results)
    print_out()
    _say(f"{first.strategy} on {first.stream} ({first.scenario}-incremental, seeds {seeds})")
    _say(f"data: {first.source}")
    _say(f"mean {content['measure']} over seeds on each task after each experience:")
    print_out()
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    table = mean.tolist()
    print_lines(
        matrix_table(content["rows"], content["columns"], table, colored(sys.stdout), width)
    )
    print_out()
    for family, name in (("gem", "acc"), ("gem", "bwt"), ("openloris", "accuracy")):
        values = [result.metrics.get(family, {}).get(name) for result in results]
        if all(isinstance(value, int | float) for value in values):
            summary = summarize(values)
            error = "" if summary.standard_error is None else f" ± {summary.standard_error:.3f}"
            print_out(
                f"{family + '.' + name:<20}{summary.mean:>8.3f}{error}  over {summary.n} seeds"
            )
    _say_classes(results)
    for result in results:
        if result.run_dir is not None:
            print_out(f"run folder: {result.run_dir}")
