"""A grid of runs of robot tasks, and its page: what the benchmarks of robots share.

Runs step environments of their own. With ``--markdown`` the page is written, and next to it
everything that was measured as JSON. See grid.py for what is run and kept.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import grid

REGULARIZERS = ("naive", "naive_shared", "ewc", "ewc_shared", "si", "mas")
"""The rows that every table has; `variant` tells what ``_shared`` means."""


def parser(description: str | None, out: str, methods: Sequence[str]) -> argparse.ArgumentParser:
    """The options that all tables of robot tasks share."""
    made = grid.parser(description, out)
    made.add_argument("--data-dir", type=Path)
    made.add_argument("--methods", nargs="*", default=list(methods), choices=methods)
    made.add_argument("--markdown", type=Path, help="write a page, and its numbers as JSON")
    return made


def variant(method: str, experiments: str, shared: Iterable[str]) -> list[str]:
    """The experiment of a row; one that is called ``<method>_shared`` has one head for all tasks.

    Args:
        method: The row.
        experiments: How the names of the experiments begin.
        shared: What makes a shared head of the experiment's.

    >>> variant("ewc_shared", "point_robot/", ["model.heads=shared"])
    ['experiment=point_robot/ewc', 'model.heads=shared']
    """
    name = method.removesuffix("_shared")
    return [f"experiment={experiments}{name}", *(shared if name != method else ())]


def run(
    cells: grid.Cells,
    arguments: argparse.Namespace,
    measure: Callable[[dict[str, Any]], Any],
) -> grid.Found:
    """Run what is missing of a grid.

    Args:
        cells: What to run.
        arguments: Of `parser`.
        measure: What is kept of a ``results.json``.
    """
    known = grid.read_known(arguments.known)
    extra = list(arguments.set)
    if arguments.data_dir is not None:
        extra.append(f"data_dir={arguments.data_dir}")
    if arguments.jobs > 1:
        # The runs share the CPU's cores as it is.
        extra.append("stream.num_workers=0")
    grid.run_all(cells, arguments.seeds, known, arguments.out, arguments.jobs, extra)
    return grid.collect(arguments.out, known, measure)


def said_command(script: str, arguments: argparse.Namespace) -> str:
    """The command that makes a page, without what is of one machine only."""
    settings = f" --set {shlex.join(arguments.set)}" if arguments.set else ""
    seeds = " ".join(map(str, arguments.seeds))
    return f"python benchmarks/{Path(script).name} --seeds {seeds}{settings}"


def show(
    found: grid.Found,
    arguments: argparse.Namespace,
    table: Callable[[grid.Found], str],
    page: Callable[[grid.Found, str, str], str],
    script: str,
) -> None:
    """Print the table and keep it in the output folder; write the page where it is asked for."""
    text = table(found)
    grid.write(arguments.out, found, text, Path(script).name)
    print("\n" + text)
    if arguments.markdown is not None:
        numbers = arguments.markdown.with_suffix(".json")
        numbers.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
        arguments.markdown.write_text(page(found, said_command(script, arguments), numbers.name))
