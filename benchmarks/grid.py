"""A grid of runs, shared by the benchmarks that compare methods.

Each cell is ``clframe fit experiment=... seed=N`` in a process of its own with one thread, several
at once. Runs that are there already are kept, broken ones are continued. What is
measured in a run is written by cell and seed to ``table.json``; seeds that an earlier
``table.json`` named by ``--known`` holds are taken from it and not run again.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import os
import shlex
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from clframe.sweep.job import Job
from clframe.sweep.launcher import JobResult
from clframe.sweep.runner import run_jobs

Found = dict[str, dict[str, Any]]
"""What was measured, by cell and seed."""

Cells = Mapping[str, list[str]]
"""By the name of a cell, the settings that make it."""


def parser(description: str | None, out: str) -> argparse.ArgumentParser:
    """The options that all grids share."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=Path(out))
    made.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    made.add_argument("--known", type=Path, help="a table.json with seeds run earlier")
    made.add_argument("--set", nargs="*", default=[], help="further settings of every run")
    return made


def read_known(path: Path | None) -> Found:
    """What an earlier table holds."""
    return json.loads(path.read_text()) if path else {}


def job(cell: str, settings: list[str], seed: int, out: Path, extra: list[str]) -> Job:
    """The run of one cell and seed; what is there already is kept or continued."""
    folder = out.resolve() / cell / f"s{seed}"
    return Job(
        name=f"{cell}_s{seed}",
        overrides=(*settings, f"seed={seed}", "logger=none", *extra),
        title=f"{cell} seed {seed}",
        folder=folder,
        log=out.resolve() / "logs" / f"{cell}_s{seed}.log",
    )


def run_all(
    cells: Cells,
    seeds: Iterable[int],
    known: Found,
    out: Path,
    jobs: int,
    extra: list[str],
) -> None:
    """Run the cells and seeds that are not known yet, several at once; seed after seed."""
    wanted = [
        job(cell, cells[cell], seed, out, extra)
        for seed, cell in itertools.product(seeds, cells)
        if str(seed) not in known.get(cell, {})
    ]
    run_jobs(wanted, at_once=jobs, on_end=report)


def report(ended: JobResult, reason: str | None) -> None:
    """One line for a run that has ended."""
    words = f"{ended.seconds:.0f} s" if reason is None else f"FAILED: {reason}"
    print(f"{ended.job.title}: {words}", flush=True)


def collect(out: Path, known: Found, measure: Callable[[dict[str, Any]], Any]) -> Found:
    """What was known and what has been run, each ``results.json`` turned into a measurement."""
    found = {cell: dict(seeds) for cell, seeds in known.items()}
    for path in sorted(out.glob("*_*/s*/results.json")):
        seed = path.parent.name.removeprefix("s")
        found.setdefault(path.parent.parent.name, {})[seed] = measure(json.loads(path.read_text()))
    return found


def mean_and_error(values: Iterable[float | None]) -> str:
    """Mean and standard error as text, of the seeds for which the value is known.

    >>> mean_and_error([0.5, 0.7]), mean_and_error([0.5, None]), mean_and_error([None])
    ('0.60 ± 0.10', '0.50 (1 of 2 seeds)', '-')
    """
    several = list(values)
    known = [value for value in several if value is not None]
    if not known:
        return "-"
    text = f"{statistics.mean(known):.2f}"
    if len(known) > 1:
        text += f" ± {statistics.stdev(known) / math.sqrt(len(known)):.2f}"
    return text if len(known) == len(several) else f"{text} ({len(known)} of {len(several)} seeds)"


def write(out: Path, found: Found, text: str, script: str) -> None:
    """Write ``table.json`` and ``table.md``, the latter under the command that made it."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.json").write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    command = shlex.join(["python", f"benchmarks/{script}", *sys.argv[1:]])
    (out / "table.md").write_text(f"`{command}`, {datetime.date.today().isoformat()}\n\n{text}\n")
