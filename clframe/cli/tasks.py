"""What ``clframe tasks`` does: generate tasks, check files, explain one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clframe.bddl.errors import BDDLError
from clframe.bddl.generate import generate_tasks
from clframe.bddl.parser import parse
from clframe.bddl.problem import Problem
from clframe.bddl.settings import Leniency
from clframe.bddl.words import explain
from clframe.bddl.writer import save
from clframe.errors import SettingError, nearest

USAGE = (
    "clframe tasks generate suite=spatial n=10 seed=0 out=DIR | "
    "clframe tasks check FILE... | clframe tasks show FILE"
)
_GENERATE = {"suite": "spatial", "n": "10", "seed": "0", "out": "tasks"}


@dataclass(frozen=True)
class Checked:
    """What checking one file found."""

    path: Path
    problems: tuple[BDDLError, ...]
    warnings: tuple[BDDLError, ...]


def generate(suite: str, n: int, seed: int, out: Path) -> list[Path]:
    """Generate tasks and write each to a file; the paths come in the order of the suite."""
    paths = []
    for task in generate_tasks(suite, n, seed):
        path = out / f"{task.name}.bddl"
        save(task.problem, path)
        paths.append(path)
    return paths


def check(paths: Sequence[Path]) -> list[Checked]:
    """Read files strictly, with the leniencies that leave no doubt, and look at their goals."""
    return [_check_one(path) for path in paths]


def show(path: Path) -> str:
    """Explain a file in plain words, published quirks and all."""
    return explain(parse(path, lenient=Leniency.ALL))


def main(argv: Sequence[str]) -> int:
    """Run one of the commands; the result is the exit code, 2 if a checked file has problems.

    Raises:
        ClframeError: For anything else a user can get wrong.
    """
    command, *rest = argv or [""]
    if command == "generate":
        settings = _settings(rest)
        paths = generate(
            settings["suite"],
            _whole(settings, "n"),
            _whole(settings, "seed"),
            Path(settings["out"]),
        )
        _print("\n".join(str(path) for path in paths))
        return 0
    if command == "check" and rest:
        return _print_checked(check([Path(name) for name in rest]))
    if command == "show" and len(rest) == 1:
        _print(show(Path(rest[0])))
        return 0
    raise SettingError(f"Expected one of: {USAGE}")


def _check_one(path: Path) -> Checked:
    try:
        problem = parse(path)
    except BDDLError as error:
        return Checked(path, (error, *error.more), ())
    return Checked(path, tuple(_goal_problems(problem, str(path))), problem.warnings)


def _goal_problems(problem: Problem, path: str) -> list[BDDLError]:
    goal = problem.goal
    line, column = goal.formula.at
    found = []
    if goal.satisfied(problem.initial_state):
        found.append(BDDLError("The goal already holds at the start.", line, column, path))
    try:
        goal.score(problem.initial_state)
    except BDDLError as error:
        found.append(error)
    return found


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


def _settings(words: Sequence[str]) -> dict[str, str]:
    settings = dict(_GENERATE)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in settings:
            raise SettingError(f"There is no setting {word!r}; {nearest(name, settings)}")
        if not value:
            raise SettingError(f"The setting {name} needs a value, as in {name}={_GENERATE[name]}.")
        settings[name] = value
    return settings


def _whole(settings: dict[str, str], name: str) -> int:
    text = settings[name]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise SettingError(f"{name} must be a whole number from 0 up, not {text!r}.")
    return int(text)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
