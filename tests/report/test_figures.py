from __future__ import annotations

import io
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clframe.core.matrix import AccuracyMatrix, Cells
from clframe.errors import ClframeError, SettingError
from clframe.report.figures import (
    accuracy_curves,
    learning_curves,
    loss_curves,
    matrix_heatmap,
    mean_matrix,
    metric_bars,
    save,
    spider,
    to_png_bytes,
    to_svg,
)
from clframe.runs.reader import Epoch
from clframe.utils.statistics import Summary


def _matrix(
    rows: Sequence[str], columns: Sequence[str], values: Cells, measure: str = "accuracy"
) -> AccuracyMatrix:
    return AccuracyMatrix.from_json(
        {"rows": rows, "columns": columns, "values": values, "measure": measure}
    )


MATRIX = _matrix(
    ("before", "exp0", "exp1"), ("task0", "task1"), ((0.1, 0.2), (0.975, None), (0.5, 1.0))
)


def _texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]


def _ys(line: Any) -> list[float]:
    return [float(y) for y in line.get_ydata()]


def test_heatmap_shows_every_number_and_hatches_the_unknown() -> None:
    figure = matrix_heatmap(MATRIX)
    texts = _texts(figure)
    assert {"10.0", "20.0", "97.5", "50.0", "100.0", "before", "exp1", "task0"} <= set(texts)
    assert [patch.get_hatch() for patch in figure.axes[0].patches] == ["////"]
    patch: Any = figure.axes[0].patches[0]
    assert (patch.get_x(), patch.get_y()) == (1, pytest.approx(1.12))


def test_heatmap_takes_the_object_of_a_results_file() -> None:
    content = {"rows": ["before"], "columns": ["a"], "values": [[0.125]], "measure": "success"}
    assert {"12.5", "success (%)"} <= set(_texts(matrix_heatmap(content)))
    assert "success (%)" in _texts(accuracy_curves(content))


def test_heatmap_numbers_can_be_read_on_their_cells() -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    def luminance(color: Any) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
        return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])

    for value in (0.0, 0.3, 0.5, 0.59, 0.6, 0.75, 1.0):
        figure = matrix_heatmap(_matrix(("exp0",), ("task0",), ((value,),)))
        (text,) = figure.axes[0].texts
        pair = sorted([luminance(to_rgb(text.get_color())), luminance(colormaps["viridis"](value))])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) > 3.0, value


def test_large_matrices_drop_the_numbers() -> None:
    names = tuple(f"t{i}" for i in range(60))
    figure = matrix_heatmap(_matrix(names, names, tuple((0.5,) * 60 for _ in names)))
    assert len(figure.axes[0].texts) == 0
    assert len(figure.axes[0].get_xticks()) <= 40


def test_mean_matrix_by_hand() -> None:
    other = _matrix(
        MATRIX.rows, MATRIX.columns, ((0.3, 0.2), (0.925, 0.4), (0.5, None)), MATRIX.measure
    )
    mean, errors = mean_matrix([MATRIX, other])
    assert mean.cells[0] == pytest.approx((0.2, 0.2))
    assert errors[0] == pytest.approx((0.1, 0.0))
    assert mean.cells[1][0] == pytest.approx(0.95)
    assert mean.cells[1][1] is None, "a cell that one seed lacks is unknown"
    assert mean.cells[2][1] is None
    assert "±10.0" in _texts(matrix_heatmap(mean, errors))


def test_mean_matrix_refuses_other_tasks() -> None:
    other = _matrix(MATRIX.rows, ("task0", "x"), MATRIX.cells)
    with pytest.raises(SettingError, match="same experiences, tasks and measure"):
        mean_matrix([MATRIX, other])
    with pytest.raises(SettingError):
        mean_matrix([])


def test_accuracy_curves_hold_the_columns_and_the_mean() -> None:
    figure = accuracy_curves(MATRIX)
    lines = {str(line.get_label()): _ys(line) for line in figure.axes[0].lines}
    assert lines["task0"] == [0.1, 0.975, 0.5]
    assert math.isnan(lines["task1"][1])
    assert lines["mean"][0] == pytest.approx(0.15)
    assert math.isnan(lines["mean"][1]), "a mean over fewer tasks would not be comparable"


def test_loss_curve_has_a_line_per_experience() -> None:
    epochs = [Epoch(i, e, 1.0 / (1 + e)) for i in range(3) for e in range(4)]
    figure = loss_curves({"naive": epochs})
    curves: list[Any] = [line for line in figure.axes[0].lines if len(_ys(line)) == 4]
    assert len(curves) == 3
    assert list(curves[2].get_xdata()) == [8, 9, 10, 11]
    assert figure.axes[0].get_yscale() == "linear"
    steep = loss_curves({"naive": [Epoch(0, 0, 100.0), Epoch(0, 1, 0.01)]})
    assert steep.axes[0].get_yscale() == "log"


def test_learning_curves_have_a_panel_per_experience() -> None:
    curves: dict[str, dict[str, list[float | None]]] = {
        "exp0": {"task0": [0.1, None, 0.9]},
        "exp1": {"task1": [0.2, 0.8]},
    }
    figure = learning_curves(curves, ["task0", "task1"], "success")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["exp0", "exp1"]
    first, second = (axes.lines[0].get_color() for axes in figure.axes)
    assert first != second


def test_bars_show_error_only_where_there_is_one() -> None:
    cells = [Summary(3, 0.5, 0.1), Summary(1, 0.25, None), None]
    figure = metric_bars(["a", "b", "c"], {"gem.acc": cells, "gem.bwt": cells})
    for axes in figure.axes:
        bars: list[Any] = list(axes.patches)
        assert [bar.get_width() for bar in bars] == [0.5, 0.25]
        assert sum(1 for c in axes.containers if type(c).__name__ == "ErrorbarContainer") == 1


def test_spider_closes_its_lines() -> None:
    series: dict[str, dict[str, float | None]] = {
        "ewc": {"a": 0.1, "b": 0.2, "c": 0.3},
        "si": {"a": 0.3, "b": None, "c": 0.1},
    }
    figure = spider(series)
    assert _ys(figure.axes[0].lines[0]) == [0.1, 0.2, 0.3, 0.1]
    assert to_png_bytes(figure)


@pytest.mark.parametrize(
    "series", [{"ewc": {"a": 0.1, "b": 0.2}}, {}, {"x": {"a": 1.0, "b": 1.0, "c": 1.0}, "y": {}}]
)
def test_spider_refuses_what_it_cannot_draw(series: dict[str, dict[str, float | None]]) -> None:
    with pytest.raises(SettingError, match="spider chart"):
        spider(series)


def test_png_svg_and_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    figure = matrix_heatmap(MATRIX)
    png = to_png_bytes(figure, dpi=50)
    opened = image.open(io.BytesIO(png)).convert("RGB")
    assert opened.getpixel((0, 0)) == (255, 255, 255)
    assert len(opened.getcolors(1 << 20)) > 10, "something is drawn"
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / "new" / f"figure{suffix}"
        save(figure, path)
        assert path.read_bytes().startswith(magic)
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        *("figure.pdf", "figure.png", "figure.svg"),
    ]
    with pytest.raises(SettingError, match="must end in one of"):
        save(figure, tmp_path / "figure.bmp")
    (tmp_path / "file").write_text("")
    with pytest.raises(ClframeError, match="cannot be written"):
        save(figure, tmp_path / "file" / "figure.png")


def test_svg_follows_the_page_and_is_the_same_twice() -> None:
    first = to_svg(matrix_heatmap(MATRIX), 'a "matrix" <b>')
    assert first == to_svg(matrix_heatmap(MATRIX), 'a "matrix" <b>')
    assert first.startswith("<svg")
    assert "var(--ink)" in first
    assert "#1f2328" not in first
    assert "http" not in first.replace("http://www.w3.org/", "")
    assert 'aria-label="a &quot;matrix&quot; &lt;b&gt;"' in first


@pytest.mark.parametrize(
    "name", ["$\\frac{", "a$b$c", "<b>&amp;", "\x00\x1b", "日本", "x" * 500, ""]
)
def test_any_name_can_be_drawn(name: str) -> None:
    import xml.etree.ElementTree as ET

    matrix = _matrix(("before", name), (name, "b"), ((0.1, 0.2), (0.3, 0.4)), name)
    for figure in (matrix_heatmap(matrix), accuracy_curves(matrix)):
        assert to_png_bytes(figure, dpi=30)
        ET.fromstring(
            to_svg(figure, name.replace("\x00", "").replace("\x1b", "")).replace("xlink:", "")
        )


def test_importing_the_commands_loads_no_matplotlib() -> None:
    code = (
        "import sys, clframe.cli.report, clframe.report.figures; "
        "sys.exit('matplotlib' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_pyplot_is_never_touched() -> None:
    code = (
        "import sys; from clframe.report.figures import *; "
        "to_png_bytes(matrix_heatmap({'rows': ['a'], 'columns': ['b'], 'values': [[0.5]]})); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
