"""Any well-formed lifetime evaluates, under both profiles, to valid JSON in the promised ranges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clframe.metrics import l2
from tests.helpers.l2_logs import table

pieces = st.lists(
    st.tuples(
        st.sampled_from(["train", "test"]),
        st.sampled_from(["a_1", "a_2", "b_1", "c"]),
        st.lists(st.sampled_from([0.0, 0.1, 0.5, -1.0, 1.0, 3.0]), min_size=1, max_size=25),
        st.fixed_dictionaries(
            {
                "params": st.sampled_from(["{}", '{"x": 1}']),
                "subtype": st.sampled_from(["wake", "wake", "sleep"]),
            }
        ),
    ),
    min_size=1,
    max_size=10,
)
options = st.fixed_dictionaries(
    {
        "variant_mode": st.sampled_from(["aware", "agnostic"]),
        "ste_averaging_method": st.sampled_from(["metrics", "time"]),
        "aggregation_method": st.sampled_from(["mean", "median"]),
        "maintenance_method": st.sampled_from(["mrlep", "mrtlp", "both"]),
        "transfer_method": st.sampled_from(["ratio", "contrast", "both"]),
        "normalization_method": st.sampled_from(["task", "run", "none"]),
        "smoothing_method": st.sampled_from(["flat", "hanning", "none"]),
        "window_length": st.sampled_from([None, 3, 4]),
        "clamp_outliers": st.booleans(),
    }
)


@pytest.mark.parametrize("profile", l2.PROFILES)
@settings(deadline=None, max_examples=80)
@given(log=pieces, chosen=options)
def test_any_lifetime_evaluates(profile: str, log: list[Any], chosen: dict[str, Any]) -> None:
    experts = [table([("train", "a_1", [0.0, 0.5, 1.0])]), table([("train", "b_1", [1.0] * 20)])]
    result = l2.evaluate(table(log), experts, profile, **chosen)
    json.dumps(result.as_dict(), allow_nan=False)
    assert sum(row["length"] for row in result.regimes) == sum(len(piece[2]) for piece in log)
    scaled = chosen["normalization_method"] != "none"
    for direction in ("forward", "backward"):
        contrast = result.lifetime.get(f"{direction}_transfer_contrast")
        assert contrast is None or not scaled or -1 <= contrast <= 1
    if scaled:
        assert 1 - 1e-9 <= result.min <= result.max <= 101 + 1e-9


@settings(deadline=None, max_examples=40)
@given(log=pieces)
def test_metrics_do_not_depend_on_the_scale_of_the_measure(log: list[Any]) -> None:
    moved = [(kind, task, [10 * v + 7 for v in values], o) for kind, task, values, o in log]
    one, other = l2.evaluate(table(log)).lifetime, l2.evaluate(table(moved)).lifetime
    for name, value in one.items():
        # What counts experiences may flip by rounding at a threshold; performance may not.
        if name in ("avg_train_perf", "avg_eval_perf", "perf_maintenance_mrlep"):
            assert other[name] == (None if value is None else pytest.approx(value, abs=1e-6))
