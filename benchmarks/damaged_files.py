"""Damage each file of a run folder in many ways, and see what the commands make of it.

    python benchmarks/damaged_files.py [--trials 1000] [--seed 0] [--markdown PAGE]

A trial takes a finished run, or one that was killed in the middle, does one thing to one of its
files (emptied, halved, a bit flipped, filled with garbage, removed, replaced by other JSON, by a
folder, by a link to another file, by a link to nothing) and calls one command: `fit resume=`,
`eval`, and, where the run has finished, `report`, `compare` and `l2`. Good is the same output as on
the undamaged run, exactly (a resumed run's files, times aside), or exit code 2 with one sentence
that names the file. Bad is a traceback, another sentence, other numbers, or anything written
through a link.

Each command is a process of its own, forked from this one. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crash_points
import torch
from marked_page import put_table

from clframe.cli.main import main as clframe_main
from clframe.core.registry import discover

WORDS = ["strategy=naive", *crash_points.SMALL, "logger=[csv,tensorboard]", *crash_points.SAVING]
FOREIGN = b"a file of somebody else\n"


def emptied(path: Path, draw: random.Random) -> None:
    """Nothing is left."""
    os.truncate(path, 0)


def halved(path: Path, draw: random.Random) -> None:
    """The second half is gone."""
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path, draw: random.Random) -> None:
    """One bit is another."""
    content = bytearray(path.read_bytes() or b"\0")
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def garbage(path: Path, draw: random.Random) -> None:
    """As many random bytes."""
    path.write_bytes(draw.randbytes(path.stat().st_size or 10))


def removed(path: Path, draw: random.Random) -> None:
    """The file is gone."""
    path.unlink()


def other_json(path: Path, draw: random.Random) -> None:
    """JSON of something else."""
    path.write_text(draw.choice(['{"a": 1}', "{}", "[]", "[1, 2]", '"text"', "null", "3"]))


def folder(path: Path, draw: random.Random) -> None:
    """A folder in its place."""
    path.unlink()
    path.mkdir()


def link(path: Path, draw: random.Random) -> None:
    """A link to a file of somebody else."""
    path.unlink()
    path.symlink_to(foreign_file())


def dangling(path: Path, draw: random.Random) -> None:
    """A link to nothing: it is there and cannot be read, even by root."""
    path.unlink()
    path.symlink_to("nothing-there")


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    emptied,
    halved,
    flipped,
    garbage,
    removed,
    other_json,
    folder,
    link,
    dangling,
)
_place: list[Path] = []


def foreign_file() -> Path:
    """The file that links lead to."""
    return _place[0] / "foreign.txt"


def command(words: list[str], place: Path) -> tuple[int, str, str]:
    """Call a command in a forked process: exit code, output, errors."""

    def work() -> int:
        error = os.open(place / "stderr", os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o666)
        os.dup2(error, 2)
        return clframe_main(words)

    code = crash_points.in_child(work, place / "stdout")
    out, error = ((place / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    return code, out, error


def commands(run: Path, place: Path, kind: str) -> dict[str, list[str]]:
    """What can be done with a run."""
    looking = {"resume": ["fit", f"resume={run}"], "eval": ["eval", str(run)]}
    if kind == "killed":
        return looking
    out = str(place / "out")
    return looking | {
        "report": ["report", str(run), "--out", f"{out}/report.html"],
        "compare": ["compare", str(run)],
        "l2": ["l2", str(run / "log"), "--no-plots", "--out", out],
    }


def outcome(name: str, words: list[str], run: Path, place: Path) -> tuple[int, Any, str]:
    """The exit code of a command, what it made, without times, and its errors."""
    shutil.rmtree(place / "out", ignore_errors=True)
    (place / "out").mkdir()
    code, out, error = command(words, place)
    if code != 0:
        return code, None, error
    if name == "resume":
        return code, crash_points.finished([], run), error
    made = {path.name: path.read_text() for path in sorted((place / "out").iterdir())}
    return code, [re.sub(r"\d+(\.\d+)? s\b", "", out), made], error


def named(path: Path, made: Any) -> bool:
    """Whether a report names an image that it could not show."""
    kept = path.parent.name == "samples" and isinstance(made, list)
    return kept and any(f"{path.name.partition('_')[0]}_" in text for text in made[1].values())


def judge(path: Path, code: int, made: Any, error: str, expected: Any) -> str | None:
    """What is wrong with what a command did, if anything."""
    if foreign_file().read_bytes() != FOREIGN:
        foreign_file().write_bytes(FOREIGN)
        return "wrote through a link"
    if "Traceback" in error:
        return f"traceback: {error.strip().splitlines()[-1]}"
    said = [line for line in error.splitlines() if line.startswith("clframe:")]
    if code == 0:
        # An older checkpoint is used instead of a damaged one, with a warning that names it.
        warned = any(path.name in line and "cannot be used" in line for line in said)
        good = made == expected or named(path, made) or warned
        return None if good else "other output, without a word"
    if code != 2 or not said:
        return f"exit code {code}: {error.strip()[-200:]}"
    if path.name not in said[-1] and path.stem not in said[-1]:
        return f"does not name the file: {said[-1]}"
    return None


def prepare(place: Path) -> dict[str, Path]:
    """A finished run and one that was killed in the middle."""
    words = [*WORDS, f"data_dir={place / 'data'}", f"run_dir={place / 'whole'}"]
    points = crash_points.record(words, place / "whole", place / "copies", place / "log")
    killed = place / "copies" / crash_points.middle(points).folder
    return {"finished": place / "whole", "killed": killed}


def trials(bases: dict[str, Path], draw: random.Random) -> list[tuple[str, Path, int, str]]:
    """Everything that can be tried, in random order: run, file, damage, command."""
    found = []
    for kind, base in bases.items():
        files = sorted(p.relative_to(base) for p in base.rglob("*") if p.is_file())
        for file in files:
            for damage in range(len(DAMAGES)):
                for name in commands(base, base, kind):
                    found.append((kind, file, damage, name))
    draw.shuffle(found)
    return found


def measure(place: Path, number: int, seed: int, say: Callable[[str], None]) -> list[list[str]]:
    """Try ``n`` of them; return each damage with its outcome."""
    _place[:] = [place]
    foreign_file().write_bytes(FOREIGN)
    draw = random.Random(seed)
    bases = prepare(place)
    run, expected = place / "run", {}
    for kind, base in bases.items():
        for name, words in commands(run, place, kind).items():
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(base, run, symlinks=True)
            code, made, error = outcome(name, words, run, place)
            if code != 0:
                raise SystemExit(f"{kind} {name}: exit code {code}\n{error}")
            expected[kind, name] = made
    found, possible = [], trials(bases, draw)
    # A bit can be flipped in many places; all else is the same again.
    flips = [trial for trial in possible if DAMAGES[trial[2]] is flipped]
    while len(possible) < number:
        possible += flips
    for kind, file, damage, name in possible[:number]:
        shutil.rmtree(run)
        shutil.copytree(bases[kind], run, symlinks=True)
        DAMAGES[damage](run / file, draw)
        code, made, error = outcome(name, commands(run, place, kind)[name], run, place)
        problem = judge(run / file, code, made, error, expected[kind, name])
        what = [kind, file.as_posix(), DAMAGES[damage].__name__, name]
        found.append([*what, problem or ("refused" if code else "same")])
        if problem:
            say(f"{' '.join(what)}: {problem}")
    return found


def table(found: list[list[str]]) -> str:
    """What was found, by damage."""
    lines = ["| damage | trials | refused with a sentence | same output | bad |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for damage in (one.__name__ for one in DAMAGES):
        ends = [trial[4] for trial in found if trial[2] == damage]
        good = ends.count("refused"), ends.count("same")
        cells = (len(ends), *good, len(ends) - sum(good))
        lines.append(f"| {damage.replace('_', ' ')} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Print a table; exit code 1 if anything was bad."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    arguments = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    discover([])
    with tempfile.TemporaryDirectory() as place:
        say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
        found = measure(Path(place).resolve(), arguments.trials, arguments.seed, say)
    if arguments.json:
        arguments.json.write_text(json.dumps(found))
    print(table(found))
    if arguments.markdown:
        put_table(arguments.markdown, "damaged files", table(found))
    return int(any(trial[4] not in ("refused", "same") for trial in found))


if __name__ == "__main__":
    sys.exit(main())
