"""Kill real runs with SIGKILL at random moments, continue them, and compare with whole ones.

    python benchmarks/kill.py [--kills 30] [--strategies naive,ewc] [--seed 0] [--json FILE]

For each strategy `clframe fit` runs once to its end. Then runs of the same settings are killed,
again and again, and continued with `resume=`, until they end; a new one is begun until there were
so many kills. A kill is one of: at a random time, in the middle of writing a checkpoint, between a
checkpoint's note and its state, in the middle of an evaluation. Compared are results.json (without
timing), events.jsonl and the lifetime log (without times), and the CSV table, all exactly.

Each run is a process of its own, forked from this one, which has imported everything and computes
nothing. Needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import hydra  # noqa: F401

import clframe.config.compose  # noqa: F401
from clframe.checkpoint import store
from clframe.cli.main import main as clframe_main
from clframe.core import hooks
from clframe.core.registry import discover

STRATEGIES: dict[str, list[str]] = {
    "naive": ["strategy=naive"],
    "ewc": ["strategy=ewc"],
    "si": ["strategy=si"],
    "lwf": ["strategy=lwf"],
    "replay": ["strategy=er"],
    "packnet": ["strategy=packnet", "scenario=task"],
    "dgr": [
        "strategy=dgr",
        "strategy.generative_replay.hidden=[32]",
        "strategy.generative_replay.latent=8",
    ],
    "ewc+replay+lwf": ["strategy=[ewc,replay,lwf]", "scenario=task"],
}
COMMON = [
    "n_experiences=3",
    "max_epochs=3",
    "trainer.batch_size=100",
    "model.hidden=[32]",
    "logger=csv",
]
COMMON += ["check_val_every_n_epoch=1"]
SAVING = (
    ["checkpoint.every_n_steps=4"],
    ["checkpoint.every_seconds=0.02", "checkpoint.max_cost=0.5"],
)
KINDS = ("time", "time", "writing", "noted", "evaluation")


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def prepare_to_die(kind: str, number: int) -> None:
    """Let this process be killed the so-many-th time it comes to such a moment."""
    left = [number]

    def now() -> bool:
        left[0] -= 1
        return left[0] == 0

    if kind == "writing":
        write = store._Summed.write
        begin = store.CheckpointStore.write
        dying = [False]

        def part(self: Any, content: Any) -> int:
            if dying[0] and self.bytes > 20_000:
                self.file.write(memoryview(content).cast("B")[:100])
                self.file.flush()
                die()
            return write(self, content)

        def whole(self: Any, *given: Any, **named: Any) -> int:
            dying[0] = now()
            return begin(self, *given, **named)

        store._Summed.write = part  # type: ignore[method-assign]
        store.CheckpointStore.write = whole  # type: ignore[method-assign]
    elif kind == "noted":
        note = store.write_json

        def then_die(path: Path, content: Any) -> None:
            note(path, content)
            if now():
                die()

        store.write_json = then_die  # type: ignore[assignment]
    elif kind == "evaluation":
        evaluate = hooks.evaluate_task

        def half(*given: Any) -> Any:
            measured = evaluate(*given)
            if now():
                die()
            return measured

        hooks.evaluate_task = half


def start(words: list[str], log: Path, kind: str = "", number: int = 0) -> int:
    """Fork a process that runs `clframe fit` with these words."""
    child = os.fork()
    if child:
        return child
    code = 70
    with contextlib.suppress(BaseException):
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.dup2(output, 1)
        os.dup2(output, 2)
        prepare_to_die(kind, number)
        code = clframe_main(["fit", *words])
    os._exit(code)


def finish(child: int, after: float | None = None) -> int:
    """Wait for a process and return its exit code; kill it after so many seconds."""
    deadline = None if after is None else time.monotonic() + after
    while True:
        ended, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        time.sleep(0.002)


def content(run: Path) -> dict[str, Any]:
    """What a run has left behind, without times."""
    results = json.loads((run / "results.json").read_text())
    results.pop("timing")
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    for event in events:
        event.pop("seconds", None)
    log = {}
    for path in sorted((run / "log").rglob("*.tsv")):
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        stamp = rows[0].index("timestamp") if "timestamp" in rows[0] else None
        for row in rows:
            if stamp is not None:
                row.pop(stamp)
        log[path.relative_to(run).as_posix()] = rows
    with (run / "csv" / "metrics.csv").open(newline="") as file:
        table = [dict(sorted(row.items())) for row in csv.DictReader(file)]
    return {"results": results, "events": events, "log": log, "table": table}


def measure(name: str, kills: int, draw: random.Random, place: Path) -> dict[str, Any]:
    """Kill and continue runs of one strategy; what happened."""
    words = [*STRATEGIES[name], *COMMON]
    log = place / f"{name}.log"
    began = time.monotonic()
    if finish(start([*words, f"run_dir={place / 'whole'}"], log)) != 0:
        raise SystemExit(f"{name}: the whole run failed:\n{log.read_text()}")
    seconds = time.monotonic() - began
    expected = content(place / "whole")
    found: dict[str, Any] = {"kills": 0, "runs": 0, "equal": 0, "by": dict.fromkeys(KINDS, 0)}
    while found["kills"] < kills:
        run = place / f"run{found['runs']}"
        saving = SAVING[found["runs"] % len(SAVING)]
        found["runs"] += 1
        limit = found["kills"] + draw.randint(2, 6)
        while True:
            more = [f"run_dir={run}", *words, *saving]
            if (run / "config.yaml").exists():
                more = [f"resume={run}"]
            kind, after = draw.choice(KINDS), None
            if found["kills"] >= min(limit, kills):
                kind = ""
            elif kind == "time":
                after = draw.uniform(0.0, 0.8 * seconds)
            code = finish(start(more, log, kind, draw.randint(1, 6)), after)
            if code == 0:
                break
            if code != -signal.SIGKILL:
                raise SystemExit(f"{name}: exit code {code}:\n{log.read_text()[-3000:]}")
            found["kills"] += 1
            found["by"][kind] += 1
        got = content(run)
        different = [key for key in expected if got[key] != expected[key]]
        found["equal"] += not different
        if different:
            found.setdefault("different", []).append(different)
        shutil.rmtree(run)
    shutil.rmtree(place / "whole")
    return found


def main() -> int:
    """Print a table; exit code 1 if anything was different."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    discover([])
    report = {}
    print("| strategy | kills | at a time | writing | noted | evaluating | runs | equal |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.strategies.split(","):
        with tempfile.TemporaryDirectory() as place:
            draw = random.Random(f"{arguments.seed} {name}")
            found = measure(name, arguments.kills, draw, Path(place))
        report[name] = found
        by = " | ".join(str(found["by"][kind]) for kind in dict.fromkeys(KINDS))
        equal = f"{found['equal']} of {found['runs']}"
        print(f"| {name} | {found['kills']} | {by} | {found['runs']} | {equal} |", flush=True)
        if "different" in found:
            print(f"{name}: {found['different']}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    return int(any(found["equal"] != found["runs"] for found in report.values()))


if __name__ == "__main__":
    sys.exit(main())
