"""The parts of the Continual World benchmark that compute."""

from __future__ import annotations

from typing import Any

import pytest

from clframe.config.compose import compose
from clframe.config.read_overrides import catalog_of
from clframe.streams.metaworld.stream import CW10


@pytest.fixture
def bench(load_benchmark: Any) -> Any:
    return load_benchmark("continual_world")


def results(values: list[list[float]], curves: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    columns = [f"t{i}" for i in range(len(values[0]))]
    return {
        "matrix": {"rows": ["before", *curves], "columns": columns, "values": values},
        "curves": curves,
        "timing": {"train_seconds": 60.0, "eval_seconds": 30.0},
        "source": "made up",
    }


def test_a_run_is_judged_against_the_mean_of_the_single_task_runs(bench: Any) -> None:
    curves = {"t0": {"t0": [0.0, 1.0]}, "t1": {"t1": [0.5, 0.9]}, "t0 (2)": {"t0": [0.2, 0.8]}}
    run = results([[0.0, 0.0], [1.0, 0.5], [0.2, 0.9], [0.8, 0.4]], curves)
    alone = {
        f"single_t{i}": {
            seed: bench.measure(results([[0.0], [1.0]], {f"t{i}": {f"t{i}": [low, 1.0]}}))
            for seed, low in (("0", 0.2), ("7", 0.0))
        }
        for i in range(2)
    }
    runs = {"cw20_naive": {"0": bench.measure(run)}, **alone}
    judged = bench.judge(runs["cw20_naive"]["0"], bench.references(runs), joint=False)
    assert judged["performance"] == pytest.approx(0.6)
    assert judged["forgetting_i"] == pytest.approx([0.2, 0.5, 0.0])
    assert judged["forward_transfer_i"] == pytest.approx([-1 / 9, 1 / 3, -1 / 9])
    text = bench.table(runs)
    assert "| CW20 | naive | 1 | 0.60 | 0.23 | 0.04 | 0.05 | 0.73 | 0.20 |" in text


def test_without_references_transfer_is_not_reported(bench: Any) -> None:
    run = bench.measure(results([[0.0], [1.0]], {"t0": {"t0": [0.0, 1.0]}}))
    text = bench.table({"cw10_ewc": {"0": run, "1": run}})
    assert "| CW10 | ewc | 2 | 1.00 ± 0.00 | 0.00 ± 0.00 | - |" in text


def test_a_run_without_curves_counts_for_the_other_metrics(bench: Any) -> None:
    curves = {"t0": {"t0": [0.0, 1.0]}, "t0 (2)": {"t0": [0.5, 0.5]}}
    whole = results([[0.0], [1.0], [0.5]], curves)
    alone = bench.measure(results([[0.0], [1.0]], {"t0": {"t0": [0.0, 0.5]}}))
    bare = {**whole, "curves": {}}
    runs = {"0": bench.measure(whole), "1": bench.measure(bare)}
    assert runs["1"]["rows"] == ["t0", "t0"]
    text = bench.table({"cw10_naive": runs, "single_t0": {"0": alone}})
    assert "| 0.50 ± 0.00 | 0.25 ± 0.00 | 0.33 (1 of 2 seeds) |" in text


def test_the_page_tells_each_task_before_and_after(bench: Any) -> None:
    first, last = [0.0] * 10, [0.5] * 10
    run = results([[0.0] * 10, *([first, last][i == 9] for i in range(10))], {})
    run["matrix"]["columns"] = list(CW10)
    run["matrix"]["rows"] = ["before", *CW10]
    run["curves"] = {task: {task: [0.0, 1.0]} for task in CW10}
    for place in range(9):
        run["matrix"]["values"][place + 1] = [1.0 if i == place else None for i in range(10)]
    alone = bench.measure(results([[0.0], [0.9]], {"hammer": {"hammer": [0.0, 0.9]}}))
    runs = {
        "cw10_naive": {"0": bench.measure(run)},
        "cw10_multitask": {"0": bench.measure(run)},
        "single_hammer": {"0": alone},
    }
    text = bench.page(runs, "python made.py", "made.json")
    assert "| task | CW10 naive | CW10 multitask | alone |" in text
    assert "| hammer | 1.00 → 0.50 | 0.50 | 0.90 |" in text
    assert "| peg-unplug-side | 0.50 → 0.50 | 0.50 | - |" in text
    assert "`python made.py`" in text
    assert "single-task runs (0 seeds)" in text
    assert "| CW10 | multitask | 1 | 0.50 | - | - | 0.51 | - | - |" in text


@pytest.mark.slow
def test_every_cell_is_an_experiment(bench: Any) -> None:
    experiments = catalog_of().groups["experiment"]
    names = {name for name in experiments if name.startswith("continual_world/")}
    assert names == {
        f"continual_world/{method.removesuffix('_shared')}" for method in bench.METHODS
    }
    cells = bench.make_cells(bench.METHODS, bench.STREAMS, CW10)
    runs = {name: compose(overrides) for name, overrides in cells.items()}
    for name, config in runs.items():  # forward transfer compares runs of equal length
        stream, _, method = name.partition("_")
        single = stream == "single"
        assert config.stream["name"] == f"metaworld_{'cw10' if single else stream}"
        shared = method.endswith("_shared")
        assert config.strategy_name == ("naive" if single else method.removesuffix("_shared"))
        assert config.model["heads"] == ("shared" if shared else "task")
        # A shared head must be told the task; the network is the same otherwise.
        assert config.stream["task_input"] == ("one_hot" if shared else "none")
        assert {**config.model, "heads": "task"} == runs["cw10_naive"].model
        same = config.trainer == runs["cw10_naive"].trainer
        assert same == (method != "multitask")  # which has no such curves
    assert runs["single_push-wall"].stream["tasks"] == ["push-wall"]
    assert runs["single_push-wall"].evaluation["check_val_every_n_epoch"] is not None
