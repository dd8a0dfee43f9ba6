"""Images of your own as streams: ``stream=folder`` and ``stream=file_list``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clframe.core.stream import Scenario, Stream
from clframe.data.dataset import Data, MapData, TensorData, scale_images
from clframe.data.labelled import Samples, relative_name
from clframe.data.storage import TensorSource
from clframe.data.stream_from import By, Split
from clframe.errors import DataError, SettingError, nearest
from clframe.streams.custom.image_data import (
    ImageFiles,
    ImageSettings,
    find_bad,
    open_image,
    read_images,
    say_bad,
)
from clframe.streams.custom.listing import TEST, TRAIN, Entry, named, read_folder, read_list


def folder(
    path: str,
    seed: int = 0,
    scenario: Scenario | None = None,
    by: By = "class",
    groups: list[Any] | None = None,
    n_experiences: int | None = None,
    test_fraction: float = 0.2,
    images: ImageSettings = ImageSettings(),
) -> Stream:
    """A folder of images: CLASS/image or DOMAIN/CLASS/image, below train and test or not.

    Args:
        path: The folder.
        seed: Of the images that are held out.
        scenario: class, task or domain; null is class where classes divide the data, else domain.
        by: What divides the data: ``class``, or ``domain`` (folders of classes in folders of
            domains).
        groups: Classes or domains of each experience, in order, such as [[cat,dog],[owl]]; null
            takes all in alphabetical order.
        n_experiences: How many; null is 5, or fewer where there are fewer classes.
        test_fraction: Of each class to test on, where there is no folder ``test``.
        images: How images are read.
    """
    root = Path(path).expanduser()
    split = Split(by, groups, n_experiences, scenario, test_fraction, None, seed)
    column = "domain" if by == "domain" else None
    if by == "time":
        raise SettingError("stream.by=time needs the time of each image: use stream=file_list")
    return stream_of("folder", read_folder(root), split, column, root, images)


def file_list(
    path: str,
    seed: int = 0,
    scenario: Scenario | None = None,
    by: By = "class",
    column: str | None = None,
    groups: list[Any] | None = None,
    n_experiences: int | None = None,
    test_fraction: float = 0.2,
    images: ImageSettings = ImageSettings(),
    file_column: str = "file",
    label_column: str = "label",
    class_names: list[str] | None = None,
) -> Stream:
    """A CSV or JSON list of images with their labels, and with domains or times if you like.

    Args:
        path: The list: CSV with a heading, JSON (a list of objects) or JSONL. Files are named
            relative to its folder; a column ``split`` says train or test.
        seed: Of the images that are held out.
        scenario: class, task or domain; null is class where classes divide the data, else domain.
        by: What divides the data: ``class``, ``domain`` (values of a column, one experience each)
            or ``time`` (values of a column in ascending order, cut into equal parts).
        column: Which column has the domain or time; null is the one named ``domain`` or ``time``.
        groups: Classes or domains of each experience, in order; null takes all in alphabetical
            order.
        n_experiences: How many; null is 5, or fewer where there are fewer classes.
        test_fraction: Of each class to test on, where no row says test.
        images: How images are read.
        file_column: The column with the file.
        label_column: The column with the class.
        class_names: What the numbers 0, 1, ... of that column are called; null takes what is there.
    """
    root = Path(path).expanduser()
    split = Split(by, groups, n_experiences, scenario, test_fraction, None, seed)
    entries = read_list(root, file_column, label_column)
    if class_names is not None:
        entries = named(entries, class_names, root)
    of_part = None if by == "class" else column or by
    if column is not None and by == "class":
        raise SettingError("stream.column has a meaning only with stream.by=domain or time")
    return stream_of("file_list", entries, split, of_part, root, images)


def stream_of(
    name: str,
    entries: Sequence[Entry],
    split: Split,
    column: str | None,
    root: Path,
    images: ImageSettings,
) -> Stream:
    """The stream of a list of images.

    Args:
        name: Of the stream.
        entries: The images.
        split: How they become experiences.
        column: What is known of each that says its part; None where classes do. Test images of
            which nothing is said are one task.
        root: Where they are, for messages.
        images: How they are read.
    """
    size, color = images.size, images.color
    if images.on_bad == "skip":  # which ones are there must be known before they are shared out
        bad = find_bad([entry.path for entry in entries], size, color)
        if bad:
            say_bad(bad, len(entries), "skip")
            gone = {id(image) for image, _ in bad}
            entries = [entry for entry in entries if id(entry.path) not in gone]
    said = {entry.split for entry in entries}
    learned = [entry for entry in entries if entry.split in (None, TRAIN)]
    tested = [entry for entry in entries if entry.split == TEST]
    if None in said and TEST in said:
        raise DataError(f"'{root}' says of some images whether they are to train or test on")
    if not learned:
        raise DataError(f"'{root}' has no image to train on")
    source = f"{len(entries):,} images of '{root}'"
    unplaced = column is not None and not any(column in entry.columns for entry in tested)
    for entry in [*learned, *([] if unplaced else tested)]:
        if column is not None and column not in entry.columns:
            raise DataError(
                f"'{entry.path}' has no {column}, which stream.by={split.by} asks for; "
                f"{nearest(column, list(entry.columns) or ['class'])}"
            )
    train = _samples(learned, column, "the training images", images, root)
    test = None
    if tested:
        test = _samples(tested, None if unplaced else column, "the test images", images, root)
    return split.stream(name, train, test, source)


def _samples(
    entries: Sequence[Entry], column: str | None, what: str, images: ImageSettings, root: Path
) -> Samples:
    """Images in memory, read when the first of them is wanted, or read anew each time."""
    paths = [entry.path for entry in entries]
    size, color = images.size, images.color
    try:
        shape = open_image(paths[0], size, color).shape
    except OSError as error:
        raise DataError(
            f"image '{paths[0]}' cannot be read: {error}; mend or remove it, or leave such "
            "images out with stream.on_bad=skip"
        ) from error
    in_memory = images.in_memory(len(paths), shape)
    files = ImageFiles(paths, size, color)

    @functools.cache
    def source() -> TensorSource:
        return TensorSource(read_images(paths, size, color, "stop")[0], ids=files.ids)

    def select(positions: Tensor, units: Tensor, task: int) -> Data:
        if in_memory:
            return TensorData(source(), units, task, positions, scale_images)
        return MapData(files, units, task, positions, scale_images, images.num_workers or 0)

    labels = [entry.label for entry in entries]
    values = None if column is None else _values([entry.columns[column] for entry in entries])
    base = root if root.is_dir() else root.parent

    def keys() -> list[str]:
        """Paths below the folder (or the list's folder); the content of rows that have none."""
        rows = [place for place, path in enumerate(paths) if not isinstance(path, Path)]
        of_row = dict(zip(rows, files.ids(torch.tensor(rows, dtype=torch.long)), strict=True))
        return [
            relative_name(path, base) if isinstance(path, Path) else f"{of_row[place]:x}"
            for place, path in enumerate(paths)
        ]

    return Samples(labels, select, tuple(shape), values, what, keys)


def _values(words: Sequence[str]) -> Sequence[Any]:
    """Numbers where all are numbers, so that 10 comes after 9."""
    try:
        return [float(word) for word in words]
    except ValueError:
        return list(words)
