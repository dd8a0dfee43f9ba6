"""``clframe report``: write a page with figures of one run or of several."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser
from clframe.errors import SettingError
from clframe.utils.console import print_err, print_out

if TYPE_CHECKING:
    from clframe.runs.reader import Run

REPORT = "report.html"


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "report",
        "Write report.html: figures, metrics, settings and how to repeat the runs.",
        [
            ("clframe report runs/split_mnist/ewc/20250101-120000-s0", "one run, in its folder"),
            ("clframe report runs/split_mnist", "all runs below: one page there"),
            ("clframe report runs/split_mnist runs/permuted_mnist --out both.html", "one page"),
            ("clframe report runs/split_mnist --figures figures", "figures for a paper, too"),
            ("clframe report --write-templates my_templates", "templates to edit"),
        ],
    )
    add_runs(
        parser,
        "a run folder, or a sweep or another folder above runs, which get one joint report",
        needed=False,
    )
    add = parser.add_argument
    add("--out", type=Path, metavar="FILE", help="one report of all the runs, written here")
    add("--figures", type=Path, metavar="DIR",
        help="also write every figure as PNG, PDF and SVG for a paper")  # fmt: skip
    add("--ste", type=Path, nargs="+", action="extend", default=[], metavar="DIR",
        help="single-task experts (clframe ste) for the lifetime of a run")  # fmt: skip
    add("--templates", type=Path, metavar="DIR", help="edited templates that replace clframe's")
    add("--write-templates", type=Path, metavar="DIR", help="put copies of the templates here")
    return parser


def add_runs(parser: Parser, text: str, *, needed: bool = True) -> None:
    """Add the argument ``runs``, a list of run folders."""
    count = "+" if needed else "*"
    parser.add_argument("runs", nargs=count, type=Path, metavar="RUN", help=text)


def main(argv: Sequence[str]) -> int:
    """Write the report of each named run or folder of runs and print its path."""
    arguments = parser().parse(argv)
    from clframe.recording.results_file import run_folder

    if arguments.write_templates is not None:
        from clframe.report.rendering import write_templates

        for path in write_templates(arguments.write_templates):
            print_out(str(path))
        if not arguments.runs:
            return 0
    if not arguments.runs:
        raise SettingError("clframe report: the following arguments are required: RUN")
    for path in arguments.ste:
        if not path.is_dir():
            raise SettingError(f"--ste {path} is not a folder; clframe ste --out DIR makes one.")
    if arguments.out is not None:
        if arguments.out.is_dir():
            raise SettingError(f"--out {arguments.out} is a folder; name the file to write.")
        if arguments.out.suffix.lower() not in (".html", ".htm"):
            raise SettingError(
                f"--out {arguments.out}: a report is an HTML page; name a file that ends in "
                f".html, such as {arguments.out.with_suffix('.html')}, and print it as PDF, or "
                "write its figures with --figures DIR."
            )
        _write_report(arguments.runs, arguments.out, arguments)
        return 0
    for path in dict.fromkeys(arguments.runs):
        _write_report([path], run_folder(path) / REPORT, arguments)
    return 0


def _write_report(paths: Sequence[Path], out: Path, arguments: argparse.Namespace) -> None:
    from clframe.report.figure_specs import save_drawings
    from clframe.report.files import write_atomically
    from clframe.report.html import report_page
    from clframe.report.rendering import render
    from clframe.report.sweeps import told_apart

    runs, notes = read_runs(paths)
    if arguments.ste and len(runs) > 1:
        raise SettingError("--ste is for the report of one run; clframe l2 takes several.")
    page = report_page(runs, notes, told_apart(paths, runs), arguments.ste)
    write_atomically(out, render(page, arguments.templates))
    print_out(str(out))
    if arguments.figures is not None:
        folder = arguments.figures
        if len(arguments.runs) > 1 and arguments.out is None:
            folder = folder / (run_name(paths[0]) or "runs")
        written = save_drawings(page.drawings(), folder)
        print_out(f"{folder}: {len(written)} files of {len(written) // 3} figures")


def run_name(path: Path) -> str:
    """Return the subfolder for the figures of one of several reports."""
    from clframe.recording.results_file import run_folder

    return run_folder(path).resolve().name


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read all runs at the paths; skip unfinished ones with a note."""
    from clframe.report.sweeps import failures
    from clframe.runs.reader import find_runs, read_run

    folders = find_runs(paths)
    notes = []
    if folders.unfinished:
        names = ", ".join(map(str, folders.unfinished[:3]))
        more = ", ..." if len(folders.unfinished) > 3 else ""
        notes.append(f"{len(folders.unfinished)} unfinished run(s) left out: {names}{more}.")
        print_err(f"clframe: {notes[0]}")
    failed = failures(paths)
    for sentence in failed:
        print_err(f"clframe: {sentence}")
    return [read_run(folder) for folder in folders.finished], notes + failed
