"""The split-MNIST table of van de Ven & Tolias, run with clframe and set beside the published one.

    python benchmarks/three_scenarios.py --data-dir DIR --out runs/three_scenarios --seeds 0 1 2

DIR holds the full MNIST (``MNIST/raw``). Each cell is ``clframe fit
experiment=three_scenarios/<method> scenario=<scenario> seed=N`` (see grid.py for what is run and
kept). The table is printed and written to ``table.md`` in the output folder, the final accuracy of
every seed to ``table.json``.

Published: 2019 table (arXiv 1904.07734); RtF from 2018 (arXiv 1809.10635); ER, A-GEM and iCaRL with
100 samples a class from 2022 (Nature Machine Intelligence 4). Values are final average accuracy in
per cent, plus or minus the standard error over 20 seeds. A cell is flagged where our mean lies
further from the published one than two standard deviations of a single seed (at least 1 point).
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import grid

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
    "xdg": ((99.10, 0.08), None, None),
    "ewc_2022": ((99.06, 0.15), (63.03, 1.58), (20.64, 0.52)),
    "si_2022": ((99.20, 0.11), (66.94, 1.13), (21.20, 0.57)),
    "lwf_2022": ((99.60, 0.03), (71.18, 1.42), (21.89, 0.32)),
}
PUBLISHED_SEEDS = 20


def final_accuracy(results: dict[str, Any]) -> float:
    """Mean of the last row of the matrix, in per cent."""
    return round(100.0 * statistics.mean(results["matrix"]["values"][-1]), 4)


def table(found: grid.Found) -> str:
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
    parser = grid.parser(__doc__, "runs/three_scenarios")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=SCENARIOS)
    arguments = parser.parse_args()
    if not (arguments.data_dir / "MNIST" / "raw").is_dir():
        sys.exit(f"{arguments.data_dir} holds no MNIST/raw: the published numbers need full MNIST")
    known = grid.read_known(arguments.known)
    cells = {
        f"{method}_{scenario}": [f"experiment=three_scenarios/{method}", f"scenario={scenario}"]
        for method, scenario in itertools.product(arguments.methods, arguments.scenarios)
        if PUBLISHED[method][SCENARIOS.index(scenario)] is not None
    }
    extra = [f"data_dir={arguments.data_dir}", *arguments.set]
    grid.run_all(cells, arguments.seeds, known, arguments.out, arguments.jobs, extra)
    found = grid.collect(arguments.out, known, final_accuracy)
    text = table(found)
    grid.write(arguments.out, found, text, Path(__file__).name)
    print("\n" + text)


if __name__ == "__main__":
    main()
