"""``clframe compare``: the strategies of runs in tables, with significance."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli._compare_pairs import add_options, check, paired_tests
from clframe.cli.parser import Parser
from clframe.cli.report import add_runs, read_runs
from clframe.errors import RunFolderError
from clframe.utils.console import print_err, print_lines, print_out

if TYPE_CHECKING:
    from clframe.runs.reader import Run

BUNDLE = ".zip"


def parser() -> Parser:
    """Return the parser of the command."""
    from clframe.report.tables import FORMATS

    parser = Parser(
        "compare",
        "Compare strategies over seeds: mean, standard error, Welch's t-test at 0.05. Two runs of "
        "robot tasks are also compared on the same episodes.",
        [
            ("clframe compare runs", "all runs below the folder"),
            ("clframe compare runs --metric gem.acc gem.bwt", "these metrics"),
            ("clframe compare runs --format latex --out table.tex", "for a paper (booktabs)"),
            ("clframe compare ewc.zip er.zip --verified", "of bundles, each checked first"),
            ("clframe compare RUN_A RUN_B --sequential", "after how many pairs it is decided"),
            ("clframe compare RUN_A RUN_B --rollouts 200 --sequential", "run until it is decided"),
        ],
    )
    add_runs(parser, "a run folder, a bundle of a run, or a folder above either")
    add = parser.add_argument
    add("--metric", nargs="+", action="extend", default=[], metavar="NAME",
        help="such as gem.bwt or timing.train_seconds; 'all' for every metric")  # fmt: skip
    add("--by", nargs="+", action="extend", default=[], metavar="SETTING",
        help="settings that split rows, such as trainer.max_epochs")  # fmt: skip
    add("--format", choices=sorted(FORMATS), default="text",
        help="text (default), markdown, latex (booktabs), csv or json")  # fmt: skip
    add("--out", type=Path, metavar="FILE", help="write here instead of printing")
    add("--verified", action="store_true",
        help="only if clframe verify confirms every run")  # fmt: skip
    add_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the tables, or write them."""
    arguments = parser().parse(argv)
    from clframe.report.compare import compare
    from clframe.report.files import write_atomically
    from clframe.report.fork_tree import as_lines, families
    from clframe.report.sweeps import told_apart
    from clframe.report.tables import FORMATS, as_text

    check(arguments)
    with contextlib.ExitStack() as unpacked:
        named = {open_run(path, unpacked): path for path in with_bundles(arguments.runs)}
        runs, _ = read_runs(list(named))
        if arguments.verified:
            require_verified(runs, named)
        by = arguments.by or told_apart(list(named), runs)
        tables = compare(runs, arguments.metric, by)
        roots = families(runs) if arguments.format == "text" else []
        more = "\n".join(["", *as_lines(roots), ""]) if roots else ""
        more += paired_tests(runs, arguments)
    if arguments.out is not None:
        write_atomically(arguments.out, FORMATS[arguments.format](tables) + more)
        print_out(str(arguments.out))
    elif arguments.format == "text" and sys.stdout.isatty():
        print_lines((as_text(tables, shutil.get_terminal_size().columns) + more).removesuffix("\n"))
    else:
        print_lines((FORMATS[arguments.format](tables) + more).removesuffix("\n"))
    return 0


def with_bundles(paths: Sequence[Path]) -> list[Path]:
    """Return the paths; a folder that holds bundles and no run is replaced by its bundles."""
    from clframe.recording.results_file import RESULTS

    named: list[Path] = []
    for path in paths:
        bundles = sorted(path.glob(f"*{BUNDLE}")) if path.is_dir() else []
        named += bundles if bundles and not any(path.rglob(RESULTS)) else [path]
    return named


def open_run(path: Path, unpacked: contextlib.ExitStack) -> Path:
    """Return the folder of a run; of a bundle, an unpacked one while the stack is open."""
    if path.suffix != BUNDLE or not path.is_file():
        return path
    from clframe.reproduce.bundle import opened

    return unpacked.enter_context(opened(path))


def require_verified(runs: Sequence[Run], named: dict[Path, Path]) -> None:
    """Verify an experience of every run.

    Raises:
        RunFolderError: A run is not as recorded, or cannot be verified.
    """
    from clframe.reproduce.verify import verify

    for run in runs:
        name = named.get(run.folder, run.folder)
        for finding in verify(run.folder):
            if not finding.good:
                raise RunFolderError(
                    f"'{name}' is not as recorded, so it is in no table of verified runs: "
                    f"{finding.what}: {finding.words}"
                )
        print_err(f"clframe: verified {name}")
