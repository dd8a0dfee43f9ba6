"""End runs before every single file operation, continue them, and compare with whole ones.

    python benchmarks/crash_points.py [--cases naive,packnet] [--jobs 2] [--markdown PAGE]

For each case `clframe fit` runs once to its end. Before each operation on a file of its run folder
(open for writing, write, rename, remove, mkdir, rmdir, truncate, fsync), and in the middle of each
write to a file that has its final name, the folder is copied: the copy is what the run would leave
behind if its process ended there. Then the copy from the middle of an experience with most to
undo is continued, and its operations are copied in the same way. Every copy that differs from the
others is continued with `resume=`, to its end. Compared are results.json (without timing),
matrix.csv, events.jsonl and the lifetime log (without times) and the CSV table, all exactly; no
temporary file may be left. Several seeds are one batched model until the end and are continued one
by one.

Each run is a process of its own, forked from this one, which has imported everything and computes
nothing. Needs Linux.
"""

from __future__ import annotations

import argparse
import builtins
import concurrent.futures
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import kill
import torch
from marked_page import put_table

from clframe.cli.main import main as clframe_main
from clframe.core.registry import discover

SMALL = ["n_experiences=2", "max_epochs=2", "trainer.batch_size=500", "model.hidden=[8]"]
SAVING = ["checkpoint.every_n_steps=3"]
TABLE = ["logger=csv"]
ROBOT = ["stream=point_robot", "stream.n_tasks=2", "stream.num_demos=2", "stream.eval_episodes=2"]
REWARD = [
    *("learner=sac", "stream=point_robot", "stream.n_tasks=2", "stream.eval_episodes=2"),
    *("stream.horizon=7", "model.hidden=[8]", "learner.epoch_steps=8"),
    *("learner.steps=20", "learner.start_steps=5", "learner.memory=6"),
]
LIFETIME = [
    "stream=scenario",
    "stream.base={name: split_mnist, n_experiences: 2}",
    "stream.block_length=4",
    "stream.samples_per_lx=50",
    "trainer.batch_size=50",
    "model.hidden=[8]",
]
CASES: dict[str, list[str]] = {
    "naive": ["strategy=naive", *SMALL, *TABLE],
    "ewc+replay+lwf": ["strategy=[ewc,replay,lwf]", "scenario=task", *SMALL, *TABLE],
    "packnet": ["strategy=packnet", "scenario=task", *SMALL, *TABLE],
    "robot": ["strategy=ewc", *ROBOT, "max_epochs=2", "trainer.batch_size=8", *TABLE],
    "sac": ["strategy=naive", *REWARD, "trainer.batch_size=8", *TABLE],
    "seeds": ["strategy=er", "seeds=[0,1]", *SMALL, *TABLE],
    "lifetime": ["strategy=naive", *LIFETIME, *TABLE],
    "wandb": ["strategy=naive", *SMALL, "logger=[csv,wandb]"],
    "tensorboard": ["strategy=naive", *SMALL, "logger=[csv,tensorboard]"],
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
AUDITED = {"os.rename": 2, "os.remove": 1, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1}
"""Events of the interpreter that change files, and how many of their arguments are paths."""


@dataclass
class Point:
    """A place at which a run may end.

    Args:
        operation: What comes next, in words.
        folder: The copy of the run folder as it is then.
        first: Whether it is equal to no earlier one.
    """

    operation: str
    folder: str
    first: bool


@dataclass
class Recording:
    """Copies a folder before every operation on a file in it.

    Args:
        root: The folder.
        copies: Where the copies go.
    """

    root: Path
    copies: Path
    points: list[Point] = field(default_factory=list)
    _seen: dict[str, str] = field(default_factory=dict)
    _busy: threading.local = field(default_factory=threading.local)

    def before(self, kind: str, path: Path) -> None:
        """Something is about to be done to a file."""
        if getattr(self._busy, "copying", False) or not path.is_relative_to(self.root):
            return
        self._busy.copying = True
        try:
            digest = tree_digest(self.root)
            name = f"{kind} {_plain_name(path.relative_to(self.root))}"
            first = digest not in self._seen
            folder = self._seen.setdefault(digest, f"{len(self.points):05d}")
            if first and self.root.exists():
                shutil.copytree(self.root, self.copies / folder, symlinks=True)
            self.points.append(Point(name, folder, first))
        finally:
            self._busy.copying = False

    def install(self) -> None:
        """Watch this process from now on."""
        sys.addaudithook(self._audit)
        plain_open, plain_sync = builtins.open, os.fsync

        def watched_open(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
            path = None if isinstance(file, int) else absolute(file)
            if path is None or not path.is_relative_to(self.root) or not set(mode) & set("wax+"):
                return plain_open(file, mode, *given, **named)
            return _open_watched(self, path, mode, *given, **named)

        def watched_sync(descriptor: Any) -> None:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            self.before("fsync", of_descriptor(number))
            plain_sync(descriptor)

        builtins.open = io.open = watched_open
        os.fsync = watched_sync  # type: ignore[assignment]

    def _audit(self, event: str, given: tuple[Any, ...]) -> None:
        if getattr(self._busy, "copying", False):
            return
        if event == "open" and not isinstance(given[0], int) and given[0] is not None:
            flags = given[2]
            if isinstance(flags, int) and flags & WRITING:
                self.before("open", absolute(given[0]))
        elif event in AUDITED:
            n_paths = AUDITED[event]
            descriptors = given[n_paths:] if event != "os.mkdir" else given[2:]
            parent = descriptors[0] if descriptors and event != "os.truncate" else -1
            path = given[n_paths - 1]
            if isinstance(path, int):
                self.before(event, of_descriptor(path))
            else:
                self.before(event, absolute(path, parent if isinstance(parent, int) else -1))


class WatchedFile(io.FileIO):
    """A file that says before each write that it is about to be written."""

    def __init__(self, recording: Recording, path: Path, mode: str) -> None:
        self.recording, self.path = recording, path
        super().__init__(str(path), mode)

    def write(self, content: Any) -> int:
        """Write, with a point before it and one in the middle."""
        self.recording.before("write", self.path)
        view = memoryview(content).cast("B")
        half = len(view) // 2
        if half and not self.path.name.endswith(".tmp"):
            super().write(view[:half])
            self.recording.before("half a write", self.path)
            super().write(view[half:])
        else:
            super().write(view)
        return len(view)


def _open_watched(
    recording: Recording,
    path: Path,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """What `open` does, on a watched file."""
    raw = WatchedFile(recording, path, re.sub("[bt]", "", mode))
    if buffering == 0:
        return raw
    buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
    if "b" in mode:
        return buffered
    return io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)


def absolute(path: Any, parent: int = -1) -> Path:
    """The path that an operation means, relative to an open folder or to the current one."""
    text = os.fsdecode(path)
    return Path(os.path.normpath((of_descriptor(parent) if parent >= 0 else Path.cwd()) / text))


def of_descriptor(number: int) -> Path:
    """The path of an open file or folder."""
    return Path(os.readlink(f"/proc/self/fd/{number}"))


def tree_digest(root: Path) -> str:
    """A sum over all files below a folder: names, and contents of those with their final name."""
    total = hashlib.sha256(str(root.exists()).encode())
    for parent, folders, files in os.walk(root):
        folders.sort()
        total.update(f"{parent} {folders}".encode())
        for name in sorted(files):
            path = Path(parent, name)
            kept = path.is_file() and not path.is_symlink() and path.suffix != ".tmp"
            content = path.read_bytes() if kept else b""
            total.update(f"{name} {len(content)}".encode() + content)
    return total.hexdigest()


def _plain_name(path: Path) -> str:
    """A path without what differs from process to process."""
    return re.sub(r"\.\d+\.tmp$", ".tmp", re.sub(r"(tfevents|run-)[^/]*", r"\1*", str(path)))


def in_child(work: Callable[[], int], output: Path) -> int:
    """Do something in a forked process and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 70
        with contextlib.suppress(BaseException):
            log = os.open(output, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o666)
            os.dup2(log, 1)
            os.dup2(log, 2)
            code = kill_traceback(work)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_traceback(work: Callable[[], int]) -> int:
    """The exit code of some work; that of a traceback, printed, where it fails."""
    import traceback

    try:
        return work()
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def record(words: list[str], root: Path, copies: Path, log: Path) -> list[Point]:
    """Run `clframe fit` once, copying the run folder before every operation."""
    copies.mkdir()
    index = copies.with_suffix(".json")

    def work() -> int:
        recording = Recording(root, copies)
        recording.install()
        code = clframe_main(["fit", *words])
        index.write_text(json.dumps([astuple(p) for p in recording.points]))
        return code

    if in_child(work, log) != 0:
        raise SystemExit(f"the run failed: {' '.join(words)}\n{log.read_text()[-3000:]}")
    return [Point(*saved) for saved in json.loads(index.read_text())]


def resume_words(words: list[str], run: Path) -> Iterator[list[str]]:
    """Return the command that continues each run in the folder, or starts one that never began."""
    seeds = [word for word in words if word.startswith("seeds=")]
    if not seeds:
        begun = (run / "config.yaml").exists()
        yield [f"resume={run}"] if begun else [*words, f"run_dir={run}"]
        return
    others = [word for word in words if word not in seeds]
    for seed in json.loads(seeds[0].partition("=")[2]):
        folder = run / f"s{seed}"
        begun = (folder / "config.yaml").exists()
        new = [*others, f"seed={seed}", f"run_dir={folder}", "trainer.batched=true"]
        yield [f"resume={folder}"] if begun else new


def finished(words: list[str], run: Path) -> dict[str, Any]:
    """What the runs in a folder have left behind."""
    seeded = any(word.startswith("seeds=") for word in words)
    found: dict[str, Any] = {}
    for folder in sorted(run.glob("s*")) if seeded else [run]:
        content = kill.content(folder)
        content["csv"] = (folder / "csv/metrics.csv").read_bytes()
        content["matrix"] = (folder / "matrix.csv").read_text()
        content["temporary"] = sorted(str(p.relative_to(run)) for p in run.rglob("*.tmp"))
        found |= {f"{folder.name if seeded else ''} {key}": value for key, value in content.items()}
    return found


def judge(words: list[str], run: Path, expected: dict[str, Any], log: Path) -> str | None:
    """Continue a copy to its end; returns what is wrong, if anything."""
    for one in resume_words(words, run):
        code = in_child(lambda one=one: clframe_main(["fit", *one]), log)  # type: ignore[misc]
        if code != 0:
            lines = log.read_text(errors="replace").strip().splitlines()
            return f"exit code {code}: {lines[-1] if lines else ''}"
    try:
        got = finished(words, run)
    except (OSError, ValueError) as error:
        return f"cannot be read afterwards: {error!r}"
    different = [key.strip() for key in expected if got.get(key) != expected[key]]
    return f"other {', '.join(different)}" if different else None


def middle(points: list[Point]) -> Point:
    """The copy from which most has to be undone: before a checkpoint in the second half."""
    saves = [p for p in points if re.match(r"open .*checkpoints/\.\d+\.pt\.tmp", p.operation)]
    return saves[len(saves) * 2 // 3]


def measure(
    name: str, place: Path, every: int, always: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """The crash points of one case: how many there are, how many copies differ, which are bad."""
    words, log = [*CASES[name], *SAVING, f"data_dir={place / 'data'}"], place / "log"
    whole = place / "whole" / "run"
    fresh = [*words, f"run_dir={whole}"]
    points = {"run": record(fresh, whole, place / "run", log)}
    expected = finished(words, whole)
    base = place / "base" / "run"
    shutil.copytree(place / "run" / middle(points["run"]).folder, base, symlinks=True)
    # A group of seeds is continued one by one; the first has the others' operations as well.
    again = next(resume_words(words, base))
    points["resumed"] = record(again, base, place / "resumed", log)
    found: dict[str, Any] = {}
    for kind, recorded in points.items():
        copied = [point for point in recorded if point.first]
        chosen = [
            point
            for number, point in enumerate(copied)
            if number % every == 0 or (always and re.search(always, point.operation))
        ]
        bad = []
        say(f"{name}, {kind}: {len(recorded)} operations, {len(chosen)} folders to continue")
        for point in chosen:
            run = place / kind / point.folder
            problem = judge(words, run, expected, log)
            if problem is not None:
                bad.append([point.operation, problem])
                say(f"{name}, {kind}, before {point.operation}: {problem}")
            shutil.rmtree(run, ignore_errors=True)
        found[kind] = {
            "operations": len(recorded),
            "states": len(copied),
            "continued": len(chosen),
            "bad": bad,
        }
    return found


def one_case(name: str, every: int, always: str | None) -> dict[str, Any]:
    """The crash points of one case, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as place:
        tempfile.tempdir = place  # of loggers, whose processes end without tidying up
        say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
        try:
            return measure(name, Path(place).resolve(), every, always, say)
        finally:
            tempfile.tempdir = None  # the next case of this process has a folder of its own


def table(report: dict[str, Any]) -> str:
    """What was found, as a table."""
    lines = ["| case | | operations | different folders | continued | bad |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for name, kinds in report.items():
        for kind, one in kinds.items():
            cells = (one["operations"], one["states"], one["continued"], len(one["bad"]))
            lines.append(f"| {name} | {kind} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Print a table; exit code 1 if anything was bad."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--every", type=int, default=1, help="continue every so-many-th copy")
    parser.add_argument("--always", metavar="REGEX", help="and those before such operations")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    arguments = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", WANDB_MODE="offline", WANDB_SILENT="true")
    torch.set_num_threads(1)
    discover([])
    names = arguments.cases.split(",")
    forking = multiprocessing.get_context("fork")  # with all that is imported
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, forking) as pool:
        waiting = [pool.submit(one_case, n, arguments.every, arguments.always) for n in names]
        report = {name: one.result() for name, one in zip(names, waiting, strict=True)}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    print(table(report))
    if arguments.markdown:
        put_table(arguments.markdown, "crash points", table(report))
    return int(any(one["bad"] for kinds in report.values() for one in kinds.values()))


if __name__ == "__main__":
    sys.exit(main())
