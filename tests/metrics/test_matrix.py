"""Matrix metrics: values worked out by hand, identities, recurring tasks and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clframe.metrics as metrics
from clframe.errors import SettingError
from clframe.metrics.learned import Floats

R = [[0.9, 0.5, 0.2], [0.7, 0.8, 0.3], [0.6, 0.7, 1.0]]
NAN = math.nan


def squares(low: int = 2, high: int = 7) -> st.SearchStrategy[Floats]:
    cell = st.floats(0, 1)
    return st.integers(low, high).flatmap(
        lambda n: st.lists(st.lists(cell, min_size=n, max_size=n), min_size=n, max_size=n).map(
            np.array
        )
    )


def test_openloris_by_hand() -> None:
    result = metrics.openloris(R)
    assert result["accuracy"] == pytest.approx((0.9 + 0.7 + 0.8 + 0.6 + 0.7 + 1.0) / 6)
    assert result["bwt"] == pytest.approx((0.7 + 0.6 + 0.7) / 3)
    assert result["fwt"] == pytest.approx((0.5 + 0.2 + 0.3) / 3)
    assert result["overall"] == pytest.approx(np.mean(R))


@given(squares())
def test_openloris_overall_follows_from_accuracy_and_fwt(matrix: Floats) -> None:
    n = len(matrix)
    result = metrics.openloris(matrix)
    assert result["accuracy"] is not None
    assert result["fwt"] is not None
    expected = ((n + 1) * result["accuracy"] + (n - 1) * result["fwt"]) / (2 * n)
    assert result["overall"] == pytest.approx(expected)


def test_gem_by_hand() -> None:
    result = metrics.gem(R, [0.1, 0.2, 0.1])
    assert result["acc"] == pytest.approx((0.6 + 0.7 + 1.0) / 3)
    assert result["bwt"] == pytest.approx(((0.6 - 0.9) + (0.7 - 0.8)) / 2)
    assert result["fwt"] == pytest.approx(((0.5 - 0.2) + (0.3 - 0.1)) / 2)
    assert metrics.gem(R)["fwt"] is None


def test_forgetting_names_two_meanings() -> None:
    matrix = [[0.5, 0.1, 0.1], [0.8, 0.6, 0.1], [0.4, 0.5, 0.9]]
    result = metrics.forgetting(matrix)
    assert result["best_minus_last_k"] == [pytest.approx(0.4), pytest.approx(0.1), None]
    assert result["first_minus_last_k"] == [pytest.approx(0.1), pytest.approx(0.1), None]
    assert result["best_minus_last"] == pytest.approx(0.25)
    assert result["first_minus_last"] == pytest.approx(0.1)


@given(squares())
def test_first_minus_last_is_minus_gem_bwt_without_recurrence(matrix: Floats) -> None:
    bwt = metrics.gem(matrix)["bwt"]
    assert bwt is not None
    assert metrics.forgetting(matrix)["first_minus_last"] == pytest.approx(-bwt, abs=1e-12)


@given(squares())
def test_best_minus_last_is_never_below_first_minus_last(matrix: Floats) -> None:
    result = metrics.forgetting(matrix)
    assert result["best_minus_last"] >= result["first_minus_last"] - 1e-12


def test_learning_intransigence_stability_and_average() -> None:
    assert metrics.learning_accuracy(R)["learning_accuracy"] == pytest.approx(0.9)
    joint = metrics.intransigence(R, [0.9, 0.9, 0.9])
    assert joint["intransigence_k"] == [0.0, pytest.approx(0.1), pytest.approx(-0.1)]
    assert joint["intransigence"] == pytest.approx(0.0)
    assert metrics.intransigence(R)["intransigence"] is None
    result = metrics.stability_plasticity(R)
    assert result["stability"] == pytest.approx(0.65)
    assert result["plasticity"] == pytest.approx(0.9)
    assert result["tradeoff"] == pytest.approx(2 * 0.65 * 0.9 / 1.55)
    average = metrics.average_over_run(R)
    assert average["average_over_run_k"] == pytest.approx([0.9, 0.75, 2.3 / 3])
    assert average["average_over_run"] == pytest.approx((0.9 + 0.75 + 2.3 / 3) / 3)


def test_stability_and_plasticity_zero_gives_zero_tradeoff() -> None:
    assert metrics.stability_plasticity([[0.0, 0.0], [0.0, 0.0]])["tradeoff"] == 0.0


def test_one_task() -> None:
    result = metrics.matrix_metrics([[0.7]], b=[0.1], joint=[0.8])
    assert result["openloris"] == {"accuracy": 0.7, "bwt": None, "fwt": None, "overall": 0.7}
    assert result["gem"] == {"acc": 0.7, "bwt": None, "fwt": None}
    assert result["forgetting"]["best_minus_last"] is None
    assert result["stability_plasticity"]["tradeoff"] is None
    assert result["intransigence"]["intransigence"] == pytest.approx(0.1)


def test_unmeasured_cells_leave_only_what_needs_them_unknown() -> None:
    lower = [[0.9, NAN, NAN], [0.7, 0.8, NAN], [0.6, 0.7, 1.0]]
    result = metrics.openloris(lower)
    assert result["accuracy"] == pytest.approx(4.7 / 6)
    assert result["bwt"] == pytest.approx(2 / 3)
    assert result["fwt"] is None
    assert result["overall"] is None
    assert metrics.gem(lower, [0.1] * 3)["fwt"] is None
    assert metrics.forgetting(lower)["best_minus_last"] == pytest.approx(0.2)
    partly: list[list[float | None]] = [[0.9, None], [0.7, 0.8]]
    assert metrics.openloris(partly)["fwt"] is None


def test_recurring_tasks_use_the_column_of_each_row() -> None:
    # Order of learning a, b, a.
    matrix = [[0.6, 0.1], [0.3, 0.8], [0.9, 0.5]]
    order = [0, 1, 0]
    result = metrics.openloris(matrix, order)
    assert result["accuracy"] == pytest.approx((0.6 + 0.3 + 0.8 + 0.9 + 0.5) / 5)
    assert result["bwt"] == pytest.approx((0.3 + 0.5) / 2)
    assert result["fwt"] == pytest.approx(0.1)
    gem = metrics.gem(matrix, [0.0, 0.0], order)
    assert gem["acc"] == pytest.approx(0.7)
    assert gem["bwt"] == pytest.approx(0.5 - 0.8)  # a is learned in the final row
    assert gem["fwt"] == pytest.approx(0.1)
    assert metrics.forgetting(matrix, order)["best_minus_last_k"] == [None, pytest.approx(0.3)]
    learned = metrics.learning_accuracy(matrix, order)["learning_accuracy"]
    assert learned == pytest.approx((0.6 + 0.8 + 0.9) / 3)


def test_gem_bwt_compares_with_the_last_learning_of_a_recurring_task() -> None:
    matrix = [[0.5, 0.1], [0.9, 0.1], [0.7, 0.8]]
    assert metrics.gem(matrix, task_of_row=[0, 0, 1])["bwt"] == pytest.approx(0.7 - 0.9)
    forgetting = metrics.forgetting(matrix, [0, 0, 1])
    assert forgetting["first_minus_last"] == pytest.approx(0.5 - 0.7)
    assert forgetting["best_minus_last"] == pytest.approx(0.9 - 0.7)


def test_an_experience_may_hold_several_tasks() -> None:
    matrix = [[0.6, 0.5, 0.1], [0.4, 0.3, 0.9]]
    result = metrics.openloris(matrix, [(0, 1), 2])
    assert result["accuracy"] == pytest.approx((0.6 + 0.5 + 0.4 + 0.3 + 0.9) / 5)
    assert result["fwt"] == pytest.approx(0.1)


def test_fewer_rows_than_columns_is_a_run_that_stopped_early() -> None:
    result = metrics.gem([[0.9, 0.2, 0.1], [0.7, 0.8, 0.3]], [0.0, 0.0, 0.0])
    assert result["acc"] == pytest.approx(0.75)
    assert result["fwt"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([0.1, 0.2],), "two dimensions"),
        (([],), "two dimensions"),
        (([[0.1], [0.2, 0.3]],), "rectangular"),
        (([["a"]],), "rectangular"),
        (([[1.0], [1.0]],), "pass task_of_row"),
        (([[math.inf]],), "infinite at index [0, 0]"),
        (([[1.0, 1.0]], [0, 1]), "2 entries but there are 1 rows"),
        (([[1.0, 1.0]], [2]), "column from 0 to 1"),
        (([[1.0, 1.0]], [0.5]), "column from 0 to 1"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(arguments: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(SettingError) as caught:
        metrics.openloris(*arguments)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("b", [[0.1], [[0.1, 0.1, 0.1]], "abc", [0.1, math.inf, 0.1]])
def test_bad_untrained_row_is_refused(b: object) -> None:
    with pytest.raises(SettingError, match="untrained"):
        metrics.gem(R, b)  # type: ignore[arg-type]


def test_forgetting_is_negative_if_the_final_row_is_the_best() -> None:
    result = metrics.forgetting([[0.5, 0.1], [0.7, 0.9]])
    assert result["best_minus_last"] == pytest.approx(-0.2)
