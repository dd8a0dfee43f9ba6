"""What pages are made of: intervals, falls, curves, styles and files of figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clframe.core.matrix import AccuracyMatrix
from clframe.metrics.libero_metrics import libero
from clframe.report.charts import Line, seen_so_far
from clframe.report.comparison_page import comparison_page
from clframe.report.diagnostics import hardly_learned, largest_drops
from clframe.report.figure_specs import Drawing, save_drawings
from clframe.report.figures import matrix_heatmap
from clframe.report.intervals import cell_intervals, final_interval
from clframe.report.run_settings import fit_command
from clframe.report.styles import styles_of
from clframe.report.success import methods_figure, success_curves, success_figure
from clframe.runs.reader import read_run
from clframe.utils.statistics import wilson

MakeRun = Callable[..., Path]


def _matrix(values: list[list[float | None]]) -> AccuracyMatrix:
    rows = ["before", *(f"exp{i}" for i in range(len(values) - 1))]
    columns = [f"task{j}" for j in range(len(values[0]))]
    return AccuracyMatrix.from_json({"rows": rows, "columns": columns, "values": values})


def test_falls_and_tasks_that_were_hardly_learned() -> None:
    matrix = _matrix([[0.1, 0.5, 0.2], [0.9, 0.5, 0.2], [0.3, 0.52, None], [0.26, 0.51, 0.24]])
    (drop,) = largest_drops(matrix)
    assert (drop.task, drop.while_learning, drop.before, drop.after) == ("task0", "exp1", 0.9, 0.3)
    assert hardly_learned(matrix) == ["task1", "task2"]


@pytest.mark.parametrize(("share", "n"), [(0.9, 10), (0.5, 200), (0.0, 7), (1.0, 30)])
def test_wilsons_ends_are_where_the_score_test_turns(share: float, n: int) -> None:
    z = 1.959963984540054
    low, high = wilson(share, n)
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(z * math.sqrt(end * (1 - end) / n), rel=1e-6)


def test_intervals_of_a_run_need_the_number_of_samples(make_run: MakeRun) -> None:
    def edit(content: dict[str, Any]) -> None:
        content["measured"] = {"evaluation": {"samples": dict.fromkeys(tasks, 100)}}
        content["matrix"]["values"][-1] = [0.5, 0.6, 0.7]

    tasks = ("task0", "task1", "task2")
    assert final_interval(read_run(make_run("none")).result) == ""
    result = read_run(make_run("known", edit)).result
    low, high = wilson(0.6, 300)
    assert final_interval(result) == f"95 % of 300 samples: [{low:.3f}, {high:.3f}]"
    low, high = wilson(0.5, 100)
    last = len(result.matrix.rows) - 1
    assert cell_intervals(result)[last, 0] == f"[{low:.3f}, {high:.3f}]"
    result.matrix.measure = "reward"
    assert final_interval(result) == "", "a reward is no share of samples"


def test_success_curves_are_what_the_metrics_take(make_run: MakeRun) -> None:
    curves = {
        "exp0": {"task0": [0.0, 0.6, 0.4]},
        "exp1": {"task1": [0.1, 0.2, 0.9], "task0": [0.5, 0.4, 0.3]},
        "exp2": {"task2": [0.0, 1.0, 1.0]},
    }
    result = read_run(make_run(edit=lambda content: content.update(curves=curves))).result
    found = success_curves(result)
    c = [[[result.matrix.learned[i, j]] * 3 for j in range(3)] for i in range(3)]
    for i, tasks in enumerate(curves.values()):
        for task, values in tasks.items():
            c[i][int(task[-1])] = values
    expected = libero(c)
    assert [curve.fwt for curve in found] == pytest.approx(expected["fwt_k"])
    assert [curve.nbt for curve in found[:2]] == pytest.approx(expected["nbt_k"][:2])
    assert found[2].nbt is None
    panels = success_figure(found).axes
    assert [panel.get_title(loc="left").split("\n")[0] for panel in panels] == [
        *("1 task0", "2 task1", "3 task2"),
    ]
    hatched = [any(patch.get_hatch() for patch in panel.collections) for panel in panels]
    assert hatched == [True, True, False]
    lines = methods_figure({"ewc": found, "replay": found}).axes[0].get_lines()
    assert [line.get_color() for line in lines[:2]] == [
        style.color for style in styles_of(["ewc", "replay"]).values()
    ]
    curves.popitem()
    assert success_curves(result) != [], "a result that was read does not change"


def test_the_mean_over_tasks_seen_counts_only_those(make_run: MakeRun) -> None:
    runs = [read_run(make_run(strategy=name, seed=s)) for name in ("a", "b") for s in (0, 1)]
    page = comparison_page(runs)
    drawing = next(one for one in page.drawings() if one.name == "seen_so_far")
    lines = {str(line.get_label()): line for line in drawing.draw(4.0).axes[0].get_lines()}
    for name in ("a", "b"):
        learned = [r.result.matrix.learned for r in runs if r.result.strategy == name]
        expected = [sum(m[i, : i + 1].mean() for m in learned) / 2 for i in range(3)]
        assert [float(y) for y in lines[name].get_ydata()] == pytest.approx(expected)  # type: ignore[union-attr]
    figure = seen_so_far({"a": Line([0.9, math.nan, 0.5])}, "accuracy")
    assert len(figure.axes[0].collections) == 0, "one seed has no band"


def test_a_strategy_looks_the_same_everywhere_and_like_no_other() -> None:
    few, many = styles_of(["replay", "ewc"]), styles_of([f"own{i}" for i in range(20)] + ["ewc"])
    assert few["ewc"] == many["ewc"]
    assert len(set(many.values())) == 21
    known = styles_of(["ewc", "replay", "lwf", "si", "naive"]).values()
    assert len({style.color for style in known}) == 5
    # Without color there are still the marker and the stroke.
    assert len({(style.marker, str(style.stroke)) for style in known}) == 5


def test_figures_for_papers_are_files_of_three_kinds_and_the_same_bytes(tmp_path: Path) -> None:
    matrix = _matrix([[0.1, 0.2], [0.9, None], [0.5, 0.8]])

    def draw(width: float) -> Any:
        return matrix_heatmap(matrix, width=width)

    drawings = [Drawing("a matrix/of ewc", draw, "alt"), Drawing("a matrix/of ewc", draw, "alt")]
    written = save_drawings(drawings, tmp_path / "one")
    assert [path.name for path in written] == [
        f"a_matrix_of_ewc{number}.{kind}" for number in ("", "_2") for kind in ("png", "svg", "pdf")
    ]
    again = save_drawings(drawings[:1], tmp_path / "two")
    for one, two in zip(written[:3], again, strict=True):
        assert one.read_bytes() == two.read_bytes()
    pdf = (tmp_path / "one" / "a_matrix_of_ewc.pdf").read_bytes()
    assert b"/MediaBox [ 0 0 244.8 " in pdf, "a column of a paper is 3.4 inches wide"


def test_the_command_has_what_was_asked_for(make_run: MakeRun) -> None:
    folder = make_run()
    command = fit_command(read_run(folder))
    assert command.complete is None
    with (folder / "config.yaml").open("a") as file:
        file.write("overrides: [strategy=ewc, 'hidden=[100]', seed=0]\n")
    command = fit_command(read_run(folder))
    assert command.text == "clframe fit strategy=ewc 'hidden=[100]' seed=0"
    assert command.complete is not None
    assert "trainer.max_epochs=2" in command.complete
    assert "overrides" not in command.complete
