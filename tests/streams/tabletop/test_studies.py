"""The small studies and the tensor's benchmark: what they run, and what they make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clframe.config.compose import compose


@pytest.fixture
def studies(load_benchmark: Any) -> Any:
    return load_benchmark("studies")


def results(final: list[float], curves: list[list[float]], losses: Any) -> dict[str, Any]:
    names = [f"task_{i}" for i in range(len(final))]
    return {
        "matrix": {"rows": ["before", *names], "columns": names, "values": [final] * 3},
        "curves": {n: {n: curve} for n, curve in zip(names, curves, strict=True)},
        "metrics": {
            "libero": {"fwt": 0.5, "nbt": 0.25, "auc": 0.75},
            "validation": {"losses": losses, "final": 0.1},
        },
        "timing": {"train_seconds": 10.0, "eval_seconds": 20.0},
        "source": "made up",
    }


def test_every_study_composes(studies: Any, tmp_path: Path) -> None:
    for name, study in studies.STUDIES.items():
        for cell, settings in study.cells(tmp_path, 0).items():
            config = compose(settings)
            assert cell.startswith(name.partition("_")[0]), cell
            assert config.stream["goal_seed"] == 3
    first, *rest = studies.STUDIES["pretraining"].cells(tmp_path, 4).items()
    assert first[0] == studies.PRETRAINED
    assert compose(first[1]).stream["tasks"] == list(range(0, 90, 9))
    weights = [compose(settings).pretrain for _, settings in rest]
    assert weights == [None, str(tmp_path.resolve() / studies.PRETRAINED / "s4")] * 2


@pytest.mark.parametrize("name", ["paper_orders", "paper_pretraining", "paper_policies"])
def test_the_papers_size_composes(name: str) -> None:
    config = compose([f"experiment=tabletop_studies/{name}"])
    assert config.stream["horizon"] == 600
    assert config.stream["num_demos"] == 50
    assert config.trainer["max_epochs"] == 50


def test_tables_and_page(studies: Any) -> None:
    curves, losses = [[0.0, 0.4, 0.9], [0.1, 0.1, 0.1]], [[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]]
    run = studies.measure(results([0.5, 1.0], curves, losses))
    loss = {"loss_naive": {"0": run}}
    table = studies.loss_table(loss)
    assert "| task 0 | 0 | -1.00 | 0.90 | 0.90 |" in table
    assert "| task 1 | 0 | - | 0.10 | 0.10 |" in table
    orders = {"orders_er-default": {"0": run, "1": run}}
    line = "| er, default | 2 | 0.50 ± 0.00 | 0.25 ± 0.00 | 0.75 ± 0.00 | 0.75 ± 0.00 | 30 |"
    assert line in studies.metric_table(orders)
    text = studies.page({"orders": orders, "loss_vs_success": loss}, "x")
    assert "![Task orders (LIBERO, Figure 4)](x_orders.png)" in text
    for figure in (studies.figures.bars(orders), studies.figures.loss_against_success(loss)):
        assert len(figure.axes) in (2, 4)


def test_the_page_of_the_tensor(load_benchmark: Any, tmp_path: Path) -> None:
    bench = load_benchmark("tensor")
    robustness = {"learned": 0.8, "final": 0.6, "skill_left": 0.5, "robust_left": 0.25}
    axis = {"learned": 0.8, "final": None, "left": 0.25}
    made = {
        "matrix": {"rows": ["before", "a"], "columns": ["a"], "values": [[0.0], [1.0]]},
        "tensor": {"axes": ["start"], "levels": [0.5], "values": [[[[0.0]]], [[[0.5]]]]},
        "metrics": {"robustness": {**robustness, "lead": 0.25, "axes": {"start": axis}}},
        "timing": {"train_seconds": 10.0, "eval_seconds": 20.0},
        "source": "made up",
    }
    found = {"tensor_naive": {"0": bench.measure(made)}}
    assert "| naive | 1 | 0.80 | 0.60 | 0.50 | 0.25 | 0.25 |" in bench.table(found)
    page = bench.page(found, "python made.py", "made.json")
    assert "- `start`: the hand starts 12 cm away" in page
    assert "(made_naive.png)" in page
    bench.draw(found, tmp_path / "made.md")
    assert (tmp_path / "made_naive.png").read_bytes().startswith(b"\x89PNG")
