"""LIBERO's metrics: golden values of Eq. 3, the notebook's variant, and refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clframe.errors import SettingError
from clframe.metrics import libero
from tests.helpers import golden

DATA = Path(__file__).parents[1] / "data"
GOLDEN = json.loads((DATA / "l2metrics" / "libero_metrics.json").read_text())
CASES = [GOLDEN["worked_example"], *GOLDEN["cases"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_values(case: dict[str, Any]) -> None:
    count, differences = golden.libero_differences(case)
    assert differences == []
    assert count > 3


def test_the_golden_check_notices_a_wrong_value() -> None:
    case = json.loads(json.dumps(GOLDEN["worked_example"]))
    case["expected"]["NBT"] += 2e-9
    assert len(golden.libero_differences(case)[1]) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_values_above_the_diagonal_are_never_read(case: dict[str, Any]) -> None:
    c = np.array(case["c"])
    above = np.triu(np.ones(c.shape[:2], dtype=bool), 1)
    c[above] = math.nan
    assert libero(c)["auc"] == pytest.approx(case["expected"]["AUC"], abs=1e-12)


def test_the_earliest_of_equal_maxima_counts() -> None:
    c = [[[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]], [[0.9, 0.5, 0.1], [0.0, 1.0, 1.0]]]
    result = libero(c)
    assert result["e_star"] == [1, 1]
    assert result["matrix"][1][0] == 0.5


def test_notebook_takes_the_fresh_matrix() -> None:
    c = [[[0.0, 0.6], [0.9, 0.9]], [[0.5, 0.4], [0.0, 1.0]]]
    result = libero(c, variant="notebook", confusion=[[0.5, 0.9], [0.3, 0.8]])
    assert result["fwt"] == libero(c)["fwt"]
    assert result["nbt"] == pytest.approx((0.5 - 0.3) / 2)
    assert result["auc"] == pytest.approx(((0.3 + 0.3) / 2 + 0.5) / 2)


def test_one_task_has_no_nbt() -> None:
    result = libero([[[0.0, 0.5]]])
    assert (result["fwt"], result["nbt"], result["auc"]) == (0.25, None, 0.25)


def test_missing_measurements_give_none() -> None:
    c = np.array([[[0.0, 0.5], [0.0, 0.0]], [[math.nan, math.nan], [0.2, 0.4]]])
    result = libero(c)
    assert result["fwt"] == pytest.approx((0.25 + 0.3) / 2)
    assert result["nbt"] is None
    assert result["auc"] is None
    assert result["auc_k"] == [None, pytest.approx(0.3)]


def test_recurring_tasks() -> None:
    c = np.zeros((3, 2, 2))
    c[0, 0], c[1, 1], c[2, 0] = [0.2, 0.8], [0.0, 0.6], [0.1, 0.9]
    c[1, 0], c[2, 1] = [0.7, 0.5], [0.6, 0.3]
    result = libero(c, task_of_row=[0, 1, 0])
    # Task 0: only row 1 is a later task; task 1: row 2 is.
    assert result["nbt_k"] == [pytest.approx(0.3), pytest.approx(0.3)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"c": [[0.1]]}, "three dimensions"),
        ({"c": [[["x"]]]}, "must be numbers"),
        ({"c": [[[math.inf]]]}, "finite"),
        ({"c": [[[0.1]]], "variant": "book"}, "one of paper, notebook"),
        ({"c": [[[0.1]]], "variant": "notebook"}, "needs confusion"),
        ({"c": [[[0.1]]], "variant": "notebook", "confusion": [0.1]}, "shape"),
        ({"c": [[[0.1]]], "confusion": [[0.1]]}, "only used"),
        ({"c": [[[0.1]], [[0.1]]]}, "pass task_of_row"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        libero(**arguments)
