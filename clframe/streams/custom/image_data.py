"""Pictures as tensors of bytes: from files, or from rows of a table."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from clframe.data.identify import SampleIds
from clframe.errors import DataError, SettingError
from clframe.utils.console import warn_user
from clframe.utils.image_files import opened_image
from clframe.utils.progress import ProgressMeter
from clframe.utils.setting_checks import at_least

OnBad = Literal["stop", "skip"]
Color = Literal["rgb", "gray"]
Pixels = np.ndarray[Any, np.dtype[np.uint8]]
_NAMED = 3
"""Files of a list that are named; the others are counted."""
_IN_MEMORY = 2 * 2**30
"""Bytes of pictures that are read into memory where nothing is said."""


class Row(Protocol):
    """A picture that is no file of its own; its text says where it is."""

    def content(self) -> Any:
        """What Pillow opens, or an array of bytes.

        Raises:
            OSError: There is nothing that can be read.
        """

    def stored(self) -> bytes:
        """What identifies the image: the bytes that hold it.

        Raises:
            OSError: There is nothing that can be read.
        """


ImageSource = Path | Row


@dataclass(frozen=True)
class PictureSettings:
    """How pictures are read.

    Args:
        size: Side in pixels that pictures are scaled to; null leaves them as they are.
        color: Three channels (``rgb``) or one (``gray``).
        on_bad: ``stop`` at pictures that cannot be read, or ``skip`` them.
        num_workers: Processes that read pictures anew each time they are shown (0: this one); null
            reads all into memory where they take at most 2 GB.
    """

    size: int | None = None
    color: Color = "rgb"
    on_bad: OnBad = "stop"
    num_workers: int | None = None

    def __post_init__(self) -> None:
        at_least(self.size, 1, "stream.size")
        at_least(self.num_workers, 0, "stream.num_workers")

    def in_memory(self, n: int, shape: tuple[int, ...]) -> bool:
        """Whether so many pictures are kept in memory."""
        return self.num_workers is None and n * int(np.prod(shape)) <= _IN_MEMORY


def open_picture(picture: ImageSource, size: int | None, color: Color) -> Pixels:
    """One picture, channels first, scaled to a square if ``size`` says so.

    Raises:
        OSError: It cannot be read.
    """
    from PIL import Image

    try:
        content = picture if isinstance(picture, Path) else picture.content()
        opened: Any = (
            Image.fromarray(content) if isinstance(content, np.ndarray) else opened_image(content)
        )
        with opened as file:
            pixels = file.convert("RGB" if color == "rgb" else "L")
            if size is not None and pixels.size != (size, size):
                pixels = pixels.resize((size, size), Image.Resampling.BILINEAR)
            array = np.asarray(pixels, dtype=np.uint8)
    except (TypeError, ValueError, MemoryError, ArithmeticError) as error:
        raise OSError(str(error)) from error
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def stored_bytes(picture: ImageSource) -> bytes:
    """Return the bytes that hold an image, without opening it.

    Raises:
        DataError: They cannot be read.
    """
    try:
        return picture.read_bytes() if isinstance(picture, Path) else picture.stored()
    except OSError as error:
        raise DataError(f"image '{picture}' cannot be read: {error.strerror or error}") from error


def _stored_at(pictures: Sequence[ImageSource], place: int) -> bytes:
    return stored_bytes(pictures[place])


def find_bad(
    pictures: Sequence[ImageSource], size: int | None, color: Color
) -> list[tuple[ImageSource, OSError]]:
    """The pictures that cannot be read, and why; each is opened."""
    return survey(pictures, size, color)[0]


def survey(
    pictures: Sequence[ImageSource], size: int | None, color: Color
) -> tuple[list[tuple[ImageSource, OSError]], Counter[tuple[int, int]]]:
    """Open each image; return those that cannot be read, and how many have which size."""
    bad: list[tuple[ImageSource, OSError]] = []
    sizes: Counter[tuple[int, int]] = Counter()
    with ProgressMeter("pictures", len(pictures), "files") as meter:
        for picture in pictures:
            try:
                _, height, width = open_picture(picture, size, color).shape
                sizes[width, height] += 1
            except OSError as error:
                bad.append((picture, error))
            meter.update()
    return bad, sizes


def read_pictures(
    pictures: Sequence[ImageSource], size: int | None, color: Color, on_bad: OnBad
) -> tuple[Tensor, list[int]]:
    """All pictures as one tensor of bytes, and the positions of those that could be read.

    Args:
        pictures: The files.
        size: Side to scale to; None leaves pictures, which must then be equally large.
        color: Three channels or one.
        on_bad: ``stop`` at files that cannot be read, or ``skip`` and count them.

    Raises:
        DataError: A file cannot be read, or sizes differ.
    """
    good: list[int] = []
    bad: list[tuple[ImageSource, OSError]] = []
    room: Pixels | None = None
    with ProgressMeter("pictures", len(pictures), "files") as meter:
        for position, picture in enumerate(pictures):
            try:
                array = open_picture(picture, size, color)
            except OSError as error:
                bad.append((picture, error))
            else:
                if room is None:
                    room = np.empty((len(pictures), *array.shape), np.uint8)
                if array.shape != room.shape[1:]:
                    raise SettingError(
                        f"pictures differ in size: '{pictures[good[0]]}' has {_side(room[0])} "
                        f"pixels, '{picture}' {_side(array)}; set stream.size to scale all of them"
                    )
                room[len(good)] = array
                good.append(position)
            meter.update()
    if bad:
        say_bad(bad, len(pictures), on_bad)
    if room is None:
        raise DataError(f"none of {len(pictures)} pictures can be read")
    return torch.from_numpy(room[: len(good)]), good


class PictureFiles:
    """Pictures as a map-style data set: each is read anew when it is wanted."""

    def __init__(self, pictures: Sequence[ImageSource], size: int | None, color: Color) -> None:
        self.pictures = pictures
        self.size = size
        self.color: Color = color
        self.ids = SampleIds(len(pictures), functools.partial(_stored_at, pictures))

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        try:
            pixels = open_picture(self.pictures[index], self.size, self.color)
        except OSError as error:
            raise OSError(f"picture '{self.pictures[index]}': {error}") from error
        return torch.from_numpy(pixels), 0


def say_bad(bad: Sequence[tuple[ImageSource, OSError]], n: int, on_bad: OnBad) -> None:
    """Stop at pictures that cannot be read, or say which ones are left out."""
    names = ", ".join(f"'{picture}'" for picture, _ in bad[:_NAMED])
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    if on_bad == "stop":
        raise DataError(
            f"{len(bad)} of {n} pictures cannot be read: {names}{more} ({bad[0][1]}); mend or "
            "remove them, or leave them out with stream.on_bad=skip"
        )
    warn_user(f"left out {len(bad)} of {n} pictures that cannot be read: {names}{more}")


def _side(array: Pixels) -> str:
    return f"{array.shape[2]}x{array.shape[1]}"
