"""Continual World's metrics on numbers worked by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from clframe.errors import PluginError, SettingError
from clframe.metrics import continual_world
from clframe.metrics.continual_world_metrics import area_under, forward_transfer
from clframe.plugins.continual_world import single_task_curves


def test_three_tasks_by_hand() -> None:
    # p_1: 1.0 when learned, 0.4 at the end. p_2: 0.6, 0.8. p_3: 0.9, 0.9.
    R = [[1.0, 0.1, 0.0], [0.7, 0.6, 0.2], [0.4, 0.8, 0.9]]
    curves = [[0.0, 0.5, 1.0], [0.1, 0.5, 0.6], [0.2, 0.8, 0.9]]
    reference = [[0.0, 0.5, 1.0], [0.0, 0.2, 0.6], [0.0, 0.8, 1.0]]
    result = continual_world(R, curves=curves, reference=reference)
    assert result["performance"] == pytest.approx((0.4 + 0.8 + 0.9) / 3)
    assert result["forgetting_i"] == pytest.approx([0.6, -0.2, 0.0])
    assert result["forgetting"] == pytest.approx(0.4 / 3)
    # Areas: 0.5, 0.425, 0.675; of the references: 0.5, 0.25, 0.65.
    assert result["area_i"] == pytest.approx([0.5, 0.425, 0.675])
    gains = [0.0, 0.175 / 0.75, 0.025 / 0.35]
    assert result["forward_transfer_i"] == pytest.approx(gains)
    assert result["forward_transfer"] == pytest.approx(sum(gains) / 3)


def test_a_task_that_comes_back_counts_by_interval() -> None:
    R = [[1.0, 0.0], [0.2, 0.8], [0.9, 0.5], [0.3, 0.7]]
    result = continual_world(R, [[0], [1], [0], [1]])
    assert result["performance"] == pytest.approx(0.5)
    assert result["forgetting_i"] == pytest.approx([0.7, 0.1, 0.6, 0.0])
    assert result["forward_transfer"] is None


def test_held_out_tasks_count_for_nothing() -> None:
    assert continual_world([[0.5, 1.0]])["performance"] == pytest.approx(0.5)


def test_what_cannot_be_told_is_none() -> None:
    assert forward_transfer(1.0, 1.0) is None
    curve = [0.0, 1.0]
    one = continual_world([[1.0, 0.0], [1.0, 1.0]], curves=[curve, curve], reference=[curve, None])
    assert one["forward_transfer"] is None
    assert one["forward_transfer_i"] == [0.0, None]
    perfect = continual_world(
        [[1.0, 0.0], [1.0, 1.0]], curves=[curve, curve], reference=[curve, [1.0, 1.0]]
    )
    assert perfect["forward_transfer"] == 0.0
    assert continual_world([[math.nan]])["performance"] is None


def test_where_nothing_is_learned_the_curve_is_one_value() -> None:
    assert area_under([0.4]) == 0.4


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(SettingError, match="list of at least one value"):
        area_under([])
    with pytest.raises(SettingError, match="curves has 1 rows, but the matrix has 2"):
        continual_world([[1.0, 0.0], [1.0, 1.0]], curves=[[0.0, 1.0]])
    with pytest.raises(SettingError, match=r"\[row, task\]"):
        continual_world([1.0])


def test_a_reference_that_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"is not a run of one task .*: .* holds no finished run"):
        single_task_curves(tmp_path / "nowhere")
