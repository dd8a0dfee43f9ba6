"""Picture files as tensors of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from clframe.errors import DataError, SettingError
from clframe.utils.console import notice
from clframe.utils.progress import ProgressMeter

OnBad = Literal["stop", "skip"]
Color = Literal["rgb", "gray"]
_NAMED = 3
"""Files of a list that are named; the others are counted."""


def open_picture(path: Path, size: int | None, color: Color) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """One picture, channels first, scaled to a square if ``size`` says so.

    Raises:
        OSError: It cannot be read.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            picture = image.convert("RGB" if color == "rgb" else "L")
            if size is not None and picture.size != (size, size):
                picture = picture.resize((size, size), Image.Resampling.BILINEAR)
            array = np.asarray(picture, dtype=np.uint8)
    except (SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise OSError(str(error)) from error
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def read_pictures(
    paths: Sequence[Path], size: int | None, color: Color, on_bad: OnBad
) -> tuple[Tensor, list[int]]:
    """All pictures as one tensor of bytes, and the positions of those that could be read.

    Args:
        paths: The files.
        size: Side to scale to; None leaves pictures, which must then be equally large.
        color: Three channels or one.
        on_bad: ``stop`` at files that cannot be read, or ``skip`` and count them.

    Raises:
        DataError: A file cannot be read, or sizes differ.
    """
    arrays, good, bad = [], [], []
    with ProgressMeter("pictures", len(paths), "files") as meter:
        for position, path in enumerate(paths):
            try:
                arrays.append(open_picture(path, size, color))
                good.append(position)
            except OSError as error:
                bad.append((path, error))
            meter.update()
    if bad:
        _say_bad(bad, len(paths), on_bad)
    if not arrays:
        raise DataError(f"none of {len(paths)} pictures can be read")
    for position, array in zip(good, arrays, strict=True):
        if array.shape != arrays[0].shape:
            raise SettingError(
                f"pictures differ in size: '{paths[good[0]]}' has {_side(arrays[0])} pixels, "
                f"'{paths[position]}' {_side(array)}; set stream.size to scale all of them"
            )
    return torch.from_numpy(np.stack(arrays)), good


def _say_bad(bad: Sequence[tuple[Path, OSError]], n: int, on_bad: OnBad) -> None:
    names = ", ".join(f"'{path}'" for path, _ in bad[:_NAMED])
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    if on_bad == "stop":
        raise DataError(
            f"{len(bad)} of {n} pictures cannot be read: {names}{more} ({bad[0][1]}); mend or "
            "remove them, or leave them out with stream.on_bad=skip"
        )
    notice(f"left out {len(bad)} of {n} pictures that cannot be read: {names}{more}")


def _side(array: np.ndarray[Any, Any]) -> str:
    return f"{array.shape[2]}x{array.shape[1]}"
