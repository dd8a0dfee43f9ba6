"""Names, directions and ranges: the catalog, the functions and the documentation agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe.metrics as metrics
from clframe.core.registry import discover
from clframe.metrics.catalog import CATALOG, FAMILIES
from scripts import make_metrics_page

ROOT = Path(__file__).parents[2]


def scalars(family: str, values: dict[str, Any]) -> set[str]:
    return {f"{family}.{name}" for name, value in values.items() if not isinstance(value, list)}


def measured_families() -> dict[str, dict[str, Any]]:
    """The families of what evaluators measure, for some values."""
    keys: dict[str, list[str]] = {}
    for name in CATALOG:
        keys.setdefault(name.split(".")[0], []).append(name.split(".")[1])
    found: dict[str, dict[str, Any]] = {
        family: getattr(metrics, family)({key: [0.5, 0.75] for key in keys[family]})
        for family in ("plasticity", "predictions", "cost")
    }
    curves = [{"a": [0.5, 1.0]}, {"a": [0.2, 0.8], "b": [0.0, 1.0]}]
    found["continual"] = metrics.continual([[1, 2], [3, 4]], curves)
    found["online"] = metrics.online([3, 4], [5, 6])
    found["classes"] = metrics.classes(["a", "b"], [3, 4], [5, 6])
    assert found["classes"].pop("worst_class") == "a"  # a word
    return found


def test_the_catalog_lists_exactly_what_the_functions_return() -> None:
    result: set[str] = set()
    for family, values in metrics.matrix_metrics(np.eye(3), np.zeros(3), np.ones(3)).items():
        result |= scalars(family, values)
    result |= scalars("libero", metrics.libero(np.zeros((2, 2, 3))))
    result |= scalars("continual_world", metrics.continual_world(np.eye(3)))
    robustness = metrics.robustness(np.eye(3), np.ones((3, 3, 2, 2)), ["light", "noise"])
    assert set(robustness.pop("axes")) == {"light", "noise"}  # one entry for each axis of the run
    result |= scalars("robustness", robustness)
    for family, values in measured_families().items():
        result |= scalars(family, values)
    log = ROOT / "tests" / "data" / "l2metrics" / "g01_hand_2task" / "lifetime.tsv"
    result |= scalars("l2", metrics.l2.evaluate(log, maintenance_method="both").lifetime)
    assert result == set(CATALOG)


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_the_documentation_gives_direction_and_range(name: str) -> None:
    rows = [
        line.split("|")
        for line in (ROOT / "docs" / "metrics.md").read_text().splitlines()
        if line.startswith("|") and f"`{name}`" in line.split("|")[1]
    ]
    assert len(rows) == 1
    info = CATALOG[name]
    assert info.formula
    assert info.meaning
    assert info.paper
    assert rows[0][2].strip() == info.formula
    assert rows[0][3].strip() == info.direction
    low = "" if info.low is None else f"{info.low:g}"
    high = "" if info.high is None else f"{info.high:g}"
    assert rows[0][4].strip() == ("any" if not low and not high else f"{low}..{high}")


def test_the_page_is_up_to_date() -> None:
    text = make_metrics_page.PAGE.read_text()
    assert make_metrics_page.page(text) == text, "run scripts/make_metrics_page.py"


def test_every_family_that_a_run_can_have_is_registered() -> None:
    registry = discover()
    named = {family.name for family in FAMILIES if family.arguments is not None}
    origins = {e.name: e.origin for e in registry.entries("metric")}
    assert {name for name, origin in origins.items() if origin == "clframe"} == named
    assert named == {name.split(".")[0] for name in CATALOG} - {"l2", "intransigence"}


def test_values_stay_in_their_range() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        matrix = generator.random((5, 5))
        result = metrics.matrix_metrics(matrix, generator.random(5), generator.random(5))
        result["libero"] = metrics.libero(generator.random((4, 4, 6)))
        curves = generator.random((2, 4, 6)).tolist()
        result["continual_world"] = metrics.continual_world(
            generator.random((4, 4)), curves=curves[0], reference=curves[1]
        )
        result |= measured_families()
        unbounded = result["continual_world"].pop("forward_transfer")
        assert unbounded <= 1
        for name, info in CATALOG.items():
            family, _, key = name.partition(".")
            if family == "robustness":  # ratios, which have no upper bound
                assert info.low == (0 if key != "lead" else None)
            elif family in ("plasticity", "cost"):
                assert info.low == 0
                assert result[family][key] >= 0
            elif family != "l2" and name != "continual_world.forward_transfer":
                assert info.low is not None
                assert info.high is not None
                assert info.low <= result[family][key] <= info.high


def test_importing_the_metrics_is_light() -> None:
    code = (
        "import sys, clframe; before = set(sys.modules); import clframe.metrics;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "assert not new & {'torch', 'matplotlib', 'pandas', 'scipy'}, new;"
        "assert 'clframe.metrics.l2' not in sys.modules;"
        "clframe.metrics.l2.evaluate; assert 'matplotlib' not in set(sys.modules) - before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bwt'"):
        _ = metrics.bwt
    assert "l2" in dir(metrics)
