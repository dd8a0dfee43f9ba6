"""The commands `clframe report` and `clframe compare`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from clframe.core.results_file import run_folder
from clframe.errors import ClframeError, SettingError
from clframe.report.compare import compare
from clframe.report.files import write_atomically
from clframe.report.html import report_html
from clframe.report.sweeps import failures, told_apart
from clframe.report.tables import FORMATS, as_text
from clframe.runs.reader import Run, find_runs, read_run

REPORT = "report.html"


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one sentence, like every other error of clframe."""

    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message}; '{self.prog} --help' shows the usage.")


def report_main(argv: Sequence[str]) -> int:
    """Write the HTML report of each named run or folder of runs and print its path.

    Args:
        argv: The arguments after `clframe report`.

    Returns:
        0, or 2 after one sentence on standard error.
    """
    return _guarded(_report, argv)


def compare_main(argv: Sequence[str]) -> int:
    """Print tables that compare the strategies of the named runs.

    Args:
        argv: The arguments after `clframe compare`.

    Returns:
        0, or 2 after one sentence on standard error.
    """
    return _guarded(_compare, argv)


def _guarded(command: Callable[[Sequence[str]], None], argv: Sequence[str]) -> int:
    try:
        command(argv)
    except ClframeError as error:
        if os.environ.get("CLFRAME_DEBUG") == "1":
            raise
        sys.stderr.write(f"clframe: {error}\n")
        return 2
    except SystemExit as leave:  # --help
        return int(leave.code or 0)
    return 0


def _report(argv: Sequence[str]) -> None:
    parser = _Parser(
        prog="clframe report",
        description="Write report.html: figures, metrics, settings and how to repeat the runs.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN",
        help="a run folder, or a sweep or another folder above runs, which get one report together",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="one report of all the runs, written here"
    )
    arguments = parser.parse_args(argv)
    if arguments.out is not None:
        if arguments.out.is_dir():
            raise SettingError(f"--out {arguments.out} is a folder; name the file to write.")
        _write_report(arguments.runs, arguments.out)
        return
    for path in dict.fromkeys(arguments.runs):
        _write_report([path], run_folder(path) / REPORT)


def _write_report(paths: Sequence[Path], out: Path) -> None:
    runs, notes = _read(paths)
    write_atomically(out, report_html(runs, notes, told_apart(paths, runs)))
    sys.stdout.write(f"{out}\n")


def _read(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """All runs at the paths; what has not finished is left out and said."""
    found = find_runs(paths)
    notes = []
    if found.unfinished:
        names = ", ".join(map(str, found.unfinished[:3]))
        more = ", ..." if len(found.unfinished) > 3 else ""
        notes.append(f"{len(found.unfinished)} unfinished run(s) left out: {names}{more}.")
        sys.stderr.write(f"clframe: {notes[0]}\n")
    failed = failures(paths)
    for sentence in failed:
        sys.stderr.write(f"clframe: {sentence}\n")
    return [read_run(folder) for folder in found.finished], notes + failed


def _compare(argv: Sequence[str]) -> None:
    parser = _Parser(
        prog="clframe compare",
        description="Compare strategies over seeds: mean, standard error, Welch's t-test at 0.05.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a run folder or a folder above runs"
    )
    parser.add_argument(
        "--metric", nargs="+", action="extend", default=[], metavar="NAME",
        help="such as gem.bwt or timing.train_seconds; 'all' for every metric",
    )  # fmt: skip
    parser.add_argument(
        "--by", nargs="+", action="extend", default=[], metavar="SETTING",
        help="settings that make rows of their own, such as trainer.max_epochs",
    )  # fmt: skip
    parser.add_argument("--format", choices=sorted(FORMATS), default="text")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write here instead of printing")
    arguments = parser.parse_args(argv)
    runs, _ = _read(arguments.runs)
    by = arguments.by or told_apart(arguments.runs, runs)
    tables = compare(runs, arguments.metric, by)
    if arguments.out is not None:
        write_atomically(arguments.out, FORMATS[arguments.format](tables))
        sys.stdout.write(f"{arguments.out}\n")
    elif arguments.format == "text" and sys.stdout.isatty():
        sys.stdout.write(as_text(tables, shutil.get_terminal_size().columns))
    else:
        sys.stdout.write(FORMATS[arguments.format](tables))
