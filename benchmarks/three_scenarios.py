"""The split-MNIST table of van de Ven & Tolias, run with clframe and set beside the published one.

    python benchmarks/three_scenarios.py --data-dir DIR --out runs/three_scenarios --seeds 0 1 2

DIR holds the full MNIST (``MNIST/raw``). Each cell is ``clframe fit
experiment=three_scenarios/<method>_<scenario> seed=N``, several at once, one thread each. Runs that
are there already are kept, broken ones are continued. The table is printed and written to
``table.md`` in the output folder, the final accuracy of every seed to ``table.json``. Seeds that an
earlier ``table.json`` named by ``--known`` holds are taken from it and not run again.

Published: 2019 table (arXiv 1904.07734); RtF from 2018 (arXiv 1809.10635); ER, A-GEM and iCaRL with
100 samples a class from 2022 (Nature Machine Intelligence 4). Values are final average accuracy in
per cent, plus or minus the standard error over 20 seeds. A cell is flagged where our mean lies
further from the published one than two standard deviations of a single seed (at least 1 point).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import itertools
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

SCENARIOS = ("task", "domain", "class")
PUBLISHED: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "none": ((87.19, 0.94), (59.21, 2.04), (19.90, 0.02)),
    "joint": ((99.66, 0.02), (98.42, 0.06), (97.94, 0.03)),
    "ewc": ((98.64, 0.22), (63.95, 1.90), (20.01, 0.06)),
    "online_ewc": ((99.12, 0.11), (64.32, 1.90), (19.96, 0.07)),
    "si": ((99.09, 0.15), (65.36, 1.57), (19.99, 0.06)),
    "lwf": ((99.57, 0.02), (71.50, 1.63), (23.85, 0.44)),
    "dgr": ((99.50, 0.03), (95.72, 0.25), (90.79, 0.41)),
    "dgr_distill": ((99.61, 0.02), (96.83, 0.20), (91.79, 0.32)),
    "rtf": ((99.66, 0.03), (97.31, 0.11), (92.56, 0.21)),
    "er": ((98.98, 0.07), (93.75, 0.24), (88.79, 0.20)),
    "agem": ((98.58, 0.10), (87.67, 1.33), (65.10, 3.64)),
    "icarl": (None, None, (92.49, 0.12)),
}
PUBLISHED_SEEDS = 20


def run_cell(
    method: str, scenario: str, seed: int, data_dir: Path, out: Path, extra: list[str]
) -> str:
    """Run one cell unless it is there; continue it if it was stopped. Returns what happened."""
    folder = out / f"{method}_{scenario}" / f"s{seed}"
    if (folder / "results.json").exists():
        return "there already"
    command = [sys.executable, "-m", "clframe.cli", "fit"]
    if (folder / "config.yaml").exists():
        command.append(f"resume={folder}")
    else:
        command += [
            f"experiment=three_scenarios/{method}_{scenario}",
            f"seed={seed}",
            f"data_dir={data_dir}",
            f"run_dir={folder}",
            "logger=none",
            *extra,
        ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        return f"FAILED ({done.returncode}): {done.stderr.strip().splitlines()[-1]}"
    return f"{time.perf_counter() - started:.0f} s"


def final_accuracy(path: Path) -> float:
    """Mean of the last row of the matrix, in per cent."""
    row = json.loads(path.read_text())["matrix"]["values"][-1]
    return 100.0 * float(statistics.mean(row))


def cells(out: Path, known: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Final accuracy by cell and seed: what was known and what has been run."""
    found = {cell: dict(seeds) for cell, seeds in known.items()}
    for path in sorted(out.glob("*_*/s*/results.json")):
        seed = path.parent.name.removeprefix("s")
        found.setdefault(path.parent.parent.name, {})[seed] = round(final_accuracy(path), 4)
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    """All cells that have values, beside the published ones."""
    lines = [
        "| method | scenario | clframe | seeds | published | difference | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for method, row in PUBLISHED.items():
        for scenario, published in zip(SCENARIOS, row, strict=True):
            values = list(found.get(f"{method}_{scenario}", {}).values())
            if not values:
                continue
            mean = statistics.mean(values)
            ours = f"{mean:.2f}"
            if len(values) > 1:
                ours += f" ± {statistics.stdev(values) / math.sqrt(len(values)):.2f}"
            if published is None:
                lines.append(f"| {method} | {scenario} | {ours} | {len(values)} | - | - | |")
                continue
            band = max(1.0, 2.0 * published[1] * math.sqrt(PUBLISHED_SEEDS))
            difference = mean - published[0]
            flag = f"outside ±{band:.1f}" if abs(difference) > band else ""
            lines.append(
                f"| {method} | {scenario} | {ours} | {len(values)} | "
                f"{published[0]:.2f} ± {published[1]:.2f} | {difference:+.2f} | {flag} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/three_scenarios"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=SCENARIOS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--known", type=Path, help="a table.json with seeds run earlier")
    parser.add_argument("--set", nargs="*", default=[], help="further settings of every run")
    arguments = parser.parse_args()
    if not (arguments.data_dir / "MNIST" / "raw").is_dir():
        sys.exit(f"{arguments.data_dir} holds no MNIST/raw: the published numbers need full MNIST")
    known = json.loads(arguments.known.read_text()) if arguments.known else {}
    wanted = [
        (m, s, seed)
        for seed, m, s in itertools.product(arguments.seeds, arguments.methods, arguments.scenarios)
        if not (m == "icarl" and s != "class") and str(seed) not in known.get(f"{m}_{s}", {})
    ]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        started = {
            pool.submit(run_cell, *cell, arguments.data_dir, arguments.out, arguments.set): cell
            for cell in wanted
        }
        for future in concurrent.futures.as_completed(started):
            method, scenario, seed = started[future]
            print(f"{method}_{scenario} seed {seed}: {future.result()}", flush=True)
    found = cells(arguments.out, known)
    text = table(found)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "table.json").write_text(json.dumps(found, indent=1) + "\n")
    command = shlex.join(["python", "benchmarks/three_scenarios.py", *sys.argv[1:]])
    (arguments.out / "table.md").write_text(
        f"`{command}`, {datetime.date.today().isoformat()}\n\n{text}\n"
    )
    print("\n" + text)


if __name__ == "__main__":
    main()
