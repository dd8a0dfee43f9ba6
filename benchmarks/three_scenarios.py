"""The split-MNIST tables of van de Ven & Tolias, run with clframe next to the published ones.

    python benchmarks/three_scenarios.py --data-dir DIR --out runs/three_scenarios --seeds 0 1 2

DIR holds the full MNIST (``MNIST/raw``). Each cell is ``clframe fit
experiment=three_scenarios/<method> scenario=<scenario> seed=N`` (see grid.py for what is run and
kept). The table is printed and written to ``table.md`` in the output folder, the final accuracy of
every seed to ``table.json``.

Published: 2019 table (arXiv 1904.07734); RtF from 2018 (arXiv 1809.10635); ER, A-GEM and iCaRL with
100 samples a class, and what is named ``_2022``, from 2022 (Nature Machine Intelligence 4). Values
are final average accuracy in per cent, plus or minus the standard error over 20 seeds.
"""

from __future__ import annotations

import beside
from beside import Cell, Published

SCENARIOS = ("task", "domain", "class")
SEEDS = 20
Row = tuple[tuple[float, float] | None, ...]
PUBLISHED: dict[str, Row] = {
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

NOTES: dict[str, str] = {}
"""By the cell's name, why its value is out of the band."""


def scenario_cells(
    experiments: str, published: dict[str, Row], notes: dict[str, str], seeds: int
) -> tuple[Cell, ...]:
    """The cells of a table of methods by scenario; those without a published value are left out."""
    return tuple(
        Cell(
            (method, scenario),
            (f"experiment={experiments}/{method}", f"scenario={scenario}"),
            Published(*value, seeds),
            notes.get(f"{method}_{scenario}", ""),
        )
        for method, row in published.items()
        for scenario, value in zip(SCENARIOS, row, strict=True)
        if value is not None
    )


TEXT = """
`python benchmarks/three_scenarios.py --data-dir DIR --seeds 0 1 2`, in several calls that each
named some `--methods` and `--scenarios`; full MNIST, float32, the protocol of van de Ven & Tolias
(`experiment=three_scenarios/<method> scenario=<scenario>`). Final average accuracy in per cent,
mean and standard error over seeds. Published: 2019 table; RtF 2018; ER, A-GEM, iCaRL and the forms
with `_2022` in their names 2022. The band is two standard deviations of a single published seed, at
least 1 point.
"""

REMARKS = """
EWC in the task scenario with the weight of 2019 (1e7, predicted labels, a term of the loss) loses a
task in some runs: seed 2 ends at 93.64, seeds 0 and 1 at 99.05 and 99.07. The penalty is so stiff
that Adam's steps pass the anchor. With `strategy.ewc.step=proximal`, which cannot, seed 2 ends at
98.17; with the exact Fisher information and the weight of 2022 (`ewc_2022`) at 99.02, and none of
five seeds below 99.0.

A-GEM in the class scenario is decided by the seed: 62.21, 57.66, 75.70, 51.84 and 50.66 here. The
form of the published program as a plain loop (`python benchmarks/agem_form.py --data-dir DIR
--seeds 0 1 2 3`), with the same pairs of digits, has 66.29, 61.96, 43.12 and 27.94; the published
standard error is that of single seeds which differ by 16 points.
"""

TABLE = beside.Table(
    "three_scenarios",
    "Split MNIST in the three scenarios",
    ("method", "scenario"),
    scenario_cells("three_scenarios", PUBLISHED, NOTES, SEEDS),
    TEXT,
    REMARKS,
)

if __name__ == "__main__":
    beside.main(TABLE, __doc__, __file__)
