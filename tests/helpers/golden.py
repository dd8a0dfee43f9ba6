"""Check metrics against values computed by the reference programs: python -m tests.golden DIR."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clframe.metrics
from clframe.metrics import l2

RELATIVE, ABSOLUTE = 1e-6, 1e-8
LIBERO_TOLERANCE = 1e-9
PARTS = (
    "lifetime",
    "tasks",
    "regimes",
    "normalization_data_range",
    "unique_tasks",
    "min",
    "max",
    "num_lx",
    "num_ex",
)
# Lists with one entry per expert; without variants their order is that of the file system.
UNORDERED = (
    "ste_rel_perf_vals",
    "ste_saturation_vals",
    "ste_exp_to_sat_vals",
    "se_saturation_vals",
    "se_exp_to_sat_vals",
    "sample_efficiency_vals",
)


def l2_cases(folder: Path) -> Iterator[tuple[str, str]]:
    """List every scenario and every set of settings below a folder of golden L2 data."""
    for path in sorted(folder.glob("*/expected.json")):
        for settings in json.loads(path.read_text())["results"]:
            yield path.parent.name, settings


def l2_differences(folder: Path, scenario: str, settings_name: str) -> tuple[int, list[str]]:
    """Evaluate one scenario and return how many values were compared and what differs."""
    base = folder / scenario
    expected = json.loads((base / "expected.json").read_text())
    wanted = expected["results"][settings_name]
    found = l2.evaluate(
        base / expected["lifetime_file"],
        ste=[base / name for name in expected["ste_files_in_store_order"]],
        profile="reference",
        **wanted["settings"],
    ).as_dict()
    skipped = set(wanted.get("rounding_sensitive", ()))
    agnostic = wanted["settings"]["variant_mode"] == "agnostic"
    checker = Checker(skipped, agnostic)
    for part in PARTS:
        checker.compare(part, wanted[part], found[part])
    return checker.count, checker.differences


def libero_differences(case: dict[str, Any]) -> tuple[int, list[str]]:
    """Compute one LIBERO case and return how many values were compared and what differs."""
    found = clframe.metrics.libero(case["c"])
    names = {"e_star": "e_star", "C": "matrix", "FWT": "fwt", "NBT": "nbt", "AUC": "auc"}
    names |= {f"{upper}_k": f"{lower}_k" for upper, lower in names.items() if upper.isupper()}
    checker = Checker(set(), False, LIBERO_TOLERANCE, LIBERO_TOLERANCE)
    for theirs, value in case["expected"].items():
        checker.compare(theirs, value, found[names[theirs]])
    return checker.count, checker.differences


class Checker:
    """Counts compared values and collects those that differ."""

    def __init__(
        self,
        skipped: set[str],
        agnostic: bool,
        relative: float = RELATIVE,
        absolute: float = ABSOLUTE,
    ) -> None:
        self.count = 0
        self.differences: list[str] = []
        self._skipped = skipped
        self._agnostic = agnostic
        self._relative, self._absolute = relative, absolute

    def compare(self, path: str, wanted: Any, found: Any) -> None:
        if path in self._skipped:
            return
        if isinstance(wanted, dict):
            if not isinstance(found, dict) or set(wanted) != set(found):
                self.differences.append(f"{path}: keys {sorted(wanted)} != {found!r:.200}")
                return
            for key, value in wanted.items():
                self.compare(f"{path}.{key}", value, found[key])
        elif isinstance(wanted, list):
            if not isinstance(found, list) or len(wanted) != len(found):
                self.differences.append(f"{path}: {wanted!r:.200} != {found!r:.200}")
                return
            if self._agnostic and path.rsplit(".", 1)[-1] in UNORDERED:
                wanted, found = sorted(wanted), sorted(found)
            for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
                self.compare(f"{path}[{index}]", one, other)
        else:
            self.count += 1
            if not self._equal(wanted, found):
                self.differences.append(f"{path}: expected {wanted!r}, found {found!r}")

    def _equal(self, wanted: Any, found: Any) -> bool:
        if isinstance(wanted, float) and isinstance(found, float | int):
            return math.isclose(wanted, found, rel_tol=self._relative, abs_tol=self._absolute)
        return bool(wanted == found)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.stderr.write("usage: python -m tests.golden DIR (the folder with the golden data)\n")
        return 2
    folder = Path(arguments[0])
    total = bad = sets = 0

    def note(name: str, outcome: tuple[int, list[str]]) -> None:
        nonlocal total, bad, sets
        count, differences = outcome
        sets, total, bad = sets + 1, total + count, bad + len(differences)
        for text in differences[:5]:
            sys.stdout.write(f"{name}: {text}\n")

    libero = folder / "libero_metrics.json"
    if libero.is_file():
        data = json.loads(libero.read_text())
        for case in [data["worked_example"], *data["cases"]]:
            note(f"libero {case['name']}", libero_differences(case))
    for scenario, settings in l2_cases(folder / "l2metrics"):
        note(f"{scenario} {settings}", l2_differences(folder / "l2metrics", scenario, settings))
    sys.stdout.write(f"{sets} result sets, {total} values compared, {bad} differ\n")
    if not sets:
        sys.stderr.write(f"no golden data found in {folder}\n")
    return 1 if bad or not sets else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
