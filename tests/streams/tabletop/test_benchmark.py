"""The table of the tabletop benchmark, and the experiments it runs."""

from __future__ import annotations

from typing import Any

import pytest

from clframe.config.compose import compose
from clframe.config.read_overrides import catalog_of


@pytest.fixture
def bench(load_benchmark: Any) -> Any:
    return load_benchmark("tabletop")


def results(values: list[list[float | None]], curves: dict[str, Any], nbt: float) -> dict[str, Any]:
    libero = {"libero": {"fwt": 0.7, "nbt": nbt, "auc": 0.5, "fwt_k": [0.7]}} if curves else {}
    return {
        "matrix": {"rows": ["before", "a_b", "c"], "columns": ["a_b", "c"], "values": values},
        "curves": curves,
        "metrics": libero,
        "timing": {"train_seconds": 30.0, "eval_seconds": 90.0},
        "source": "made up",
        "environment": {"versions": {"mujoco": "1.2.3"}},
    }


def test_the_table_and_the_page(bench: Any) -> None:
    curves = {"a_b": {"a_b": [0.0, 1.0]}, "c": {"c": [0.2, 0.9]}}
    values: list[list[float | None]] = [[0.0, None], [1.0, None], [0.2, 0.9]]
    runs = {
        "goal5_naive": {
            "0": bench.measure(results(values, curves, 0.4)),
            "1": bench.measure(results(values, curves, 0.6)),
        },
        "goal5_multitask": {
            "0": bench.measure(results([[0.0, 0.0], [0.8, 1.0], [0.8, 1.0]], {}, 0.0))
        },
    }
    text = bench.table(runs)
    naive = "| naive | 2 | 0.70 ± 0.00 | 0.50 ± 0.10 | 0.50 ± 0.00 | 0.55 ± 0.00 | 2.0, 75% |"
    assert naive in text
    assert "| multitask | 1 | - | - | 0.90 | 0.90 | 2.0, 75% | - | - | 0.80 |" in text
    page = bench.page(runs, "python made.py", "made.json")
    assert "| a b | 1.00 → 0.20 | 0.80 |" in page
    assert "`python made.py`" in page
    assert runs["goal5_naive"]["0"]["mujoco"] == "1.2.3"


def test_every_cell_is_an_experiment_of_the_same_protocol(bench: Any) -> None:
    names = {name for name in catalog_of().groups["experiment"] if name.startswith("tabletop/")}
    methods = {
        "goal5": [method for method in bench.METHODS if not method.endswith("_shared")],
        "libero": ["naive", "ewc", "er", "packnet", "multitask"],
        "images": ["naive", "ewc", "er", "packnet", "multitask"],
    }
    cells = {f"tabletop/{kind}_{name}" for kind in methods for name in methods[kind]}
    assert names == {*cells, "tabletop/goal3_embeddings"}
    for kind, several in methods.items():
        naive = compose([f"experiment=tabletop/{kind}_naive"])
        assert naive.strategy_name == "best_checkpoint"
        assert naive.model.get("heads") == ("task" if kind == "goal5" else None)
        for method in several[:-1]:
            chosen = compose([f"experiment=tabletop/{kind}_{method}"])
            assert "best_checkpoint" in chosen.strategy
            for group in ("stream", "trainer", "model", "optimizer"):
                assert getattr(chosen, group) == getattr(naive, group)


def test_the_protocol_is_liberos() -> None:
    chosen = compose(["experiment=tabletop/libero_er", "stream=tabletop_long"])
    assert chosen.strategy_name == "replay+best_checkpoint"
    assert chosen.stream["name"] == "tabletop_long"
    assert (chosen.stream["eval_episodes"], chosen.stream["horizon"]) == (20, 600)
    assert chosen.trainer["max_epochs"] == 50
    assert chosen.evaluation == {"check_val_every_n_epoch": 5, "evaluate_tasks": "learned"}
    assert chosen.strategy["replay"]["per_class"] == 1000
