"""The parts that all published layouts share: location, lists and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clframe.core.stream import Scenario, Stream
from clframe.data.stream_from import Split
from clframe.errors import DataError, SettingError
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import SUFFIXES, Entry
from clframe.streams.custom.stream import stream_of


@dataclass(frozen=True)
class Layout:
    """A published dataset.

    Args:
        stream: The stream's name.
        title: The dataset's name.
        folder: Its folder below the data folder.
        needs: The required files, for messages.
        read: Lists all images of a folder; raises DataError if the layout differs.
    """

    stream: str
    title: str
    folder: str
    needs: str
    read: Callable[[Path], list[Entry]]

    def place(self, path: str | None, data_dir: Path) -> Path:
        """Return the dataset's folder.

        Raises:
            DataError: It does not exist; the message tells which files to put where.
        """
        root = data_dir / self.folder if path is None else Path(path).expanduser()
        if not root.is_dir():
            raise DataError(
                f"{self.title} is not in '{root}'; put {self.needs} there, or set stream.path=DIR "
                f"(`clframe data check {self.stream} DIR` lists what a folder has)"
            )
        return root

    def missing(self, root: Path, what: str) -> DataError:
        """Return the error for something that is missing in the folder."""
        return DataError(f"{self.title} in '{root}' lacks {what}; put {self.needs} there")


def lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Split each non-empty line of a list into words; yield its number and the words.

    Raises:
        DataError: The list cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read list '{path}': {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, line.split()


def pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the two words of each line of a list.

    Raises:
        DataError: A line does not have two words; the message names it.
    """
    for number, fields in lines(path):
        if len(fields) != 2:
            raise DataError(f"list '{path}', line {number}: expected two words")
        yield fields[0], fields[1]


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder and its subfolders, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def by_class(
    layout: Layout,
    entries: Sequence[Entry],
    root: Path,
    images: ImageSettings,
    seed: int,
    scenario: Scenario | None,
    n_experiences: int,
    class_order: str | None,
    test_fraction: float = 0.2,
    split_seed: int | None = None,
) -> Stream:
    """Return the stream of a dataset whose classes are distributed over experiences."""
    classes = sorted({entry.label for entry in entries}, key=str)
    if class_order == "shuffled":
        order = torch.randperm(len(classes), generator=torch.Generator().manual_seed(seed))
        classes = [classes[int(k)] for k in order]
    elif class_order is not None:
        raise SettingError(f"class_order must be null or 'shuffled', got {class_order!r}")
    if not 1 <= n_experiences <= len(classes):
        raise SettingError(
            f"stream '{layout.stream}': n_experiences must be between 1 and {len(classes)}, got "
            f"{n_experiences}"
        )
    groups: list[Any] = [
        [classes[int(k)] for k in part]
        for part in np.array_split(np.arange(len(classes)), n_experiences)
    ]
    drawn = seed if split_seed is None else split_seed
    split = Split("class", groups, None, scenario, test_fraction, None, drawn)
    return stream_of(layout.stream, entries, split, None, root, images)
