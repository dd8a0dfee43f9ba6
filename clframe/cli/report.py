"""``clframe report``: a page with figures of one run or of several."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser
from clframe.errors import SettingError

if TYPE_CHECKING:
    from clframe.runs.reader import Run

REPORT = "report.html"


def parser() -> Parser:
    """The arguments of the command."""
    parser = Parser(
        "report",
        "Write report.html: figures, metrics, settings and how to repeat the runs.",
        [
            ("clframe report runs/split_mnist/ewc/20250101-120000-s0", "one run, in its folder"),
            ("clframe report runs/split_mnist", "all runs below: one page there"),
            ("clframe report runs/split_mnist runs/permuted_mnist --out both.html", "one page"),
        ],
    )
    add_runs(
        parser,
        "a run folder, or a sweep or another folder above runs, which get one report together",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="one report of all the runs, written here"
    )
    return parser


def add_runs(parser: Parser, text: str) -> None:
    """Take run folders as ``runs``."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=text)


def main(words: Sequence[str]) -> int:
    """Write the report of each named run or folder of runs and print its path."""
    arguments = parser().parse(words)
    from clframe.core.results_file import run_folder

    if arguments.out is not None:
        if arguments.out.is_dir():
            raise SettingError(f"--out {arguments.out} is a folder; name the file to write.")
        if arguments.out.suffix.lower() not in (".html", ".htm"):
            raise SettingError(
                f"--out {arguments.out}: a report is a page in HTML; name a file that ends in "
                f".html, such as {arguments.out.with_suffix('.html')}, and print that to a PDF."
            )
        _write_report(arguments.runs, arguments.out)
        return 0
    for path in dict.fromkeys(arguments.runs):
        _write_report([path], run_folder(path) / REPORT)
    return 0


def _write_report(paths: Sequence[Path], out: Path) -> None:
    from clframe.report.files import write_atomically
    from clframe.report.html import report_html
    from clframe.report.sweeps import told_apart

    runs, notes = read_runs(paths)
    write_atomically(out, report_html(runs, notes, told_apart(paths, runs)))
    sys.stdout.write(f"{out}\n")


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """All runs at the paths; what has not finished is left out and said."""
    from clframe.report.sweeps import failures
    from clframe.runs.reader import find_runs, read_run

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
