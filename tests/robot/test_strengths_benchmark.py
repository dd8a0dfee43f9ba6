"""Strengths of regularisers on robots: chosen on one set of goals, what the experiments have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clframe.config.compose import compose
from clframe.config.read_overrides import catalog_of

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


@pytest.fixture
def bench(load_benchmark: Any) -> Any:
    return load_benchmark("strengths")


def cell(*final: float) -> dict[str, Any]:
    return {"10": {"columns": ["a", "b"], "final": list(final)}}


@pytest.mark.slow
def test_candidates_are_runs_of_the_experiments_on_goals_of_their_own(bench: Any) -> None:
    cells = bench.make_cells(bench.EXPERIMENTS, list(bench.STRENGTHS))
    for name, overrides in cells.items():
        config = compose(overrides)
        assert config.stream["goal_seed"] == bench.GOAL_SEED
        stream = next(stream for stream in bench.EXPERIMENTS if name.startswith(f"{stream}_"))
        # The experiments on images are on the same goals as those on states.
        learned = {"tabletop_images": "tabletop_goal"}.get(stream, stream)
        assert learned in config.stream["name"]
        label, _, strength = name.removeprefix(f"{stream}_").partition("_")
        if strength:
            method = "ewc" if label in bench.VARIANTS else label
            key = bench.STRENGTHS[method].rpartition(".")[2]
            assert config.strategy[method][key] == float(strength)
    assert compose(cells["cw10_floor_100"]).strategy["ewc"]["floor"] == 1e-5
    tried = [values for methods in bench.CANDIDATES.values() for values in methods.values()]
    tried += [values for _, _, values in bench.VARIANTS.values()]
    assert len(cells) == len(bench.EXPERIMENTS) + sum(map(len, tried))


def test_the_best_candidate_is_in_bold_and_of_equals_the_middle_one(bench: Any) -> None:
    found = {
        "cw10_naive": cell(0.0, 0.5),
        "cw10_ewc_1000": cell(1.0, 0.5),
        "cw10_ewc_300": cell(0.5, 1.0),
        "cw10_ewc_3000": cell(0.75, 0.75),
        "cw10_ewc_100": cell(0.5, 0.5),
        "cw10_si_0.1": cell(0.0, 0.0),
    }
    text = bench.page(found, "python made.py", "made.json")
    assert "| cw10 | naive | 0.25 |" in text
    assert "| cw10 | ewc | 100: 0.50, 300: 0.75, **1000: 0.75**, 3000: 0.75 |" in text
    assert "| cw10 | si | **0.1: 0.00** |" in text
    assert "| mas |" not in text
    assert "`python made.py`" in text
    measured = bench.measure(
        {
            "matrix": {"columns": ["a"], "values": [[0.0], [0.4]]},
            "timing": {"train_seconds": 1.23, "eval_seconds": 4.56},
            "source": "made up",
        }
    )
    assert (measured["final"], measured["train_seconds"]) == ([0.4], 1.2)


def test_experiments_have_the_strengths_that_were_chosen(bench: Any) -> None:
    found = json.loads((RESULTS / "strengths.json").read_text())
    for stream, (begin, _) in bench.EXPERIMENTS.items():
        for method, setting in bench.STRENGTHS.items():
            tried = bench.candidates(found, stream, method)
            if not tried:  # a strength that was not chosen by trials, which the experiment says
                assert method != "ewc"
                continue
            chosen = compose([f"experiment={begin}{method}"]).strategy[method]
            assert chosen[setting.rpartition(".")[2]] == bench.best(tried)


@pytest.fixture
def point(load_benchmark: Any) -> Any:
    return load_benchmark("point_robot")


def test_the_page_of_the_point_robot(point: Any) -> None:
    results = {
        "matrix": {
            "rows": ["before", "a", "b"],
            "columns": ["a", "b"],
            "values": [[0.0, 0.0], [0.8, 0.0], [0.2, 1.0]],
        },
        "timing": {"train_seconds": 3.0, "eval_seconds": 1.0},
        "source": "made up",
    }
    better = json.loads(json.dumps(results))
    better["matrix"]["values"][-1] = [0.6, 1.0]
    found = {"point_ewc": {"0": point.measure(results), "1": point.measure(better)}}
    text = point.page(found, "python made.py", "made.json")
    assert "| ewc | 0.60, 0.80 | 0.70 ± 0.10 | 0.90 ± 0.00 |" in text
    assert "| naive |" not in text


def test_every_row_of_the_point_robot_is_an_experiment(point: Any) -> None:
    names = {name for name in catalog_of().groups["experiment"] if name.startswith("point_robot/")}
    assert names == {f"point_robot/{name.removesuffix('_shared')}" for name in point.METHODS}
    naive = compose(["experiment=point_robot/naive"])
    for name in names:
        config = compose([f"experiment={name}"])
        for group in ("stream", "trainer", "model", "optimizer"):
            assert getattr(config, group) == getattr(naive, group)
    assert naive.model["heads"] == "task"
