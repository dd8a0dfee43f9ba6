"""Your own images as streams: ``stream=folder`` and ``stream=file_list``."""

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
    """A folder of images: CLASS/image or DOMAIN/CLASS/image, optionally below train and test.

    Args:
        path: The folder.
        seed: The seed of the held-out images.
        scenario: class, task or domain; null is class if classes divide the data, else domain.
        by: What divides the data: ``class``, or ``domain`` (folders of classes in folders of
            domains).
        groups: Classes or domains of each experience, in order, such as [[cat,dog],[owl]]; null
            uses all in alphabetical order.
        n_experiences: Number of experiences; null is 5, or the number of classes if that is less.
        test_fraction: Share of each class for testing, if there is no folder ``test``.
        images: How to read images.
    """
    root = Path(path).expanduser()
    split = Split(by, groups, n_experiences, scenario, test_fraction, None, seed)
    column = "domain" if by == "domain" else None
    if by == "time":
        raise SettingError("stream.by=time needs the time of each image; use stream=file_list")
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
    """A CSV or JSON list of images with labels and, optionally, domains or times.

    Args:
        path: The list: CSV with a heading, JSON (a list of objects) or JSONL. Files are relative to
            its folder; a column ``split`` holds train or test.
        seed: The seed of the held-out images.
        scenario: class, task or domain; null is class if classes divide the data, else domain.
        by: What divides the data: ``class``, ``domain`` (values of a column, one experience each)
            or ``time`` (values of a column in ascending order, cut into equal parts).
        column: The column with the domain or time; null is the column ``domain`` or ``time``.
        groups: Classes or domains of each experience, in order; null uses all in alphabetical
            order.
        n_experiences: Number of experiences; null is 5, or the number of classes if that is less.
        test_fraction: Share of each class for testing, if no row is marked test.
        images: How to read images.
        file_column: The column with the file.
        label_column: The column with the class.
        class_names: Names of the classes 0, 1, ... in that column; null keeps the column's values.
    """
    root = Path(path).expanduser()
    split = Split(by, groups, n_experiences, scenario, test_fraction, None, seed)
    entries = read_list(root, file_column, label_column)
    if class_names is not None:
        entries = named(entries, class_names, root)
    of_part = None if by == "class" else column or by
    if column is not None and by == "class":
        raise SettingError("stream.column needs stream.by=domain or time")
    return stream_of("file_list", entries, split, of_part, root, images)


def stream_of(
    name: str,
    entries: Sequence[Entry],
    split: Split,
    column: str | None,
    root: Path,
    images: ImageSettings,
) -> Stream:
    """Return the stream of a list of images.

    Args:
        name: The stream's name.
        entries: The images.
        split: How images become experiences.
        column: The column that divides the images; None if classes do. Test images without this
            column are one task.
        root: Their folder or list, for messages.
        images: How to read images.
    """
    size, color = images.size, images.color
    if images.on_bad == "skip":  # unreadable images must be known before the split
        bad = find_bad([entry.path for entry in entries], size, color)
        if bad:
            say_bad(bad, len(entries), "skip")
            unreadable = {id(image) for image, _ in bad}
            entries = [entry for entry in entries if id(entry.path) not in unreadable]
    splits = {entry.split for entry in entries}
    learned = [entry for entry in entries if entry.split in (None, TRAIN)]
    tested = [entry for entry in entries if entry.split == TEST]
    if None in splits and TEST in splits:
        raise DataError(f"'{root}' marks only some images as train or test; mark all or none")
    if not learned:
        raise DataError(f"'{root}' has no image to train on")
    source = f"{len(entries):,} images of '{root}'"
    unplaced = column is not None and not any(column in entry.columns for entry in tested)
    for entry in [*learned, *([] if unplaced else tested)]:
        if column is not None and column not in entry.columns:
            raise DataError(
                f"'{entry.path}' has no {column}, which stream.by={split.by} needs; "
                f"{nearest(column, list(entry.columns) or ['class'])}"
            )
    train = _samples(learned, column, "the training images", images, root)
    test = None
    if tested:
        test = _samples(tested, None if unplaced else column, "the test images", images, root)
    return split.stream(name, train, test, source)


def _samples(
    entries: Sequence[Entry], column: str | None, name: str, images: ImageSettings, root: Path
) -> Samples:
    """Return images that are read into memory at first use, or read at every use."""
    paths = [entry.path for entry in entries]
    size, color = images.size, images.color
    try:
        shape = open_image(paths[0], size, color).shape
    except OSError as error:
        raise DataError(
            f"cannot read image '{paths[0]}': {error}; repair or remove it, or skip such images "
            "with stream.on_bad=skip"
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
        """Return paths relative to the folder (or the list's folder), or the content of rows."""
        rows = [position for position, path in enumerate(paths) if not isinstance(path, Path)]
        of_row = dict(zip(rows, files.ids(torch.tensor(rows, dtype=torch.long)), strict=True))
        return [
            relative_name(path, base) if isinstance(path, Path) else f"{of_row[position]:x}"
            for position, path in enumerate(paths)
        ]

    return Samples(labels, select, tuple(shape), values, name, keys)


def _values(values: Sequence[str]) -> Sequence[Any]:
    """Convert values to numbers if all are numeric, so that 10 comes after 9."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return list(values)
