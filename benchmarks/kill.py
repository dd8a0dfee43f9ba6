"""Kill real runs with SIGKILL at random moments, continue them, and compare with whole ones.

    python benchmarks/kill.py [--kills 30 | --total 300] [--strategies naive,ewc] [--markdown PAGE]

For each strategy that `clframe list strategies` has, for some compositions and for learning by
reward, `clframe fit` runs once to its end. Then runs of the same settings are killed,
again and again, and continued with `resume=`, until they end; new runs start until there were
enough kills. A kill is one of: at a random time, in the middle of writing a checkpoint, between a
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra  # noqa: F401
from marked_page import put_table

import clframe.config.compose  # noqa: F401
from clframe.checkpoint import store
from clframe.cli.main import main as clframe_main
from clframe.core import hooks
from clframe.core.registry import Registry, discover
from clframe.strategies import known_strategies
from clframe.utils.files import write_json

COMMON = [
    "max_epochs=3",
    "trainer.batch_size=100",
    "model.hidden=[32]",
    "logger=csv",
    "check_val_every_n_epoch=1",
]
STREAM = ["n_experiences=3"]
LIFETIME = [
    "stream=scenario",
    "stream.base={name: split_mnist, n_experiences: 1}",
    "stream.block_length=15",
    "stream.samples_per_lx=100",
]
SMALL: dict[str, list[str]] = {
    "feedback_replay": [
        "strategy.feedback_replay.hidden=[32]",
        "strategy.feedback_replay.latent=8",
    ],
    "gdumb": ["strategy.gdumb.epochs=4", "strategy.gdumb.size=200"],
    "generative_replay": [
        "strategy.generative_replay.hidden=[32]",
        "strategy.generative_replay.latent=8",
    ],
    "icarl": ["strategy.icarl.size=200"],
}
"""Settings with which a plugin makes a small run; the others are small as they are."""
COMPOSITIONS: dict[str, list[str]] = {
    "ewc+replay+lwf": ["scenario=task"],
    "si+derpp": ["scenario=class"],
    "packnet+replay": ["scenario=task"],
    "dgr+mas+best_checkpoint": ["scenario=domain", *SMALL["generative_replay"]],
}
ROBOT = [
    "stream=point_robot",
    "stream.n_tasks=3",
    "stream.eval_episodes=2",
    "stream.horizon=12",
    "trainer.batch_size=16",
    "model.hidden=[32,32]",
    "logger=csv",
    "check_val_every_n_epoch=1",
]
SAC = ["learner.steps=120", "learner.start_steps=20", "learner.epoch_steps=40"]
BY_REWARD: dict[str, list[str]] = {
    "sac": ["learner=sac", *SAC],
    "sac+replay": ["learner=sac", "strategy=replay", *SAC, "learner.reset=[]"],
    "sac+packnet+ewc": [
        *["learner=sac", "strategy=packnet+ewc", "model.heads=task", *SAC],
        *["strategy.packnet.post_steps=20", "learner.update_ratio=0.5"],
    ],
    "ppo": ["learner=ppo", "learner.steps=192", "learner.n_steps=16", "learner.n_envs=4"],
    "ppo+ewc": [
        *["learner=ppo", "strategy=ewc", "learner.steps=192", "learner.n_steps=16"],
        *["learner.n_envs=3", "stream.num_workers=1"],
    ],
}
"""Runs of learners that act, in the middle of whose episodes a kill can come."""
SAVING = (
    ["checkpoint.every_n_steps=4"],
    ["checkpoint.every_seconds=0.02", "checkpoint.max_cost=0.5"],
)
KINDS = ("time", "time", "writing", "noted", "evaluation")


@dataclass(frozen=True)
class Case:
    """What is run, killed and continued.

    Args:
        words: After `clframe fit`.
        reference: Of a run that must be there before, in the folder ``reference``; None for none.
    """

    words: list[str]
    reference: list[str] | None = None


def cases(registry: Registry) -> dict[str, Case]:
    """All strategies there are, each in a scenario that its plugins know, and compositions."""
    found = {}
    for name, strategy in known_strategies(registry).items():
        plugins: list[Any] = [registry.get("plugin", one).factory for one in strategy.plugins]
        scenario = next(
            one for one in ("class", "task", "domain") if all(one in p.scenarios for p in plugins)
        )
        small = [word for one in strategy.plugins for word in SMALL.get(one, ())]
        words = [f"strategy={name}", f"scenario={scenario}", *small, *COMMON]
        if "continual_world" in strategy.plugins:  # compares with a run that learned the task alone
            alone = ["strategy=naive", *LIFETIME, "stream.repetitions=1", *COMMON]
            words += [*LIFETIME, "stream.repetitions=3"]
            words += ["strategy.continual_world.reference=[reference]"]
            found[name] = Case(words, alone)
        else:
            found[name] = Case([*words, *STREAM])
    for name, more in COMPOSITIONS.items():
        found[name] = Case([f"strategy={name}", *more, *COMMON, *STREAM])
    for name, more in BY_REWARD.items():
        if name.partition("+")[0] in registry.names("learner"):
            found[name] = Case([*more, *ROBOT])
    return found


def spread(total: int, names: Sequence[str]) -> dict[str, int]:
    """Distribute a number of kills over all strategies, as evenly as possible.

    >>> spread(5, ["a", "b", "c"])
    {'a': 2, 'b': 2, 'c': 1}
    """
    return {
        name: total // len(names) + (number < total % len(names))
        for number, name in enumerate(names)
    }


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

        def then_die(path: Path, content: Any) -> None:
            write_json(path, content)
            if now():
                die()

        store.write_json = then_die  # type: ignore[attr-defined]
    elif kind == "evaluation":
        evaluate = hooks.evaluate_task

        def half(learner: Any, task: Any) -> dict[str, float]:
            measured = evaluate(learner, task)
            if now():
                die()
            return measured

        hooks.evaluate_task = half


def start(words: list[str], log: Path, kind: str = "", number: int = 0) -> int:
    """Fork a process that runs `clframe fit` with these words, in the folder of the log."""
    child = os.fork()
    if child:
        return child
    code = 70
    with contextlib.suppress(BaseException):
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(log.parent)
        prepare_to_die(kind, number)
        code = clframe_main(["fit", *words])
    os._exit(code)


def finish(child: int, after: float | None = None) -> int:
    """Wait for a process and return its exit code; kill it after a time limit."""
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


def measure(name: str, case: Case, kills: int, draw: random.Random, place: Path) -> dict[str, Any]:
    """Kill and continue runs of one strategy; what happened."""
    log = place / "log"
    if case.reference is not None:
        finish_whole(name, case.reference, place / "reference", log)
    began = time.monotonic()
    finish_whole(name, case.words, place / "whole", log)
    seconds = time.monotonic() - began
    expected = content(place / "whole")
    found: dict[str, Any] = {"kills": 0, "runs": 0, "equal": 0, "by": dict.fromkeys(KINDS, 0)}
    while found["kills"] < kills:
        run = place / f"run{found['runs']}"
        words = [*case.words, *SAVING[found["runs"] % len(SAVING)], f"run_dir={run}"]
        found["runs"] += 1
        limit = min(found["kills"] + draw.randint(2, 6), kills)
        kill_often(name, words, run, limit, seconds, draw, found, log)
        got = content(run)
        different = [key for key in expected if got[key] != expected[key]]
        found["equal"] += not different
        if different:
            found.setdefault("different", []).append(different)
        shutil.rmtree(run)
    return found


def finish_whole(name: str, words: list[str], run: Path, log: Path) -> None:
    """Run to the end without a kill."""
    if finish(start([*words, f"run_dir={run}"], log)) != 0:
        lines = log.read_text().strip().splitlines()
        raise SystemExit(
            f"{name} cannot be run with the settings that all strategies get (give it some in "
            f"SMALL of benchmarks/kill.py): {lines[-1] if lines else 'no word'}"
        )


def kill_often(
    name: str,
    words: list[str],
    run: Path,
    limit: int,
    seconds: float,
    draw: random.Random,
    found: dict[str, Any],
    log: Path,
) -> None:
    """Begin a run, kill and continue it until the number of kills is reached, and let it end."""
    while True:
        kind, after = draw.choice(KINDS), None
        if found["kills"] >= limit:
            kind = ""
        elif kind == "time":
            after = draw.uniform(0.0, 0.8 * seconds)
        more = [f"resume={run}"] if (run / "config.yaml").exists() else words
        code = finish(start(more, log, kind, draw.randint(1, 6)), after)
        if code == 0:
            return
        if code != -signal.SIGKILL:
            raise SystemExit(f"{name}: exit code {code}:\n{log.read_text()[-3000:]}")
        found["kills"] += 1
        found["by"][kind] += 1


def table(report: dict[str, dict[str, Any]]) -> str:
    """What was found, as a table."""
    lines = ["| strategy | kills | at a time | writing | noted | evaluating | runs | equal |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    sums = [0] * 7
    for name, found in report.items():
        by = [found["by"][kind] for kind in dict.fromkeys(KINDS)]
        cells = [found["kills"], *by, found["runs"], found["equal"]]
        sums = [one + cell for one, cell in zip(sums, cells, strict=True)]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    lines.append(f"| all {len(report)} | {' | '.join(map(str, sums))} |")
    return "\n".join(lines)


def main() -> int:
    """Print a table; exit code 1 if anything was different."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=30, help="of each strategy")
    parser.add_argument("--total", type=int, help="total number of kills instead")
    parser.add_argument("--strategies", help="some of them, with commas between; all without")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    known = cases(discover([]))
    names = arguments.strategies.split(",") if arguments.strategies else list(known)
    for name in names:
        if name not in known:
            raise SystemExit(f"unknown strategy '{name}'; there are {', '.join(known)}")
    kills = dict.fromkeys(names, arguments.kills)
    if arguments.total is not None:
        kills = spread(arguments.total, names)
    report = {}
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            draw = random.Random(f"{arguments.seed} {name}")
            found = measure(name, known[name], kills[name], draw, Path(place).resolve())
        report[name] = found
        print(f"{name}: {found}", file=sys.stderr, flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1))
    print(table(report))
    if arguments.markdown:
        put_table(arguments.markdown, "kills", table(report))
    return int(any(found["equal"] != found["runs"] for found in report.values()))


if __name__ == "__main__":
    sys.exit(main())
