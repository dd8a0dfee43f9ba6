"""Ten small runs whose records must not change while the code is rearranged.

Record them with two versions of clframe and compare, bit for bit::

    python scripts/frozen_runs.py record OLD --clframe /path/to/old/venv/bin/clframe
    python scripts/frozen_runs.py record NEW
    python scripts/frozen_runs.py compare OLD NEW

Compared are ``clframe list`` and every run's results.json, matrix.csv and events.jsonl. Timing,
memory and the revision are left out, and so are events that only say that data is being prepared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHORT = ("trainer.max_epochs=1", "trainer.limit_train_batches=12")
RUNS: dict[str, tuple[str, ...]] = {
    "naive": ("strategy=naive", *SHORT),
    "ewc": ("strategy=ewc", "scenario=task", "seed=1", *SHORT),
    "ewc_replay": ("strategy=[ewc,replay]", "strategy.replay.size=100", *SHORT),
    "packnet": ("strategy=packnet", "scenario=task", *SHORT),
    "rtf": ("strategy=rtf", *SHORT),
    "point_robot": ("stream=point_robot", "strategy=er", "trainer.max_epochs=2"),
    "scenario": ("stream=scenario", "strategy=online_ewc", *SHORT),
    "seeds": ("strategy=si", "seeds=[0,1]", *SHORT),
    "sweep": ("-m", "strategy=lwf,mas", "seed=0,1", *SHORT),
    "killed": ("strategy=[ewc,er]", "trainer.max_epochs=3", "checkpoint.every_n_steps=5"),
}
CHANGING = {"timing", "revision", "time", "seconds", "platform", "peak_memory_bytes"}
CHANGING_EVENTS = {"prepare", "resume", "resumed"}


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("folder", type=Path)
    record.add_argument(
        "--clframe", default=str(Path(sys.executable).parent / "clframe"), type=os.path.abspath
    )
    record.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS))
    against = commands.add_parser("compare")
    against.add_argument("old", type=Path)
    against.add_argument("new", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "record":
        for name in arguments.only:
            make(arguments.clframe, arguments.folder, name)
        listing = run(arguments.clframe, ["list"], arguments.folder)
        (arguments.folder / "list.txt").write_text(listing)
        return 0
    return compare(arguments.old, arguments.new)


def make(program: str, folder: Path, name: str) -> None:
    """One of the runs."""
    target = folder.resolve() / name
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    started = time.time()
    words = ["fit", *RUNS[name], f"{'sweep_dir' if name == 'sweep' else 'run_dir'}={target}"]
    if name == "killed":
        kill_and_resume(program, words, target)
    else:
        run(program, words, folder)
    print(f"{name:<12} {time.time() - started:5.1f} s", flush=True)


def run(program: str, words: list[str], folder: Path) -> str:
    """Run a command to its end and give what it printed."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    done = subprocess.run(
        [program, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def kill_and_resume(program: str, words: list[str], target: Path) -> None:
    """Kill a run in its third experience and let it go on."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [program, *words], cwd=target.parent, env=environment, stderr=subprocess.DEVNULL
    )
    events = target / "events.jsonl"
    while process.poll() is None:
        if events.exists() and events.read_text().count('"evaluation"') >= 3:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.02)
    if process.wait() != -signal.SIGKILL:
        raise SystemExit("the run to be killed ended by itself")
    run(program, ["fit", f"resume={target}"], target.parent)


def records(folder: Path) -> dict[str, Any]:
    """What is compared, by path."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name == "results.json":
            found[name] = stable(json.loads(path.read_text()))
        elif path.name in ("matrix.csv", "list.txt"):
            found[name] = path.read_text().splitlines()
        elif path.name == "events.jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [stable(e) for e in lines if e.get("event") not in CHANGING_EVENTS]
    return found


def stable(value: Any) -> Any:
    """The same without what is different each time."""
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items() if key not in CHANGING}
    if isinstance(value, list):
        return [stable(item) for item in value]
    return value


def compare(old: Path, new: Path) -> int:
    """Name the first difference of each file."""
    before, after = records(old), records(new)
    faults = [f"{name}: only in {old}" for name in before if name not in after]
    faults += [f"{name}: only in {new}" for name in after if name not in before]
    for name in before:
        if name in after and before[name] != after[name]:
            faults.append(f"{name}: {first_difference(before[name], after[name])}")
    for fault in faults:
        print(fault)
    print(f"{len(before) - len(faults)} files are the same, {len(faults)} are not")
    return 1 if faults else 0


def first_difference(old: Any, new: Any, where: str = "") -> str:
    """Where two records differ first."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                return first_difference(old.get(key), new.get(key), f"{where}.{key}")
    if isinstance(old, list) and isinstance(new, list):
        for index, (a, b) in enumerate(zip(old, new, strict=False)):
            if a != b:
                return first_difference(a, b, f"{where}[{index}]")
        return f"{where} has {len(old)} entries and {len(new)}"
    return f"{where} was {old!r} and is {new!r}"


if __name__ == "__main__":
    sys.exit(main())
