"""Regularisers on robots: naive, EWC, SI and MAS with a policy that has a head for each task.

    python benchmarks/robots_ewc.py --choose --out runs/robots_choose
    python benchmarks/robots_ewc.py --out runs/robots --seeds 0 1 2

The first command runs candidate strengths on goals (``stream.goal_seed=5``) and a seed (10) that
nothing is measured on; the best are written down in ``CHOSEN``. The second measures those on other
goals (``stream.goal_seed=1``). Runs that are there already are kept, broken ones are continued;
streams whose packages are missing can be left out with ``--streams``.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import grid

NETWORK = ["model.heads=task", "model.activation=leaky_relu"]
STREAMS: dict[str, list[str]] = {
    "point_robot": ["stream=point_robot"],
    "tabletop_goal": [
        "stream=tabletop_goal",
        "stream.tasks=[0,1,2,7,8]",
        "stream.eval_episodes=10",
        "stream.horizon=120",
        "stream.num_envs=10",
        "trainer.max_epochs=50",
        "trainer.batch_size=128",
        "trainer.reset_optimizer=true",
        "trainer.check_val_every_n_epoch=25",
        "trainer.evaluate_tasks=learned",
    ],
    "metaworld_cw10": [
        "stream=metaworld_cw10",
        "stream.tasks=[hammer,push-wall,faucet-close,push-back,stick-pull]",
        "trainer.max_epochs=20",
        "trainer.batch_size=64",
        "trainer.evaluate_tasks=learned",
    ],
}
METHODS: dict[str, list[str]] = {
    "naive": [],
    "ewc": ["strategy.ewc.fisher=exact", "strategy.ewc.samples=1000"],
    "si": [],
    "mas": ["strategy.mas.samples=1000"],
}
BEST_POINT = ("tabletop_goal",)
"""Streams whose protocol ends each experience with the best of the models measured on the way."""
STRENGTH = {"ewc": "strategy.ewc.weight", "si": "strategy.si.c", "mas": "strategy.mas.weight"}
CANDIDATES: dict[str, tuple[float, ...]] = {
    "ewc": (100.0, 300.0, 1000.0, 3000.0),
    "si": (1.0, 10.0, 100.0),
    "mas": (1.0, 10.0, 100.0),
}
CHOSEN: dict[str, dict[str, float]] = {stream: {} for stream in STREAMS}
"""The strength of each method on each stream: the best candidate of ``--choose``."""
CHOOSING = ["stream.goal_seed=5", "seed=10"]


def settings_of(stream: str, method: str, network: bool, strength: float | None) -> list[str]:
    """What a run is given beside its seed and goals."""
    strategy = f"[{method},best_checkpoint]" if stream in BEST_POINT else method
    made = [*STREAMS[stream], f"strategy={strategy}", *METHODS[method]]
    if strength is not None:
        made.append(f"{STRENGTH[method]}={strength}")
    return [*made, *(NETWORK if network else [])]


def run(settings: list[str], folder: Path, extra: list[str]) -> str:
    """Run once unless it is there; continue what was stopped. Returns what happened."""
    if (folder / "results.json").exists():
        return "there already"
    command = [sys.executable, "-m", "clframe", "fit"]
    if (folder / "config.yaml").exists():
        command.append(f"resume={folder}")
    else:
        command += [*settings, f"run_dir={folder}", "logger=none", *extra]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    lines = done.stderr.strip().splitlines() or ["(nothing said)"]
    return f"FAILED ({done.returncode}): {lines[-1]}" if done.returncode else "done"


def measure(folder: Path, settings: list[str]) -> dict[str, Any] | None:
    """What is kept of a run: success after every experience, the command, versions."""
    if not (folder / "results.json").exists():
        return None
    results = json.loads((folder / "results.json").read_text())
    matrix = results["matrix"]
    values = [
        row for name, row in zip(matrix["rows"], matrix["values"], strict=True) if name != "before"
    ]
    return {
        "columns": matrix["columns"],
        "values": values,
        "final": statistics.mean(values[-1]),
        "learned": statistics.mean(values[place][place] for place in range(len(values))),
        "command": shlex.join(["clframe", "fit", *settings]),
        "train_seconds": round(results["timing"]["train_seconds"], 1),
        "eval_seconds": round(results["timing"]["eval_seconds"], 1),
        "source": results["source"],
        "versions": results["environment"]["versions"],
    }


def cells(arguments: Any) -> dict[str, list[str]]:
    """Each run's name, which is its place below the output folder, and its settings."""
    made = {}
    for stream, method in itertools.product(arguments.streams, arguments.methods):
        if arguments.choose:
            for strength in CANDIDATES.get(method, (None,)):
                name = f"{stream}/{method}/{'-' if strength is None else f'{strength:g}'}"
                made[name] = [*settings_of(stream, method, True, strength), *CHOOSING]
            continue
        for seed in arguments.seeds:
            goals = ["stream.goal_seed=1", f"seed={seed}"]
            strength = CHOSEN[stream].get(method)
            if method != "naive" and strength is None:
                raise SystemExit(f"CHOSEN has no strength of {method} on {stream}: --choose first")
            settings = settings_of(stream, method, True, strength)
            made[f"{stream}/{method}/s{seed}"] = [*settings, *goals]
            if method == "naive":  # the network as it is without settings
                plain = settings_of(stream, method, False, None)
                made[f"{stream}/naive_shared/s{seed}"] = [*plain, *goals]
    return made


def table(found: dict[str, dict[str, Any]]) -> str:
    """Final success by stream and method (or candidate), each run by itself."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, one in found.items():
        stream, method, last = name.split("/")
        group = f"{stream} | {method}" if last.startswith("s") else f"{stream} | {method} {last}"
        groups.setdefault(group, []).append(one)
    lines = [
        "| stream | method | final success, each seed | mean ± standard deviation | when learned |",
        "| --- | --- | --- | --- | --- |",
    ]
    for group, runs in groups.items():
        finals = [one["final"] for one in runs]
        spread = f" ± {statistics.stdev(finals):.2f}" if len(finals) > 1 else ""
        learned = statistics.mean(one["learned"] for one in runs)
        each = ", ".join(f"{value:.2f}" for value in finals)
        lines.append(
            f"| {group} | {each} | {statistics.mean(finals):.2f}{spread} | {learned:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and print the table."""
    parser = grid.parser(__doc__, "runs/robots_ewc")
    parser.add_argument("--choose", action="store_true", help="candidates, on other goals")
    parser.add_argument("--streams", nargs="+", default=list(STREAMS), choices=STREAMS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    arguments = parser.parse_args()
    wanted = cells(arguments)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        started = {
            pool.submit(run, settings, arguments.out / name, arguments.set): name
            for name, settings in wanted.items()
        }
        for future in concurrent.futures.as_completed(started):
            print(f"{started[future]}: {future.result()}", flush=True)
    found = {}
    for name, settings in wanted.items():
        measured = measure(arguments.out / name, [*settings, *arguments.set])
        if measured is not None:
            found[name] = measured
    text = table(found)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "table.json").write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    (arguments.out / "table.md").write_text(text + "\n")
    print("\n" + text)


if __name__ == "__main__":
    main()
