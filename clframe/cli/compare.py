"""``clframe compare``: the strategies of runs in tables, with significance."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.cli.report import add_runs, read_runs


def parser() -> Parser:
    """The arguments of the command."""
    from clframe.report.tables import FORMATS

    parser = Parser(
        "compare",
        "Compare strategies over seeds: mean, standard error, Welch's t-test at 0.05.",
        [
            ("clframe compare runs", "all runs below the folder"),
            ("clframe compare runs --metric gem.acc gem.bwt", "these metrics"),
            ("clframe compare runs --format latex --out table.tex", "for a paper (booktabs)"),
        ],
    )
    add_runs(parser, "a run folder or a folder above runs")
    add = parser.add_argument
    add("--metric", nargs="+", action="extend", default=[], metavar="NAME",
        help="such as gem.bwt or timing.train_seconds; 'all' for every metric")  # fmt: skip
    add("--by", nargs="+", action="extend", default=[], metavar="SETTING",
        help="settings that make rows of their own, such as trainer.max_epochs")  # fmt: skip
    add("--format", choices=sorted(FORMATS), default="text",
        help="text (default), markdown, latex (booktabs), csv or json")  # fmt: skip
    add("--out", type=Path, metavar="FILE", help="write here instead of printing")
    return parser


def main(words: Sequence[str]) -> int:
    """Print the tables, or write them."""
    arguments = parser().parse(words)
    from clframe.report.compare import compare
    from clframe.report.family import as_lines, families
    from clframe.report.files import write_atomically
    from clframe.report.sweeps import told_apart
    from clframe.report.tables import FORMATS, as_text

    runs, _ = read_runs(arguments.runs)
    by = arguments.by or told_apart(arguments.runs, runs)
    tables = compare(runs, arguments.metric, by)
    roots = families(runs)
    tree = "\n".join(["", *as_lines(roots), ""]) if roots and arguments.format == "text" else ""
    if arguments.out is not None:
        write_atomically(arguments.out, FORMATS[arguments.format](tables) + tree)
        sys.stdout.write(f"{arguments.out}\n")
    elif arguments.format == "text" and sys.stdout.isatty():
        sys.stdout.write(as_text(tables, shutil.get_terminal_size().columns) + tree)
    else:
        sys.stdout.write(FORMATS[arguments.format](tables) + tree)
    return 0
