"""Images as byte tensors, from files or rows of a table."""

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
"""Files that messages list; the others are counted."""
_IN_MEMORY = 2 * 2**30
"""Default limit in bytes for reading all images into memory."""


class Row(Protocol):
    """An image in a row of a table; its text tells its location."""

    def content(self) -> Any:
        """Return what Pillow can open, or an array of bytes.

        Raises:
            OSError: It cannot be read.
        """

    def stored(self) -> bytes:
        """Return the bytes that identify the image.

        Raises:
            OSError: They cannot be read.
        """


ImageSource = Path | Row


@dataclass(frozen=True)
class ImageSettings:
    """How to read images.

    Args:
        size: Side in pixels to which images are scaled; null keeps their size.
        color: Three channels (``rgb``) or one (``gray``).
        on_bad: ``stop`` at images that cannot be read, or ``skip`` them.
        num_workers: Worker processes that read images each time they are used (0: the main
            process); null reads all into memory if they need at most 2 GB.
    """

    size: int | None = None
    color: Color = "rgb"
    on_bad: OnBad = "stop"
    num_workers: int | None = None

    def __post_init__(self) -> None:
        at_least(self.size, 1, "stream.size")
        at_least(self.num_workers, 0, "stream.num_workers")

    def in_memory(self, n: int, shape: tuple[int, ...]) -> bool:
        """Return whether n images of this shape are kept in memory."""
        return self.num_workers is None and n * int(np.prod(shape)) <= _IN_MEMORY


def open_image(image: ImageSource, size: int | None, color: Color) -> Pixels:
    """Open an image, channels first, scaled to a square of ``size`` if given.

    Raises:
        OSError: It cannot be read.
    """
    from PIL import Image

    try:
        content = image if isinstance(image, Path) else image.content()
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


def stored_bytes(image: ImageSource) -> bytes:
    """Return the bytes that hold an image, without opening it.

    Raises:
        DataError: The image cannot be read.
    """
    try:
        return image.read_bytes() if isinstance(image, Path) else image.stored()
    except OSError as error:
        raise DataError(f"cannot read image '{image}': {error.strerror or error}") from error


def _stored_at(images: Sequence[ImageSource], position: int) -> bytes:
    return stored_bytes(images[position])


def find_bad(
    images: Sequence[ImageSource], size: int | None, color: Color
) -> list[tuple[ImageSource, OSError]]:
    """Open all images; return those that cannot be read, and why."""
    return survey(images, size, color)[0]


def survey(
    images: Sequence[ImageSource], size: int | None, color: Color
) -> tuple[list[tuple[ImageSource, OSError]], Counter[tuple[int, int]]]:
    """Open all images; return those that cannot be read, and the number of images per size."""
    bad: list[tuple[ImageSource, OSError]] = []
    sizes: Counter[tuple[int, int]] = Counter()
    with ProgressMeter("images", len(images), "files") as meter:
        for image in images:
            try:
                _, height, width = open_image(image, size, color).shape
                sizes[width, height] += 1
            except OSError as error:
                bad.append((image, error))
            meter.update()
    return bad, sizes


def read_images(
    images: Sequence[ImageSource], size: int | None, color: Color, on_bad: OnBad
) -> tuple[Tensor, list[int]]:
    """Return all images as one byte tensor, and the positions of the readable ones.

    Args:
        images: The files.
        size: Side to scale to; None requires images of equal size.
        color: Three channels or one.
        on_bad: ``stop`` at files that cannot be read, or ``skip`` and count them.

    Raises:
        DataError: A file cannot be read, or sizes differ.
    """
    good: list[int] = []
    bad: list[tuple[ImageSource, OSError]] = []
    room: Pixels | None = None
    with ProgressMeter("images", len(images), "files") as meter:
        for position, image in enumerate(images):
            try:
                array = open_image(image, size, color)
            except OSError as error:
                bad.append((image, error))
            else:
                if room is None:
                    room = np.empty((len(images), *array.shape), np.uint8)
                if array.shape != room.shape[1:]:
                    raise SettingError(
                        f"images differ in size: '{images[good[0]]}' has {_side(room[0])} "
                        f"pixels, '{image}' {_side(array)}; set stream.size to scale all of them"
                    )
                room[len(good)] = array
                good.append(position)
            meter.update()
    if bad:
        say_bad(bad, len(images), on_bad)
    if room is None:
        raise DataError(f"none of {len(images)} images can be read")
    return torch.from_numpy(room[: len(good)]), good


class ImageFiles:
    """Images as a map-style dataset that reads an image at every access."""

    def __init__(self, images: Sequence[ImageSource], size: int | None, color: Color) -> None:
        self.images = images
        self.size = size
        self.color: Color = color
        self.ids = SampleIds(len(images), functools.partial(_stored_at, images))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        try:
            pixels = open_image(self.images[index], self.size, self.color)
        except OSError as error:
            raise OSError(f"image '{self.images[index]}': {error}") from error
        return torch.from_numpy(pixels), 0


def say_bad(bad: Sequence[tuple[ImageSource, OSError]], n: int, on_bad: OnBad) -> None:
    """Raise an error for unreadable images, or warn that they are left out."""
    names = ", ".join(f"'{image}'" for image, _ in bad[:_NAMED])
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    if on_bad == "stop":
        raise DataError(
            f"cannot read {len(bad)} of {n} images: {names}{more} ({bad[0][1]}); repair or "
            "remove them, or skip them with stream.on_bad=skip"
        )
    warn_user(f"left out {len(bad)} of {n} images that cannot be read: {names}{more}")


def _side(array: Pixels) -> str:
    return f"{array.shape[2]}x{array.shape[1]}"
