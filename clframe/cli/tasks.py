"""``clframe tasks``: generate tasks, check files, explain one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clframe.cli.parser import Parser, named, whole
from clframe.utils.console import print_lines
from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.generate import generate_tasks
from clframe.worlds.bddl.limits import Leniency
from clframe.worlds.bddl.parser import parse
from clframe.worlds.bddl.problem import Problem
from clframe.worlds.bddl.words import explain
from clframe.worlds.bddl.writer import save


@dataclass(frozen=True)
class Checked:
    """The result of checking one file."""

    path: Path
    problems: tuple[BDDLError, ...]
    warnings: tuple[BDDLError, ...]


def generate(suite: str, n: int, seed: int, out: Path) -> list[Path]:
    """Generate tasks and write each to a file; return the paths in the order of the suite."""
    paths = []
    for task in generate_tasks(suite, n, seed):
        path = out / f"{task.name}.bddl"
        save(task.problem, path)
        paths.append(path)
    return paths


def check(paths: Sequence[Path]) -> list[Checked]:
    """Parse files strictly, except for unambiguous leniencies, and check their goals."""
    return [_check_one(path) for path in paths]


def show(path: Path) -> str:
    """Explain a file in plain text, including published quirks."""
    return explain(parse(path, lenient=Leniency.ALL))


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser("tasks", "BDDL task files of LIBERO and BEHAVIOR.")
    generate = parser.add_subcommand(
        "generate",
        "Generate tasks and write each to a file.",
        [("clframe tasks generate --suite spatial --n 10 --out tasks", "ten files in tasks")],
        key_value=True,
    )
    add = generate.add_argument
    add("--suite", type=named, default="spatial", metavar="NAME", help="default: spatial")
    add("--n", type=whole(), default=10, metavar="N", help="how many; default: 10")
    add("--seed", type=whole(), default=0, metavar="N", help="default: 0")
    add("--out", type=named, default="tasks", metavar="DIR", help="a folder; default: tasks")
    check = parser.add_subcommand(
        "check",
        "Parse files strictly and check their goals; exit code 2 if one has problems.",
        [("clframe tasks check tasks/FILE.bddl", "line and column of every problem")],
    )
    check.add_argument("files", type=Path, nargs="+", metavar="FILE")
    show = parser.add_subcommand(
        "show",
        "Explain a file in plain words.",
        [("clframe tasks show tasks/FILE.bddl", "objects, start and goal")],
    )
    show.add_argument("file", type=Path, metavar="FILE")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run a subcommand; return the exit code, 2 if a checked file has problems.

    Raises:
        ClframeError: Another user error.
    """
    arguments = parser().parse(argv)
    if arguments.subcommand == "generate":
        paths = generate(arguments.suite, arguments.n, arguments.seed, Path(arguments.out))
        _print("\n".join(str(path) for path in paths))
        return 0
    if arguments.subcommand == "check":
        return _print_checked(check(arguments.files))
    _print(show(arguments.file))
    return 0


def _check_one(path: Path) -> Checked:
    try:
        problem = parse(path)
    except BDDLError as error:
        return Checked(path, (error, *error.more), ())
    return Checked(path, tuple(_goal_problems(problem, str(path))), problem.warnings)


def _goal_problems(problem: Problem, path: str) -> list[BDDLError]:
    goal = problem.goal
    line, column = goal.formula.at
    problems = []
    if goal.satisfied(problem.initial_state):
        problems.append(BDDLError("The goal already holds at the start.", line, column, path))
    try:
        goal.score(problem.initial_state)
    except BDDLError as error:
        problems.append(error)
    return problems


def _print_checked(results: Sequence[Checked]) -> int:
    for result in results:
        for problem in result.problems:
            _print(str(problem))
        for warning in result.warnings:
            _print(f"{warning} (warning)")
    bad = sum(bool(result.problems) for result in results)
    verdict = "no problems" if not bad else f"problems in {bad}"
    _print(f"{len(results)} checked, {verdict}")
    return 2 if bad else 0


def _print(text: str) -> None:
    print_lines(text)
