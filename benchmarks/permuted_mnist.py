"""The permuted-MNIST table of van de Ven & Tolias, run with clframe next to the published one.

    python benchmarks/permuted_mnist.py --data-dir DIR --out runs/permuted_mnist --seeds 0

DIR holds the full MNIST (``MNIST/raw``). Each cell is ``clframe fit
experiment=permuted_mnist/<method> scenario=<scenario> seed=N`` (see grid.py for what is run and
kept), 50,000 steps of a network with 2 million weights: 17 minutes of CPU time and more.

Published: arXiv 1809.10635 (2018), which the 2019 table (arXiv 1904.07734) repeats and to which it
adds iCaRL. Values are final average accuracy in per cent, plus or minus the standard error over 20
seeds.
"""

from __future__ import annotations

import beside
from three_scenarios import SEEDS, Row, scenario_cells

PUBLISHED: dict[str, Row] = {
    "none": ((81.79, 0.48), (78.51, 0.24), (17.26, 0.19)),
    "joint": ((97.68, 0.01), (97.59, 0.01), (97.59, 0.02)),
    "xdg": ((91.40, 0.23), None, None),
    "ewc": ((94.74, 0.05), (94.31, 0.11), (25.04, 0.50)),
    "online_ewc": ((95.96, 0.06), (94.42, 0.13), (33.88, 0.49)),
    "si": ((94.75, 0.14), (95.33, 0.11), (29.31, 0.62)),
    "lwf": ((69.84, 0.46), (72.64, 0.52), (22.64, 0.23)),
    "dgr": ((92.52, 0.08), (95.09, 0.04), (92.19, 0.09)),
    "dgr_distill": ((97.51, 0.01), (97.35, 0.02), (96.38, 0.03)),
    "rtf": ((97.31, 0.01), (97.06, 0.02), (96.23, 0.04)),
    "icarl": (None, None, (94.85, 0.03)),
}

NOTES: dict[str, str] = {}
"""By the cell's name, why its value is out of the band."""

TEXT = """
`python benchmarks/permuted_mnist.py --data-dir DIR --seeds 0`, in several calls that each named
some `--methods` and `--scenarios`; full MNIST, float32, the protocol of van de Ven & Tolias
(`experiment=permuted_mnist/<method> scenario=<scenario>`). Final average accuracy in per cent, mean
and standard error over seeds. The band is two standard deviations of a single published seed, at
least 1 point.
"""

TABLE = beside.Table(
    "permuted_mnist",
    "Permuted MNIST in the three scenarios",
    ("method", "scenario"),
    scenario_cells("permuted_mnist", PUBLISHED, NOTES, SEEDS),
    TEXT,
)

if __name__ == "__main__":
    beside.main(TABLE, __doc__, __file__)
