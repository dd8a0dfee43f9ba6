"""Images, tables, videos and texts that a run sends to its loggers, in addition to numbers.

A plugin sends one with ``learner.log_media(name, value)``. A value can be:

* an image: an array of height x width (x 1, 3 or 4 channels), a tensor with its channels first,
  an image of PIL's, a figure of matplotlib's, or the path of a PNG or JPEG file;
* a video: an array of time x height x width x channels, or the path of a GIF or MP4 file;
* a :class:`Table`; a :class:`Heatmap`, which is drawn; a text.

Numbers of an image are bytes, or floats from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from clframe.errors import PluginError

Kind = Literal["image", "video", "table", "text"]

IMAGES = (".png", ".jpg", ".jpeg")
VIDEOS = (".gif", ".mp4")


@dataclass(frozen=True)
class Table:
    """A table for ``learner.log_media``.

    Args:
        columns: The headings.
        rows: Texts and numbers.

    >>> Table(["task", "seconds"], [["reach", 1.5]]).columns
    ['task', 'seconds']
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise PluginError(
                    f"a table of {len(self.columns)} columns has a row of {len(row)} cells: {row!r}"
                )


@dataclass(frozen=True)
class Heatmap:
    """A matrix of numbers, drawn as an image with names of rows and columns.

    Args:
        values: Rows of numbers; None for an empty cell.
        rows: The names of the rows.
        columns: The names of the columns.
        x: Meaning of the columns.
        y: Meaning of the rows.

    >>> Heatmap([[0.5, None]], ["a"], ["b", "c"], x="predicted", y="is").columns
    ['b', 'c']
    """

    values: Sequence[Sequence[float | None]]
    rows: Sequence[str]
    columns: Sequence[str]
    x: str = ""
    y: str = ""


@dataclass(frozen=True)
class Media:
    """An image, a video, a table or a text as a file of the run folder.

    Args:
        name: Its name in loggers.
        kind: image, video, table or text.
        path: Its file, relative to the run folder.
        caption: A line below it.
    """

    name: str
    kind: Kind
    path: str
    caption: str = ""


def kind_of(name: str, value: Any) -> Kind:
    """Return the kind of a value.

    Raises:
        PluginError: It is of a kind that cannot be logged.
    """
    if isinstance(value, Table):
        return "table"
    if isinstance(value, Heatmap) or hasattr(value, "savefig") or _is_image_of_pil(value):
        return "image"
    if isinstance(value, Path):
        if value.suffix.lower() in (*IMAGES, *VIDEOS) and value.is_file():
            return "video" if value.suffix.lower() in VIDEOS else "image"
        suffixes = ", ".join((*IMAGES, *VIDEOS))
        problem = "is not a file" if not value.is_file() else f"ends in none of {suffixes}"
        raise PluginError(f"learner.log_media('{name}', ...): '{value}' {problem}")
    if isinstance(value, str):
        return "text"
    if isinstance(value, Tensor | np.ndarray):
        if value.ndim in (2, 3):
            return "image"
        if value.ndim == 4:
            return "video"
    shape = getattr(value, "shape", None)
    got = f"a {type(value).__name__}" + ("" if shape is None else f" of shape {tuple(shape)}")
    raise PluginError(
        f"learner.log_media('{name}', ...) takes an image, a video, a table or a text, got {got}: "
        "see clframe.recording.media; numbers go to learner.log"
    )


def pixels_of(value: Any) -> Any:
    """Return an array or tensor as bytes: height x width (x channels), videos with time first.

    >>> pixels_of(np.ones((2, 3, 1))).shape, int(pixels_of(np.ones((2, 3)))[0, 0])
    ((2, 3), 255)
    """
    if isinstance(value, Tensor):
        value = value.detach().cpu().float().numpy() if value.is_floating_point() else value.cpu()
        value = np.asarray(value)
        if value.ndim > 2 and value.shape[-3] in (1, 3, 4):
            value = np.moveaxis(value, -3, -1)
    array = np.asarray(value)
    if array.ndim > 2 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.dtype == np.bool_:
        array = array.astype(np.float32)
    if np.issubdtype(array.dtype, np.floating):
        array = np.nan_to_num(array).clip(0, 1) * 255
    return array.round().astype(np.uint8) if array.dtype != np.uint8 else array


def _is_image_of_pil(value: Any) -> bool:
    return hasattr(value, "save") and hasattr(value, "getbands")
