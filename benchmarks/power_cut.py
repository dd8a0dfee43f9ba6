"""Rebuild what a power cut may leave of a run folder, resume each, and compare with a whole run.

    python benchmarks/power_cut.py [--cases supervised,robot] [--states 300] [--jobs 2]
        [--json FILE] [--markdown PAGE]

`clframe fit` runs once under strace, which sees every operation on the run folder. A model of the
disk replays them and stops after each one. Two models say what is certain then:

* ext4: flushing any file or folder also commits all earlier changes of names, in their order.
  Content needs a flush of its own.
* strict: all that POSIX promises. A name (of a new, renamed or removed file or folder) needs a
  flush of its own folder, and changes that were not flushed may be kept or lost one by one.

From each place several folders are built: with only what is certain; with all names but without
unflushed content; the same with zeros, or with half of the content; with all content but without
unflushed names; and with single changes of names lost or kept. Each is resumed to its end. Compared
are results.json (without timing), matrix.csv, events.jsonl, the lifetime log and the CSV table.
Needs Linux and strace.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_points
import torch
from marked_page import put_table

from clframe.core.registry import discover

CASES = {
    "supervised": crash_points.CASES["ewc+replay+lwf"],
    "robot": crash_points.CASES["robot"],
    "reward": crash_points.CASES["sac"],
    "tensorboard": crash_points.CASES["tensorboard"],
}
MODELS = ("ext4", "strict")
CALLS = (
    "open,openat,creat,write,pwrite64,writev,rename,renameat,renameat2,unlink,unlinkat,mkdir,"
    "mkdirat,rmdir,truncate,ftruncate,fsync,fdatasync,lseek,link,linkat"
)
_LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)(<.*>)?( .*)?$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"^(\d+)<((?:\\x[0-9a-f]{2}|[^>])*)>")


@dataclass
class Change:
    """A change of names: of one name in one folder.

    Args:
        kind: create, rename, remove, mkdir or rmdir.
        path: The name; of a rename, the new one.
        inode: The file that has the name.
        old: The name before a rename.
    """

    kind: str
    path: str
    inode: int = -1
    old: str = ""


@dataclass
class Disk:
    """What is in memory and what is certain, after the operations so far."""

    changes: list[Change] = field(default_factory=list)
    certain: dict[str, set[int]] = field(default_factory=lambda: {m: set() for m in MODELS})
    content: dict[int, bytearray] = field(default_factory=dict)
    flushed: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)

    def change(self, change: Change) -> None:
        """Change a name."""
        self.changes.append(change)
        apply(change, self.names, set())

    def create(self, path: str) -> None:
        """Make an empty file."""
        inode = len(self.content)
        self.content[inode] = bytearray()
        self.change(Change("create", path, inode))

    def write(self, descriptor: int, path: str, text: bytes, place: int | None = None) -> None:
        """Write to an open file, at its position or at a given one."""
        content = self.content[self.names[path]]
        start = self._places.get(descriptor, -1) if place is None else place
        start = len(content) if start < 0 else start
        content[start : start + len(text)] = text
        if place is None and self._places.get(descriptor, -1) >= 0:
            self._places[descriptor] = start + len(text)

    def move(self, descriptor: int, place: int) -> None:
        """Set the position of an open file; -1 for always at the end."""
        self._places[descriptor] = place

    def flush(self, path: str) -> None:
        """Make a file's content, or the names in a folder, certain."""
        if path in self.names:
            inode = self.names[path]
            self.flushed[inode] = bytes(self.content[inode])
        here = {n for n, c in enumerate(self.changes) if os.path.dirname(c.path) == path}
        self.certain["strict"] |= here
        self.certain["ext4"] |= set(range(len(self.changes)))


def apply(change: Change, names: dict[str, int], folders: set[str]) -> None:
    """Change names as a disk does; a rename takes its file along even if the old name was lost."""
    if change.kind == "create":
        names[change.path] = change.inode
    elif change.kind == "rename":
        names.pop(change.old, None)
        names[change.path] = change.inode
    elif change.kind == "remove":
        names.pop(change.path, None)
    elif change.kind == "mkdir":
        folders.add(change.path)
    else:
        folders.discard(change.path)


def operations(trace: Path, root: Path) -> Iterator[tuple[str, list[str], str, int]]:
    """Successful calls on files below a folder: name, paths in order, arguments, result."""
    waiting: dict[str, str] = {}
    for line in trace.read_text(errors="replace").splitlines():
        thread = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            waiting[thread] = line[: -len("<unfinished ...>")].rstrip()
            continue
        again = re.match(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$", line)
        if again:
            line = waiting.pop(again[1], again[1]) + again[2]
        match = _LINE.match(line)
        if match is None or int(match[3]) < 0:
            continue
        found = _DESCRIPTOR.match(match[2])
        paths = [_decoded(found[2])] if found else []
        if not match[1].startswith(("write", "pwrite")):
            paths += [_decoded(text) for text in _TEXT.findall(match[2])]
        full = [os.path.normpath(os.path.join(root.parent, path)) for path in paths if path]
        inside = any(path == str(root) or path.startswith(f"{root}/") for path in full)
        if inside or (match[1] == "fsync" and full[:1] == [str(root.parent)]):
            yield match[1], full, match[2], int(match[3])


def _decoded(text: str) -> str:
    return bytes.fromhex(text.replace("\\x", "")).decode() if "\\x" in text else text


def replay(trace: Path, root: Path) -> Iterator[tuple[str, Disk]]:
    """The disk after each operation that changes something."""
    disk = Disk()
    for call, paths, given, result in operations(trace, root):
        path = paths[-1]
        number = int(match[1]) if (match := _DESCRIPTOR.match(given)) else -1
        if call in ("open", "openat", "creat"):
            if not re.search(r"O_WRONLY|O_RDWR|O_CREAT", given) or "O_DIRECTORY" in given:
                continue
            disk.move(result, -1 if "O_APPEND" in given else 0)
            if path not in disk.names:
                disk.create(path)
            elif "O_TRUNC" in given:
                disk.content[disk.names[path]].clear()
            else:
                continue
        elif call in ("write", "writev", "pwrite64"):
            text = b"".join(bytes.fromhex(one.replace("\\x", "")) for one in _TEXT.findall(given))
            place = int(given.rsplit(",", 1)[1]) if call == "pwrite64" else None
            disk.write(number, paths[0], text, place)
        elif call == "lseek":
            if disk._places.get(number, 0) >= 0:
                disk.move(number, result)
            continue
        elif call.startswith("rename"):
            disk.change(Change("rename", path, disk.names[paths[-2]], paths[-2]))
        elif call.startswith("unlink") and "AT_REMOVEDIR" not in given:
            disk.change(Change("remove", path))
        elif call.startswith(("rmdir", "unlink")):
            disk.change(Change("rmdir", path))
        elif call.startswith("mkdir"):
            disk.change(Change("mkdir", path))
        elif call.startswith("link"):
            disk.change(Change("create", path, disk.names[paths[-2]]))
        elif call in ("truncate", "ftruncate"):
            content, size = disk.content[disk.names[paths[0]]], int(given.rsplit(",", 1)[1])
            content[:] = content[:size].ljust(size, b"\0")
        elif call in ("fsync", "fdatasync"):
            disk.flush(paths[0])
        yield f"{call} {os.path.relpath(paths[0], root)}", disk


def states(disk: Disk, model: str) -> Iterator[tuple[str, dict[str, bytes], set[str]]]:
    """Folders that a power cut may leave: how, the files and the folders."""
    certain = disk.certain[model]
    all_of_them = set(range(len(disk.changes)))
    open_ones = sorted(all_of_them - certain)
    whole = {inode: bytes(content) for inode, content in disk.content.items()}
    sure = {inode: disk.flushed.get(inode, b"") for inode in whole}
    tails = {inode: len(sure[inode]) for inode in whole}
    zeros = {n: sure[n] + bytes(max(0, len(whole[n]) - tails[n])) for n in whole}
    halves = {n: whole[n][: (tails[n] + len(whole[n])) // 2] for n in whole}
    yield "only what is certain", *_built(disk, certain, sure)
    yield "names without content", *_built(disk, all_of_them, sure)
    yield "names with zeros", *_built(disk, all_of_them, zeros)
    yield "half of the content", *_built(disk, all_of_them, halves)
    yield "content without names", *_built(disk, certain, whole)
    if model == "ext4":  # the journal keeps their order
        for count in range(1, len(open_ones)):
            yield f"{count} names", *_built(disk, certain | set(open_ones[:count]), sure)
        return
    for one in open_ones if len(open_ones) > 1 else ():
        words = f"{disk.changes[one].kind} {os.path.basename(disk.changes[one].path)}"
        yield f"{words} kept alone", *_built(disk, certain | {one}, sure)
        yield f"{words} lost alone", *_built(disk, all_of_them - {one}, sure)


def _built(
    disk: Disk, kept: set[int], content: dict[int, bytes]
) -> tuple[dict[str, bytes], set[str]]:
    names: dict[str, int] = {}
    folders: set[str] = set()
    for number in sorted(kept):
        apply(disk.changes[number], names, folders)
    return {path: content[inode] for path, inode in names.items()}, folders


def put(root: Path, target: Path, files: dict[str, bytes], folders: set[str]) -> None:
    """Make a folder of a state; what lies below a folder that was lost is lost."""
    if str(root) not in folders:
        return
    target.mkdir(parents=True)
    for folder in sorted(folders - {str(root)}):
        place = target / os.path.relpath(folder, root)
        if place.parent.is_dir():
            place.mkdir(exist_ok=True)
    for path, content in files.items():
        place = target / os.path.relpath(path, root)
        if place.parent.is_dir():
            place.write_bytes(content)


def traced(words: list[str], root: Path, place: Path) -> Path:
    """Run `clframe fit` under strace."""
    trace = place / "trace"
    command = ["strace", "-f", "-y", "-xx", "-s", str(1 << 26), "-e", f"trace={CALLS}"]
    command += ["--seccomp-bpf", "-o", str(trace), sys.executable, "-m", "clframe", "fit"]
    done = subprocess.run(
        [*command, *words, f"run_dir={root}"], cwd=place, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"the run failed: {' '.join(words)}\n{done.stderr[-3000:]}")
    return trace


def measure(name: str, place: Path, limit: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Build and resume states of one case, in both models."""
    words, log = [*CASES[name], *crash_points.SAVING, f"data_dir={place / 'data'}"], place / "log"
    root = place / "whole"
    trace = traced(words, root, place)
    expected = crash_points.finished(words, root)
    count, flushes, disk = 0, 0, Disk()
    unique: dict[str, dict[str, str]] = {model: {} for model in MODELS}
    for operation, disk in replay(trace, root):
        count, flushes = count + 1, flushes + operation.startswith(("fsync", "fdatasync"))
        for model in MODELS:
            for how, files, folders in states(disk, model):
                unique[model].setdefault(_digest(files, folders), f"{count} {how}|{operation}")
    _check_model(disk, root)
    report: dict[str, Any] = {"operations": count, "flushes": flushes}
    chosen: dict[str, dict[str, list[str]]] = {model: {} for model in MODELS}
    for model in MODELS:
        found = list(unique[model].items())
        step = max(1.0, len(found) / limit)
        for place_of in range(min(limit, len(found))):
            _, label = found[int(place_of * step)]
            where, _, words_of = label.partition(" ")
            chosen[model].setdefault(where, []).append(words_of)
        report[model] = {"states": len(found), "resumed": 0, "bad": []}
    for number, (_, disk) in enumerate(replay(trace, root), 1):
        for model in MODELS:
            wanted = chosen[model].get(str(number), [])
            for how, files, folders in states(disk, model) if wanted else ():
                which = next((one for one in wanted if one.split("|")[0] == how), None)
                if which is None:
                    continue
                run = place / "state" / "whole"
                put(root, run, files, folders)
                problem = crash_points.judge(words, run, expected, log)
                report[model]["resumed"] += 1
                if problem is not None:
                    report[model]["bad"].append([which, problem])
                    say(f"{name}, {model}, {which}: {problem}")
                shutil.rmtree(place / "state", ignore_errors=True)
    return report


def _digest(files: dict[str, bytes], folders: set[str]) -> str:
    """A sum over a state; temporary and volatile files do not matter to a resumed run."""
    total = hashlib.sha256(repr(sorted(folders)).encode())
    for path in sorted(files):
        if not path.endswith((".tmp", "status.json", ".lock")):
            total.update(f"{path} {len(files[path])}".encode() + files[path])
    return total.hexdigest()


def _check_model(disk: Disk, root: Path) -> None:
    """Whether the model with everything kept is what the run has left on the disk."""
    files, _ = _built(
        disk, set(range(len(disk.changes))), {n: bytes(c) for n, c in disk.content.items()}
    )
    there = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for path in {*files, *there}:
        if files.get(path) != there.get(path):
            raise SystemExit(f"the model of the disk is wrong about '{path}'")


def one_case(name: str, limit: int) -> dict[str, Any]:
    """The states of one case, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as place:
        say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
        return measure(name, Path(place).resolve(), limit, say)


def table(report: dict[str, Any]) -> str:
    """What was found, as a table."""
    lines = ["| case | operations | flushes | model | states | resumed | bad |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
    for name, one in report.items():
        for model in MODELS:
            cells = [one[model]["states"], one[model]["resumed"], len(one[model]["bad"])]
            shown = " | ".join(f"{cell:,}" for cell in cells)
            lines.append(f"| {name} | {one['operations']} | {one['flushes']} | {model} | {shown} |")
    return "\n".join(lines)


def main() -> int:
    """Print a table; exit code 1 if anything was bad."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--states", type=int, default=150, help="resumed per case and model")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    arguments = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    discover([])
    names = arguments.cases.split(",")
    forking = multiprocessing.get_context("fork")  # with all that is imported
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, forking) as pool:
        waiting = [pool.submit(one_case, name, arguments.states) for name in names]
        report = {name: one.result() for name, one in zip(names, waiting, strict=True)}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    print(table(report))
    if arguments.markdown:
        put_table(arguments.markdown, "power cut", table(report))
    return int(any(one[model]["bad"] for one in report.values() for model in MODELS))


if __name__ == "__main__":
    sys.exit(main())
