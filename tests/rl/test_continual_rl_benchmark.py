"""The parts of the benchmark of continual learning by reward that compute."""

from __future__ import annotations

from typing import Any

import pytest

from clframe.config.compose import compose


@pytest.fixture
def bench(load_benchmark: Any) -> Any:
    return load_benchmark("continual_rl")


def made_up(columns: list[str], values: list[list[float | None]], curves: Any) -> dict[str, Any]:
    return {
        "columns": columns,
        "rows": columns,
        "values": values,
        "curves": curves,
        "train_seconds": 90.0,
        "eval_seconds": 30.0,
        "source": "made up",
    }


def test_the_table_is_judged_as_continual_world_is(bench: Any) -> None:
    tasks = bench.tasks()
    n = len(tasks)
    learned = [[1.0 if i == j else None for j in range(n)] for i in range(n)]
    learned[-1] = [0.25] * (n - 1) + [1.0]
    run = made_up(tasks, learned, [[0.0, 1.0]] * n)
    found = {"cw5_naive": {"0": run, "1": run}, "cw5_multitask": {"0": run}}
    found |= {f"single_{t}": {"0": made_up([t], [[0.5]], [[0.0, 0.5]])} for t in tasks}
    text = bench.table(found)
    # Curves have an area of 1/2, those of single tasks 1/4.
    assert (
        "| naive | 2 | 0.40 ± 0.00 | 0.60 ± 0.00 | 0.33 ± 0.00 | 0.05 | 0.73 | 0.20 | 2.0 |" in text
    )
    assert "| multitask | 1 | 0.40 | - | - | 0.51 | - | - | 2.0 |" in text
    page = bench.page(found, "python made.py", "made.json")
    assert f"| {tasks[0]} | 1.00 → 0.25 | 0.25 | 0.50 |" in page
    assert "(1 seed)" in page


def test_every_cell_is_an_experiment(bench: Any) -> None:
    cells = bench.make_cells(bench.METHODS, bench.tasks())
    for name, words in cells.items():
        config = compose(words)
        method = name.partition("_")[2] if name.startswith("cw5_") else "naive"
        assert config.strategy_name == method
        assert (config.evaluation["check_val_every_n_epoch"] is None) == (method == "multitask")
    assert compose(cells["single_reach"]).stream["tasks"] == ["reach"]
