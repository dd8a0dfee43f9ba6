"""Pictures of your own as streams: ``stream=folder`` and ``stream=file_list``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from clframe.core.samples import Samples
from clframe.core.stream import Scenario, Stream
from clframe.core.stream_from import By, Split
from clframe.data.dataset import TensorData, scale_images
from clframe.data.storage import TensorSource
from clframe.errors import DataError, SettingError, nearest
from clframe.streams.own.listing import TEST, TRAIN, Entry, read_folder, read_list
from clframe.streams.own.pictures import Color, OnBad, open_picture, read_pictures
from clframe.utils.settings import at_least


def folder(
    path: str,
    seed: int = 0,
    scenario: Scenario | None = None,
    by: By = "class",
    groups: list[Any] | None = None,
    n_experiences: int | None = None,
    test_fraction: float = 0.2,
    size: int | None = None,
    color: Color = "rgb",
    on_bad: OnBad = "stop",
) -> Stream:
    """A folder of pictures: CLASS/picture or DOMAIN/CLASS/picture, below train and test or not.

    Args:
        path: The folder.
        seed: Of the pictures that are held out.
        scenario: class, task or domain; null is class where classes divide the data, else domain.
        by: What divides the data: ``class``, or ``domain`` (folders of classes in folders of
            domains).
        groups: Classes or domains of each experience, in order, such as [[cat,dog],[owl]]; null
            takes all in alphabetical order.
        n_experiences: How many; null is 5, or fewer where there are fewer classes.
        test_fraction: Of each class to test on, where there is no folder ``test``.
        size: Side in pixels that pictures are scaled to; null leaves them as they are.
        color: Three channels (``rgb``) or one (``gray``).
        on_bad: ``stop`` at pictures that cannot be read, or ``skip`` them.
    """
    root = Path(path).expanduser()
    split = Split(by, groups, n_experiences, scenario, test_fraction, None, seed)
    column = "domain" if by == "domain" else None
    if by == "time":
        raise SettingError("stream.by=time needs the time of each picture: use stream=file_list")
    return _stream("folder", read_folder(root), split, column, root, size, color, on_bad)


def file_list(
    path: str,
    seed: int = 0,
    scenario: Scenario | None = None,
    by: By = "class",
    column: str | None = None,
    groups: list[Any] | None = None,
    n_experiences: int | None = None,
    test_fraction: float = 0.2,
    size: int | None = None,
    color: Color = "rgb",
    on_bad: OnBad = "stop",
    file_column: str = "file",
    label_column: str = "label",
) -> Stream:
    """A CSV or JSON list of pictures with their labels, and with domains or times if you like.

    Args:
        path: The list: CSV with a heading, JSON (a list of objects) or JSONL. Files are named
            relative to its folder; a column ``split`` says train or test.
        seed: Of the pictures that are held out.
        scenario: class, task or domain; null is class where classes divide the data, else domain.
        by: What divides the data: ``class``, ``domain`` (values of a column, one experience each)
            or ``time`` (values of a column in ascending order, cut into equal parts).
        column: Which column has the domain or time; null is the one named ``domain`` or ``time``.
        groups: Classes or domains of each experience, in order; null takes all in alphabetical
            order.
        n_experiences: How many; null is 5, or fewer where there are fewer classes.
        test_fraction: Of each class to test on, where no row says test.
        size: Side in pixels that pictures are scaled to; null leaves them as they are.
        color: Three channels (``rgb``) or one (``gray``).
        on_bad: ``stop`` at pictures that cannot be read, or ``skip`` them.
        file_column: The column with the file.
        label_column: The column with the class.
    """
    root = Path(path).expanduser()
    split = Split(by, groups, n_experiences, scenario, test_fraction, None, seed)
    entries = read_list(root, file_column, label_column)
    of_part = None if by == "class" else column or by
    if column is not None and by == "class":
        raise SettingError("stream.column has a meaning only with stream.by=domain or time")
    return _stream("file_list", entries, split, of_part, root, size, color, on_bad)


def _stream(
    name: str,
    entries: Sequence[Entry],
    split: Split,
    column: str | None,
    root: Path,
    size: int | None,
    color: Color,
    on_bad: OnBad,
) -> Stream:
    at_least(size, 1, "stream.size")
    if column is not None:
        for entry in entries:
            if column not in entry.columns:
                raise DataError(
                    f"'{entry.path}' has no {column}, which stream.by={split.by} asks for; "
                    f"{nearest(column, list(entry.columns) or ['class'])}"
                )
    if on_bad == "skip":  # which ones are there must be known before they are shared out
        _, good = read_pictures([entry.path for entry in entries], size, color, on_bad)
        entries = [entries[position] for position in good]
    said = {entry.split for entry in entries}
    learned = [entry for entry in entries if entry.split in (None, TRAIN)]
    tested = [entry for entry in entries if entry.split == TEST]
    if None in said and TEST in said:
        raise DataError(f"'{root}' says of some pictures whether they are to train or test on")
    if not learned:
        raise DataError(f"'{root}' has no picture to train on")
    source = f"{len(entries):,} pictures of '{root}'"
    train = _samples(learned, column, "the training pictures", size, color, on_bad)
    test = _samples(tested, column, "the test pictures", size, color, on_bad) if tested else None
    return split.stream(name, train, test, source)


def _samples(
    entries: Sequence[Entry],
    column: str | None,
    what: str,
    size: int | None,
    color: Color,
    on_bad: OnBad,
) -> Samples:
    """Pictures that are read when the first of them is wanted, and then are in memory."""
    paths = [entry.path for entry in entries]

    @functools.cache
    def source() -> TensorSource:
        return TensorSource(read_pictures(paths, size, color, "stop")[0])

    def select(positions: Tensor, units: Tensor, task: int) -> TensorData:
        return TensorData(source(), units, task, positions, scale_images)

    try:
        shape = open_picture(paths[0], size, color).shape
    except OSError as error:
        raise DataError(
            f"picture '{paths[0]}' cannot be read: {error}; mend or remove it, or leave such "
            "pictures out with stream.on_bad=skip"
        ) from error
    labels = [entry.label for entry in entries]
    values = None if column is None else _values([entry.columns[column] for entry in entries])
    return Samples(labels, select, tuple(shape), values, what)


def _values(words: Sequence[str]) -> Sequence[Any]:
    """Numbers where all are numbers, so that 10 comes after 9."""
    try:
        return [float(word) for word in words]
    except ValueError:
        return list(words)
