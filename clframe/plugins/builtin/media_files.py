"""Media files of the run folder: logged media, heat maps, the matrix."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clframe.recording.media import IMAGES, VIDEOS, Heatmap, Media, Table, kind_of, pixels_of
from clframe.report import figures
from clframe.report.figure_style import new_figure, style
from clframe.utils.files import write_bytes

if TYPE_CHECKING:
    from clframe.core.matrix import AccuracyMatrix

FOLDER = "media"
"""Name in the run folder."""
_MOST_NUMBERED = 12
_MOST_NAMED = 30
_VIDEO_RATE = 10


def write(run_dir: Path, name: str, value: Any, caption: str, stem: str) -> Media:
    """Write a value below ``media/`` in the run folder, unless it is already a file there.

    Args:
        run_dir: The run folder.
        name: Name in loggers; also the folder.
        value: See :mod:`clframe.recording.media`.
        caption: A line below it.
        stem: Stem of the file name.
    """
    kind = kind_of(name, value)
    if isinstance(value, Path) and value.resolve().is_relative_to(run_dir.resolve()):
        relative = value.resolve().relative_to(run_dir.resolve())
        return Media(name, kind, relative.as_posix(), caption)
    if isinstance(value, Path):
        ending, content = value.suffix.lower(), value.read_bytes()
    elif isinstance(value, Table):
        ending, content = ".json", _table(value)
    elif kind == "text":
        ending, content = ".txt", str(value).encode()
    elif kind == "video":
        ending, content = VIDEOS[0], _gif(pixels_of(value))
    else:
        ending, content = IMAGES[0], _png(value)
    folders = [re.sub(r"[^\w.-]", "_", folder).strip(".") or "_" for folder in name.split("/")]
    path = run_dir.joinpath(FOLDER, *folders, stem + ending)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)
    return Media(name, kind, path.relative_to(run_dir).as_posix(), caption)


def of_matrix(run_dir: Path, matrix: AccuracyMatrix, experiences: int) -> list[Media]:
    """Return the matrix after ``experiences`` experiences as a table and as a heat map."""
    content = matrix.to_json()
    rows = [[name, *row] for name, row in zip(content["rows"], content["values"], strict=True)]
    values = {
        "matrix": Table(["row", *content["columns"]], rows),
        "matrix_image": figures.matrix_heatmap(matrix),
    }
    caption, stem = f"after {content['rows'][-1]}", f"exp{experiences - 1}"
    return [write(run_dir, name, value, caption, stem) for name, value in values.items()]


def _table(table: Table) -> bytes:
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return json.dumps({"columns": [str(name) for name in table.columns], "rows": rows}).encode()


def _cell(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _png(value: Any) -> bytes:
    if isinstance(value, Heatmap):
        value = draw(value)
    if hasattr(value, "savefig"):
        return figures.to_png_bytes(value)
    from PIL import Image

    image = value if hasattr(value, "getbands") else Image.fromarray(pixels_of(value))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _gif(images: Any) -> bytes:
    from PIL import Image

    first, *others = [Image.fromarray(image).convert("RGB") for image in images]
    buffer = io.BytesIO()
    shown = 1000 // _VIDEO_RATE
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=shown, loop=0)
    return buffer.getvalue()


def draw(heatmap: Heatmap) -> Any:
    """Return a heat map as a figure, with numbers in the cells if they are readable."""
    rows, columns = len(heatmap.rows), len(heatmap.columns)
    figure = new_figure(min(2.4 + 0.5 * columns, 12), min(1.6 + 0.42 * rows, 12))
    axes = figure.add_subplot()
    cells = [[math.nan if x is None else x for x in row] for row in heatmap.values]
    image = axes.imshow(np.array(cells, float).reshape(rows, columns), cmap="viridis")
    for many, names, put in (
        (columns, heatmap.columns, axes.set_xticks),
        (rows, heatmap.rows, axes.set_yticks),
    ):
        named = range(0, many, -(-many // _MOST_NAMED))
        put(list(named), [names[index] for index in named])
    axes.tick_params(axis="x", rotation=90 if columns > 8 else 0)
    axes.set_xlabel(heatmap.x)
    axes.set_ylabel(heatmap.y)
    style(axes)
    figure.colorbar(image, ax=axes)
    if max(rows, columns) <= _MOST_NUMBERED:
        low, high = image.get_clim()
        for i, row in enumerate(cells):
            for j, value in enumerate(row):
                if not math.isnan(value):
                    ink = "white" if value - low < 0.6 * (high - low) else "black"
                    axes.text(j, i, f"{value:.2g}", ha="center", va="center", color=ink, fontsize=8)
    return figure
