"""The profile `paper`: values worked out by hand, and right where the reference program is not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clframe.errors import DataError, SettingError
from clframe.metrics import l2
from clframe.metrics.l2.preprocess import smooth
from clframe.metrics.l2.regime_metrics import theil_sen
from tests.helpers.l2_logs import table

DATA = Path(__file__).parents[1] / "data" / "l2metrics"
RAW: dict[str, Any] = {
    "normalization_method": "none",
    "smoothing_method": "none",
    "clamp_outliers": False,
}
HAND = DATA / "g01_hand_2task"


def hand() -> l2.L2Result:
    experts = [HAND / "ste_a_1_run1.tsv", HAND / "ste_b_1_run1.tsv"]
    return l2.evaluate(HAND / "lifetime.tsv", experts, **RAW)


def test_maintenance_is_the_mean_of_all_values() -> None:
    # a: -2, -3, -3; b: -7, -3.
    result = hand()
    assert result.lifetime["perf_maintenance_mrlep"] == pytest.approx(-3.6)
    assert result.tasks["a_1"]["perf_maintenance_mrlep"] == pytest.approx(-8 / 3)


def test_backward_transfer_to_a_task_is_the_average_of_its_contrasts() -> None:
    result = hand()
    average = (-2 / 18 - 3 / 27 - 3 / 35) / 3
    assert result.tasks["a_1"]["backward_transfer_contrast_avg"] == pytest.approx(average)
    assert result.lifetime["backward_transfer_contrast"] == pytest.approx((-2 / 18 - 7 / 91) / 2)
    assert result.lifetime["forward_transfer_contrast"] == pytest.approx(0.2)
    assert result.lifetime["forward_transfer_ratio"] == pytest.approx(1.5)


def test_recovery_is_a_slope_over_learning_blocks_of_the_lifetime() -> None:
    # a recovers in 3 and 0 experiences at learning blocks 2 and 4, b in 2 and 4 at 3 and 5.
    result = hand()
    assert result.tasks["a_1"]["perf_recovery"] == pytest.approx(1.5)
    assert result.tasks["b_1"]["perf_recovery"] == pytest.approx(-1.0)
    assert result.lifetime["perf_recovery"] == pytest.approx(0.25)


def test_relative_performance_by_hand() -> None:
    result = hand()
    assert result.tasks["a_1"]["ste_rel_perf"] == pytest.approx(157 / 136)
    assert result.tasks["b_1"]["ste_rel_perf"] == pytest.approx(1041 / 1020)


def test_every_metric_of_the_paper_is_there() -> None:
    result = hand()
    missing = [name for name, value in result.lifetime.items() if value is None]
    assert missing == []


def test_droop_recovery_rate_gain_and_burn_by_hand() -> None:
    # Terminal performance of the first block is 9; the second starts at 3 and is back after 3.
    log = table(
        [
            ("train", "a", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ("train", "a", [3, 5, 7, 9, 9, 9, 9, 9, 9, 9]),
        ]
    )
    result = l2.evaluate(log, **RAW)
    task = result.tasks["a"]
    assert task["recovery_times"] == [3.0]
    assert task["droop_vals"] == [6.0]
    assert task["recovery_rate"] == pytest.approx(2.0)
    y = np.array([*range(10), 3, 5, 7, 9, 9, 9, 9, 9, 9, 9], dtype=float)
    rate = np.polyfit(np.arange(20), y, 1)[0]
    assert task["cumulative_gain"] == pytest.approx(rate * 19)
    assert task["burn_rates"] == [pytest.approx(2.0)]  # 3, 5, 7, 9 until it saturates
    assert task["learn_burn"] == pytest.approx(2.0 / rate)


def test_a_task_that_never_recovers() -> None:
    log = table([("train", "a", [9] * 10), ("train", "a", [1, 2, 3, 4])])
    task = l2.evaluate(log, **RAW).tasks["a"]
    assert task["recovery_times"] == [4.0]
    assert task["droop"] == 8.0
    assert task["recovery_rate"] == 0.0
    reference = l2.evaluate(log, profile="reference", **RAW).tasks["a"]
    assert reference["recovery_times"] == []  # fewer than two in the whole lifetime


def test_a_flat_lifetime_has_no_learn_burn() -> None:
    log = table([("train", "a", [5] * 6), ("train", "a", [5] * 6)])
    task = l2.evaluate(log, **RAW).tasks["a"]
    assert task["cumulative_gain"] == pytest.approx(0.0)
    assert task["learn_burn"] is None
    assert task["droop"] == 0.0
    assert task["recovery_rate"] is None


def test_changed_parameters_start_a_regime() -> None:
    log = table(
        [
            ("train", "a", [1, 2, 3], {"params": '{"light": 1}', "block": 0}),
            ("train", "a", [1, 1, 3], {"params": '{"light":2}', "block": 0}),
            ("train", "a", [3, 3, 3], {"params": '{"light": 2}', "block": 0}),
        ]
    )
    result = l2.evaluate(log, **RAW)
    assert [row["length"] for row in result.regimes] == [3, 6]
    assert result.tasks["a"]["recovery_times"] == [2.0]
    assert len(l2.evaluate(log, profile="reference", **RAW).regimes) == 1


def test_evaluations_that_alternate_row_by_row_are_one_regime_per_task() -> None:
    rows = [("test", "ab"[i % 2], [float(i)], {"block": 0}) for i in range(6)]
    result = l2.evaluate(table(rows), **RAW)
    assert [(row["task_name"], row["term_perf"]) for row in result.regimes] == [("a", 2), ("b", 3)]
    assert len(l2.evaluate(table(rows), profile="reference", **RAW).regimes) == 6


def test_own_training_is_not_transfer() -> None:
    log = table(
        [
            ("test", "a", [1.0]),
            ("train", "a", [2.0]),
            ("train", "b", [2.0]),
            ("test", "a", [4.0]),
        ]
    )
    result = l2.evaluate(log, **RAW)
    assert result.lifetime["backward_transfer_ratio"] is None
    assert any("itself learned" in note for note in result.notes)
    reference = l2.evaluate(log, profile="reference", **RAW)
    assert reference.lifetime["backward_transfer_ratio"] == 4.0


def test_transfer_from_several_sources_counts_for_each() -> None:
    log = table(
        [
            ("test", "c", [1.0]),
            ("train", "a", [2.0]),
            ("train", "b", [2.0]),
            ("test", "c", [3.0]),
        ]
    )
    result = l2.evaluate(log, **RAW)
    assert result.tasks["a"]["forward_transfer_ratio"] == {"c": [3.0]}
    assert result.tasks["b"]["forward_transfer_ratio"] == {"c": [3.0]}
    assert any("joint" in note for note in result.notes)
    reference = l2.evaluate(log, profile="reference", **RAW)
    assert reference.tasks["a"]["forward_transfer_ratio"] == {}


def test_sleep_while_learning_does_not_hide_evaluations() -> None:
    log = table(
        [
            ("train", "a", [1.0, 2.0]),
            ("train", "a", [2.0], {"subtype": "sleep"}),
            ("test", "a", [2.0]),
        ]
    )
    assert l2.evaluate(log, **RAW).lifetime["avg_eval_perf"] == 2.0
    assert l2.evaluate(log, profile="reference", **RAW).lifetime["avg_eval_perf"] is None


@pytest.mark.parametrize("value", [0.5, 0.9, 1 / 3, -7.7])
def test_a_constant_task_is_constant_after_scaling(value: float) -> None:
    # A moving average over 0.5 is not exactly 0.5 everywhere; that is no range to scale by.
    same = [value]
    log = table([("train", "a", same * 70), ("test", "a", same * 5), ("test", "a", same * 5)])
    result = l2.evaluate(log, clamp_outliers=False)
    assert result.lifetime["avg_train_perf"] == 1.0
    assert result.lifetime["avg_eval_perf"] == 1.0
    assert result.lifetime["perf_maintenance_mrlep"] == 0.0


def test_saturation_counts_from_one_and_tolerates_rounding() -> None:
    log = table([("train", "a", [1.0] + [0.1 + 0.2] * 3 + [0.3, 1.0 + 1e-15])])
    result = l2.evaluate(log, **RAW)
    assert result.regimes[0]["exp_to_sat"] == 1
    assert l2.evaluate(log, profile="reference", **RAW).regimes[0]["exp_to_sat"] == 5


def test_scaling_and_clamping_by_hand() -> None:
    values = [float(v) for v in range(11)]
    result = l2.evaluate(table([("train", "a", values)]), smoothing_method="none")
    assert result.normalization_data_range == {"a": {"min": 1.0, "max": 9.0}}
    assert result.series[0].value.tolist()[:3] == pytest.approx([1.0, 1.0, 13.5])
    assert (result.min, result.max) == (1.0, 101.0)


def test_smoothing_is_centered_and_keeps_a_line() -> None:
    line = np.arange(50.0)
    for window in (3, 5, 7):
        inner = slice(window, -window)
        assert smooth(line, window=window)[inner] == pytest.approx(line[inner])
        assert smooth(line, window=window, lag=True)[inner] == pytest.approx(line[inner] - 1)
    # The project's published example of its own lag.
    lagging = smooth(np.arange(1.0, 11.0), window=3, lag=True)
    assert lagging.tolist() == pytest.approx([2, 5 / 3, 2, 3, 4, 5, 6, 7, 8, 9])
    assert smooth(line, window=2) is line
    assert smooth(line, "none") is line


def test_theil_sen_ignores_an_outlier() -> None:
    x = np.arange(9.0)
    y = 2 * x + 1
    y[4] = 1000
    assert theil_sen(x, y) == pytest.approx(2.0)
    assert theil_sen([1], [1]) is None


def test_agnostic_mode_does_not_confuse_task1_with_task10() -> None:
    lifetime = table([("train", "task1_a", [1.0, 2.0]), ("train", "task10_a", [4.0, 5.0])])
    expert = table([("train", "task10_b", [2.0, 2.5])])
    result = l2.evaluate(lifetime, [expert], variant_mode="agnostic", **RAW)
    assert result.tasks["task10"]["ste_rel_perf"] == pytest.approx(2.0)
    assert result.tasks["task1"]["ste_rel_perf"] is None


def test_several_lifetimes_share_a_range_and_have_an_interval() -> None:
    logs = [
        table([("train", "a", [0.0, peak / 2, peak]), ("test", "a", [peak])])
        for peak in (1.0, 2.0, 4.0)
    ]
    options: dict[str, Any] = {"smoothing_method": "none", "clamp_outliers": False}
    result = l2.evaluate_lifetimes(logs, **options)
    means = [r.lifetime["avg_eval_perf"] for r in result.lifetimes]
    assert means == pytest.approx([26.0, 51.0, 101.0])
    summary = result.summary["avg_eval_perf"]
    assert summary is not None
    assert summary.mean == pytest.approx(np.mean([26, 51, 101]))
    assert summary.standard_error == pytest.approx(np.std([26, 51, 101], ddof=1) / math.sqrt(3))
    assert summary.low is not None
    assert summary.high is not None
    assert summary.low < summary.mean < summary.high
    assert result.summary["ste_rel_perf"] is None
    alone = l2.evaluate_lifetimes(logs, shared_range=False, **options)
    assert [r.lifetime["avg_eval_perf"] for r in alone.lifetimes] == [101.0] * 3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"profile": "papers"}, "'paper' or 'reference'"),
        ({"smoothing": "flat"}, "did you mean 'smoothing_method'"),
        ({"smoothing_method": "round"}, "one of flat"),
        ({"window_length": 0}, "whole number"),
        ({"clamp_outliers": "yes"}, "true or false"),
        ({"perf_measure": "rewards"}, "did you mean 'reward'"),
        ({"data_range": {"b": {"min": 0, "max": 1}}}, "no entry for the task 'a'"),
        ({"data_range": {"a": {"min": 2, "max": 1}}}, "with a <= b"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], sentence: str) -> None:
    log = table([("train", "a", [1.0, 2.0])])
    with pytest.raises(SettingError, match=sentence):
        l2.evaluate(log, **settings)


def test_a_log_of_one_row_works() -> None:
    result = l2.evaluate(table([("train", "a", [1.0])]))
    assert result.lifetime["avg_train_perf"] == 1.0


def test_an_expert_must_train_one_task() -> None:
    log = table([("train", "a", [1.0])])
    with pytest.raises(DataError, match="2 tasks"):
        l2.evaluate(log, [table([("train", "a", [1.0]), ("train", "b", [1.0])])])
    with pytest.raises(DataError, match="no task"):
        l2.evaluate(log, [table([("test", "a", [1.0])])])


def test_sample_efficiency_is_zero_only_by_the_rules_of_the_reference() -> None:
    expert = table([("train", "a", [1.0, 5.0, 10.0, 10.0])])
    falling = table([("train", "a", [9.0, 10.0, 3.0, 2.0, 1.0])])
    low = table([("train", "a", [0.1, 0.5, 1.0, 1.0])])
    for log, value in ((falling, (10 / 10) * (3 / 2)), (low, (1 / 10) * (3 / 3))):
        task = l2.evaluate(log, [expert], **RAW).tasks["a"]
        assert task["sample_efficiency"] == pytest.approx(value)
        reference = l2.evaluate(log, [expert], "reference", **RAW).tasks["a"]
        assert reference["sample_efficiency"] == 0.0
        assert reference["se_saturation_vals"] == [pytest.approx(task["se_saturation_vals"][0])]


def test_parameters_do_not_split_an_evaluation() -> None:
    log = table(
        [
            ("train", "a", [1.0, 2.0]),
            ("test", "a", [2.0], {"params": '{"light": 1}', "block": 1}),
            ("test", "a", [4.0], {"params": '{"light": 2}', "block": 1}),
            ("test", "a", [5.0], {"block": 2}),
        ]
    )
    result = l2.evaluate(log, **RAW)
    assert [row["term_perf"] for row in result.regimes] == [2.0, 3.0, 5.0]
    assert result.lifetime["perf_maintenance_mrlep"] == pytest.approx(2.0)


def test_parallel_workers_share_a_block() -> None:
    log = table([("train", "a", [1.0, 2.0, 3.0, 4.0]), ("test", "a", [4.0])])
    log["worker_id"] = ["w0", "w1", "w1", "w0", "w0"]
    # Rows as two files in a row would give them: first worker w0, then w1.
    order = [0, 3, 4, 1, 2]
    shuffled = {name: [column[i] for i in order] for name, column in log.items()}
    assert l2.evaluate(shuffled, **RAW).tasks == l2.evaluate(log, **RAW).tasks
