"""Run one published cell of each method again with a new seed: a check before a release.

    python benchmarks/published.py --quick --data-dir DIR
    python benchmarks/published.py --quick --data-dir DIR --methods er si --seed 4711

Each cell is printed next to the band that a single published seed should fall in (two standard
deviations, with the least width of the tables' flags); the exit code is 1 if one is outside of it,
2 if one could not be run. ``--seed`` repeats a seed that was printed. Without ``--quick`` all
published cells of the methods are run, which takes many hours.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import beside
import grid
from results_pages import TABLES

QUICK: dict[str, tuple[str, str]] = {
    "sgd": ("der_mnist", "sgd_-_permuted"),
    "joint": ("der_mnist", "joint_-_rotated"),
    "si": ("der_mnist", "si_-_permuted"),
    "er": ("der_mnist", "er_500_permuted"),
    "gem": ("der_mnist", "gem_200_permuted"),
    "agem": ("der_mnist", "agem_200_permuted"),
    "der": ("der_mnist", "der_500_permuted"),
    "derpp": ("der_mnist", "derpp_500_permuted"),
    "none": ("three_scenarios", "none_class"),
    "xdg": ("three_scenarios", "xdg_task"),
    "ewc": ("three_scenarios", "ewc_2022_task"),
    "online_ewc": ("three_scenarios", "online_ewc_task"),
    "lwf": ("three_scenarios", "lwf_class"),
    "icarl": ("three_scenarios", "icarl_class"),
    "dgr": ("three_scenarios", "dgr_class"),
    "dgr_distill": ("three_scenarios", "dgr_distill_class"),
    "rtf": ("three_scenarios", "rtf_class"),
}
"""By method, the table and the cell that is run: cheap ones, and those with a narrow band.

``oewc`` of DER's table is left out, since it is known to be outside; ``online_ewc`` stands for it.
"""


def chosen(methods: Sequence[str] | None, quick: bool) -> dict[str, beside.Cell]:
    """The cells to run, by a name that says which table they are of."""
    tables = {table.name: table for table in TABLES}
    if quick:
        wanted = [QUICK[method] for method in methods or QUICK]
        return {f"{table}_{cell}": tables[table].by_name[cell] for table, cell in wanted}
    return {
        f"{table.name}_{cell.name}": cell
        for table in TABLES
        for cell in table.cells
        if cell.published is not None and (methods is None or cell.labels[0] in methods)
    }


def verdicts(cells: dict[str, beside.Cell], found: grid.Found, seed: int) -> tuple[str, int]:
    """A line for each cell, and the exit code."""
    lines, code = [], 0
    for name, cell in cells.items():
        assert cell.published is not None
        low, high = (cell.published.mean + sign * cell.published.band for sign in (-1, 1))
        value = found.get(name, {}).get(str(seed))
        if value is None:
            said, code = "has no value: its run failed", 2
        elif beside.is_outside(value, cell.published):
            said, code = f"{value:.2f} OUTSIDE {low:.2f} to {high:.2f}", max(code, 1)
        else:
            said = f"{value:.2f} in {low:.2f} to {high:.2f}"
        lines.append(f"{name}: {said} (published {cell.published})")
    return "\n".join(lines), code


def main() -> int:
    """Run the cells and say how they compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one cell of each method")
    known = {cell.labels[0] for table in TABLES for cell in table.cells} | set(QUICK)
    parser.add_argument("--methods", nargs="+", choices=sorted(known), metavar="METHOD")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seed", type=int, help="repeat this seed instead of drawing one")
    parser.add_argument("--out", type=Path, help="keep the runs here")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if not (arguments.data_dir / "MNIST" / "raw").is_dir():
        parser.error(f"{arguments.data_dir} {beside.MNIST_NEEDED}")
    if arguments.quick and (unknown := set(arguments.methods or ()) - set(QUICK)):
        parser.error(f"--quick has no cell of {', '.join(sorted(unknown))}; of {', '.join(QUICK)}")
    seed = arguments.seed
    if seed is None:
        seed = random.SystemRandom().randrange(1000, 2**31)
    print(f"seed {seed}", flush=True)
    cells = chosen(arguments.methods, arguments.quick)
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.out or Path(temporary)
        settings = {name: list(cell.settings) for name, cell in cells.items()}
        extra = [f"data_dir={arguments.data_dir}"]
        grid.run_all(settings, [seed], {}, out, arguments.jobs, extra)
        found = grid.collect(out, {}, beside.final_accuracy)
    text, code = verdicts(cells, found, seed)
    print("\n" + text)
    return code


if __name__ == "__main__":
    sys.exit(main())
