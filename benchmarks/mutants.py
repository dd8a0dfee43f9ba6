"""Change one line of clframe at a time and report which changes the tests notice.

    python -m pytest -q -n 2 -m "not slow" --cov=clframe --cov-context=test --junitxml=tests.xml
    python benchmarks/mutants.py --coverage .coverage --times tests.xml [--count 120] [--jobs 2]

A mutant is a copy of the tree with one fault in `plugins/`, `core/`, `training/`, `checkpoint/` or
`metrics/`: a sign flipped, a hook that is not called, a wrong row, or a number or comparison that
is off by one. Faults are drawn evenly over their kinds, only from lines that a test executes. Each
mutant runs the tests that execute its line, likely ones first, until one fails. *Killed* is one
with a failed test. *Survived* is one that passes all tests that fit into ``--seconds``. With
``--seeded`` the faults are those of a list, of which none may survive.

One process imports torch, Lightning and pytest once and forks for each mutant. Needs Linux,
coverage and pytest-cov.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("plugins", "core", "training", "checkpoint", "metrics")
KINDS = ("sign flipped", "hook not called", "wrong row", "off by one")
_COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_COPIED = ("clframe", "configs", "plugins_contrib", "tests", "benchmarks", "scripts", "examples")

SEEDED = (
    ("plugins/_quadratic.py", "distance = new - self", "distance = new + self"),
    ("plugins/_quadratic.py", "total = old + added", "total = old - added"),
    ("plugins/si.py", "_(path, gradients, before)", "_(path, gradients, before, value=-1)"),
    ("plugins/si.py", "new if old is None else old + new", "new"),
    ("plugins/lwf.py", "Term(self.temperature**2 * value", "Term(self.temperature * value"),
    ("plugins/replay.py", "weight = len(learner.seen) if", "weight = len(learner.seen) + 1 if"),
    ("plugins/replay.py", "remember(self.buffer, learner, data)", "pass"),
    ("plugins/packnet.py", "parameter.grad.mul_(mask)", "parameter.grad.mul_(~mask)"),
    ("plugins/packnet.py", "torch.where(mask, parameter, frozen, out=parameter)", "pass"),
    ("plugins/generative_replay.py", "loss = share * losses", "loss = (1 - share) * losses"),
    ("plugins/generative_replay.py", "float(self.past_experiences))", "1.0)"),
    ("plugins/cumulative.py", "for past in learner.seen])", "for past in learner.seen[-1:]])"),
    ("plugins/multitask.py", "learner.stream.experiences[1:]", "learner.stream.experiences[2:]"),
    ("metrics/accuracy_transfer.py", "m.values[m.seen & ~m.now]", "m.values[m.seen]"),
    ("metrics/accuracy_transfer.py", "m.values[~m.seen]", "m.values[m.seen]"),
    ("core/matrix.py", "row = len(self.rows)\n", "row = max(len(self.rows) - 1, 0)\n"),
    ("training/loop.py", "self.hook.after_backward(learner=learner, step=step)", "pass"),
    ("training/loop.py", "self.hook.after_step(learner=learner, step=step)", "pass"),
    (
        "checkpoint/snapshot.py",
        'random_state.restore(saved["random"], learner.generator, learner.engine.device)',
        "pass",
    ),
    ("checkpoint/snapshot.py", 'learner.optimizer.load_state_dict(saved["optimizer"])', "pass"),
)  # fmt: skip
"""Faults that the tests must notice: file, text and what replaces it once."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Args:
        path: The file, relative to the root.
        line: The line that is executed.
        kind: What was done.
        start: Where the replaced text begins, as an offset into the file.
        end: Where it ends.
        text: What replaces it.
    """

    path: str
    line: int
    kind: str
    start: int
    end: int
    text: str

    def apply(self, root: Path) -> str:
        """Write the fault into a tree and return the changed line before and after."""
        path = root / self.path
        source = path.read_bytes()
        changed = source[: self.start] + self.text.encode() + source[self.end :]
        path.write_bytes(changed)
        number = source[: self.start].count(b"\n")
        before, after = (text.split(b"\n")[number].decode().strip() for text in (source, changed))
        return f"{before}  ->  {after}"


# ---------------------------------------------------------------- faults


def mutants(path: Path, executed: set[int]) -> Iterator[Mutant]:
    """Yield the faults that lines of a file can have."""
    source = path.read_bytes()
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    name = path.relative_to(ROOT).as_posix()
    tree = ast.parse(source)
    hidden = _annotations(tree)

    def place(node: ast.AST, end: bool = False) -> int:
        line: int = node.end_lineno if end else node.lineno  # type: ignore[attr-defined]
        column = node.end_col_offset if end else node.col_offset  # type: ignore[attr-defined]
        return offsets[line - 1] + int(column)

    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or statement.lineno not in executed:
            continue
        if isinstance(statement, ast.Expr) and _calls_hook(statement.value):
            start, end = place(statement), place(statement, end=True)
            yield Mutant(name, statement.lineno, "hook not called", start, end, "pass")
        for node in _own(statement):
            if id(node) in hidden:
                continue
            for kind, left, right, text in _changes(node, source, place):
                yield Mutant(name, statement.lineno, kind, left, right, text)


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """Walk the expressions of a statement without those of the statements in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield from ast.walk(child)


def _annotations(tree: ast.AST) -> set[int]:
    """Return the nodes of annotations, decorators and defaults, which are no executed code."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            hidden: list[ast.AST | None] = [*node.decorator_list]
            if not isinstance(node, ast.ClassDef):
                hidden += [node.args, node.returns]
        elif isinstance(node, ast.AnnAssign):
            hidden = [node.annotation]
        else:
            continue
        found.update(id(inner) for one in hidden if one is not None for inner in ast.walk(one))
    return found


def _calls_hook(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    holder = ast.unparse(node.func.value)
    return holder == "hook" or holder.endswith(".hook")


def _changes(node: ast.AST, source: bytes, place: Any) -> Iterator[tuple[str, int, int, str]]:
    """Yield the faults of one node: kind, where, and the new text."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = place(node.left, end=True), place(node.right)
        between = source[left:right].decode()
        sign = "+" if isinstance(node.op, ast.Add) else "-"
        of_texts = isinstance(node.left, ast.Constant | ast.JoinedStr | ast.List | ast.Tuple)
        if between.count(sign) == 1 and not of_texts:
            yield "sign flipped", left, right, between.replace(sign, "-" if sign == "+" else "+")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if not isinstance(node.operand, ast.Constant):
            yield "sign flipped", place(node), place(node.operand), ""
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = place(node.left, end=True), place(node.comparators[0])
        between = source[left:right].decode()
        if between.strip() in _COMPARISONS:
            other = between.replace(between.strip(), _COMPARISONS[between.strip()])
            yield "off by one", left, right, other
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id == "range":
            last = node.args[-1] if len(node.args) < 3 else node.args[1]
            text = f"({source[place(last) : place(last, end=True)].decode()}) - 1"
            yield "off by one", place(last), place(last, end=True), text
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        index = node.slice
        text = source[place(index) : place(index, end=True)].decode()
        whole = isinstance(index, ast.Constant) and type(index.value) is int
        if whole or (isinstance(index, ast.UnaryOp) and text.lstrip("-").isdigit()):
            other = "-2" if text == "-1" else f"{text} + 1"
            yield "wrong row", place(index), place(index, end=True), other
        elif isinstance(index, ast.Slice):
            for part in (index.lower, index.upper):
                if part is not None:
                    inner = source[place(part) : place(part, end=True)].decode()
                    yield "off by one", place(part), place(part, end=True), f"({inner}) + 1"


def draw(executed: dict[str, set[int]], count: int, seed: int) -> list[Mutant]:
    """Draw faults, evenly over the kinds and at most one from a line."""
    generator = random.Random(seed)
    by_kind: dict[str, list[Mutant]] = defaultdict(list)
    for room in ROOMS:
        for path in sorted((ROOT / "clframe" / room).rglob("*.py")):
            lines = executed.get(path.relative_to(ROOT).as_posix(), set())
            for mutant in mutants(path, lines):
                by_kind[mutant.kind].append(mutant)
    chosen: list[Mutant] = []
    for number, kind in enumerate(sorted(KINDS, key=lambda one: len(by_kind[one]))):
        wanted = (count - len(chosen)) // (len(KINDS) - number)
        generator.shuffle(by_kind[kind])
        lines_taken = {(one.path, one.line) for one in chosen}
        for mutant in by_kind[kind]:
            if wanted and (mutant.path, mutant.line) not in lines_taken:
                lines_taken.add((mutant.path, mutant.line))
                chosen.append(mutant)
                wanted -= 1
    return chosen


def seeded() -> list[Mutant]:
    """Return the faults of `SEEDED`."""
    made = []
    for name, old, new in SEEDED:
        source = (ROOT / "clframe" / name).read_text()
        assert source.count(old) >= 1, f"{name} has no '{old}'"
        start = len(source[: source.index(old)].encode())
        line = source[: source.index(old)].count("\n") + 1
        end = start + len(old.encode())
        made.append(Mutant(f"clframe/{name}", line, "seeded", start, end, new))
    return made


# ---------------------------------------------------------------- tests


@dataclass
class Tests:
    """Which tests execute a line, and how long each takes.

    Args:
        lines: Tests by file and line.
        seconds: By test.
    """

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, mutant: Mutant, seconds: float) -> tuple[list[str], bool]:
        """Return the tests of a mutant, and whether these are all.

        Tests that are named after the module come first, then those of its room, then the others,
        each fastest first.
        """
        room, name = mutant.path.split("/")[1], Path(mutant.path).stem.strip("_")

        def turn(test: str) -> tuple[bool, bool, float]:
            seconds = self.seconds.get(test, 0.1)
            return name not in test, not test.startswith(f"tests/{room}/"), seconds

        found = sorted(set(self.lines[mutant.path].get(mutant.line, ())), key=turn)
        total = 0.0
        chosen: list[str] = []
        for test in found:
            total += self.seconds.get(test, 0.1)
            if total > seconds:
                return chosen, False
            chosen.append(test)
        return chosen, True


def read_tests(data: Path, times: Path) -> Tests:
    """Read what a run of the tests with coverage has left."""
    recorded = coverage.CoverageData(str(data))
    recorded.read()
    lines: dict[str, dict[int, list[str]]] = {}
    for file in recorded.measured_files():
        name = re.sub(r".*?(?=clframe/[a-z_]+/[a-z_0-9/]+\.py$)", "", file)
        contexts = recorded.contexts_by_lineno(file)
        by_line = lines.setdefault(name, {})
        for line, tests in contexts.items():
            named = [test.rpartition("|")[0] or test for test in tests if test]
            by_line[line] = [test for test in named if test.startswith("tests/")]
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(times).iter("testcase"):
        path = (case.get("classname") or "").replace(".", "/") + ".py"
        seconds[f"{path}::{case.get('name')}"] = float(case.get("time") or 0.0)
    return Tests(lines, seconds)


# ---------------------------------------------------------------- running


def in_child(mutant: Mutant, tests: list[str], place: Path) -> None:
    """Run the tests of a mutant in a tree of its own; the result goes to a file."""
    tree = place / "tree"
    tree.mkdir()
    for name in _COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in (".toml", ".md", ".yml"):
            shutil.copy(path, tree)
    shutil.copytree(ROOT / "docs", tree / "docs")
    changed = mutant.apply(tree)
    os.chdir(tree)
    sys.path[:0] = [str(tree)]
    os.environ["PYTHONPATH"] = str(tree)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with (place / "log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    import pytest

    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:cov", "--no-header"]
    code = pytest.main([*options, f"--basetemp={place / 'tmp'}", *tests])
    (place / "result.json").write_text(json.dumps({"code": int(code), "changed": changed}))


def run(mutant: Mutant, tests: list[str], seconds: float) -> dict[str, Any]:
    """Return what the tests say of a mutant."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        place = Path(folder)
        child = os.fork()
        if child == 0:
            os.setsid()
            with contextlib.suppress(BaseException):
                in_child(mutant, tests, place)
            os._exit(0)
        deadline = time.monotonic() + 60 + 5 * seconds
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        log = (place / "log").read_text(errors="replace") if (place / "log").exists() else ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", log, re.MULTILINE)
        result: dict[str, Any] = {"code": None, "changed": ""}
        with contextlib.suppress(OSError, ValueError):
            result = json.loads((place / "result.json").read_text())
    # 5 is "no tests", which would say nothing about the fault.
    return {
        **result,
        "killed": result["code"] not in (0, 5),
        "by": failed[1] if failed else f"exit code {result['code']}",
    }


def measure(tests: Tests, chosen: list[Mutant], jobs: int, seconds: float) -> list[dict[str, Any]]:
    """Run all mutants, some at once, each group in a process of its own."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for job in range(jobs):
            child = os.fork()
            if child == 0:
                for number in range(job, len(chosen), jobs):
                    mutant = chosen[number]
                    names, all_of_them = tests.of(mutant, seconds)
                    row = {**vars(mutant), **run(mutant, names, seconds)}
                    row |= {"tests": len(names), "all": all_of_them}
                    Path(folder, f"{number}.json").write_text(json.dumps(row))
                    verdict = "killed" if row["killed"] else "SURVIVED"
                    where = f"{mutant.path}:{mutant.line}"
                    print(f"{verdict:8} {where} {row['changed']}  [{row['by']}]", flush=True)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        for number in range(len(chosen)):
            rows.append(json.loads(Path(folder, f"{number}.json").read_text()))
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the share of killed mutants by kind and by room."""
    lines = ["| | mutants | killed | share |", "| --- | --- | --- | --- |"]
    kinds = dict.fromkeys(row["kind"] for row in rows)
    groups = {kind: [row for row in rows if row["kind"] == kind] for kind in kinds}
    for room in ROOMS:
        groups[f"`{room}/`"] = [row for row in rows if row["path"].split("/")[1] == room]
    groups["all"] = rows
    for name, group in groups.items():
        killed = sum(row["killed"] for row in group)
        share = f"{killed / len(group):.0%}" if group else ""
        lines.append(f"| {name} | {len(group)} | {killed} | {share} |")
    return "\n".join(lines)


def main() -> None:
    """Draw mutants, run their tests and print a table and the survivors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--coverage", type=Path, required=True, help="data with test contexts")
    parser.add_argument("--times", type=Path, required=True, help="pytest's JUnit file")
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="of tests per mutant")
    parser.add_argument("--seeded", action="store_true", help="the faults of the list instead")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import lightning  # noqa: F401
    import pytest  # noqa: F401
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # imports dynamo
    tests = read_tests(arguments.coverage, arguments.times)
    executed = {path: {n for n, by in lines.items() if by} for path, lines in tests.lines.items()}
    drawn = draw(executed, arguments.count, arguments.seed)
    chosen = seeded() if arguments.seeded else drawn
    rows = measure(tests, chosen, arguments.jobs, arguments.seconds)
    print(f"\n{table(rows)}\n")
    for row in rows:
        if not row["killed"]:
            said = "" if row["all"] else " (not all of its tests were run)"
            print(f"{row['path']}:{row['line']}: {row['changed']}{said}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
