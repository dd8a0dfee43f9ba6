"""List images and their labels from folders, or from a CSV or JSON list."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clframe.errors import DataError, nearest
from clframe.streams.custom.image_data import ImageSource
from clframe.utils.regular import parse_json, read_json, read_text

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
TRAIN, TEST = "train", "test"
_LONGEST = 4096
"""Longest path in characters that a system opens."""
_SPLITS = {
    "train": TRAIN,
    "training": TRAIN,
    "test": TEST,
    "val": TEST,
    "valid": TEST,
    "validation": TEST,
}


@dataclass(frozen=True)
class Entry:
    """One image.

    Args:
        path: The file, or the table row that holds it.
        label: Its class.
        split: ``train``, ``test``, or None if unknown.
        columns: Other properties by name: domain, time.
    """

    path: ImageSource
    label: str | int
    split: str | None
    columns: Mapping[str, str]


def read_folder(root: Path) -> list[Entry]:
    """List the images below a folder, labelled by the names of their folders.

    The layout is ``CLASS/image`` or ``DOMAIN/CLASS/image``, optionally below ``train`` and ``test``
    (or ``val``): the folder of an image is its class, the one above it, if any, its domain.

    Raises:
        DataError: The folder does not exist or holds no image, or the depths differ.
    """
    if not root.is_dir():
        raise DataError(f"there is no folder '{root}'; set stream.path to a folder of images")
    paths = sorted(_images(root))
    for path in paths:
        _check_encoding(path)
    entries = [_placed(root, path) for path in paths]
    if not entries:
        raise DataError(
            f"folder '{root}' holds no image; it should have a folder for each class, with files "
            f"ending in {', '.join(SUFFIXES[:3])} ..."
        )
    deep = {entry.path for entry in entries if "domain" in entry.columns}
    if deep and len(deep) < len(entries):
        flat = next(entry.path for entry in entries if entry.path not in deep)
        raise DataError(
            f"some images of '{root}' are in DOMAIN/CLASS folders ('{min(map(str, deep))}'), "
            f"others in CLASS folders ('{flat}'); use one layout"
        )
    splits = {entry.split for entry in entries}
    if None in splits and len(splits) > 1:
        stray = next(entry.path for entry in entries if entry.split is None)
        raise DataError(f"'{stray}' must be below train or test, as the other images are")
    return entries


def _images(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            yield path


def _check_encoding(path: Path) -> None:
    """Reject names that the files of a run could not store."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise DataError(
            f"'{path}' has a name that is not UTF-8; rename the file or its folder"
        ) from None


def _placed(root: Path, path: Path) -> Entry:
    folders = list(path.relative_to(root).parts[:-1])
    split = _SPLITS.get(folders[0].lower()) if len(folders) > 1 else None
    if split is not None:
        folders = folders[1:]
    if not 1 <= len(folders) <= 2:
        raise DataError(
            f"'{path}' should be in a folder named after its class, CLASS/image or "
            f"DOMAIN/CLASS/image below '{root}'"
        )
    columns = {"domain": folders[0]} if len(folders) == 2 else {}
    return Entry(path, folders[-1], split, columns)


def read_list(path: Path, file_column: str, label_column: str) -> list[Entry]:
    """List the images of a CSV file with a heading, a JSON list of objects, or JSON lines.

    Files are relative to the list's folder. A column ``split`` holds train or test; other columns
    are kept.

    Raises:
        DataError: The list cannot be read, or a row lacks a value; the message names the row.
    """
    rows = _rows(path)
    if not rows:
        raise DataError(f"list '{path}' holds no row")
    columns = list(rows[0])
    for column in (file_column, label_column):
        if column not in columns:
            raise DataError(f"list '{path}' has no column '{column}'; {nearest(column, columns)}")
    entries = []
    for number, row in enumerate(rows, 1):
        for column in (file_column, label_column):
            if row.get(column) in (None, ""):
                raise DataError(f"list '{path}', row {number}: '{column}' is empty")
        split = str(row.get("split") or "").lower()
        if split and split not in _SPLITS:
            raise DataError(
                f"list '{path}', row {number}: split is '{row['split']}', but should be train "
                "or test"
            )
        others = {
            key: str(value)
            for key, value in row.items()
            if key not in (file_column, label_column, "split") and value is not None
        }
        name = str(row[file_column])
        if len(name) > _LONGEST:
            raise DataError(f"list '{path}', row {number}: '{name[:40]}...' is not a file name")
        file = path.parent / name
        entries.append(Entry(file, str(row[label_column]), _SPLITS.get(split), others))
    return entries


def named(entries: Sequence[Entry], names: Sequence[str], path: Path) -> list[Entry]:
    """Replace the numbers of classes by names.

    Raises:
        DataError: A label is not a number or has no name; the message names the row.
    """
    renamed = []
    for row, entry in enumerate(entries, 1):
        number = int(entry.label) if str(entry.label).isdigit() else -1
        if not 0 <= number < len(names):
            raise DataError(
                f"list '{path}', row {row}: label {entry.label!r} is out of range; class_names has "
                f"{len(names)} names, so labels are 0 to {len(names) - 1}"
            )
        renamed.append(dataclasses.replace(entry, label=names[number]))
    return renamed


def _rows(path: Path) -> Sequence[Mapping[str, Any]]:
    if not path.is_file():
        raise DataError(f"there is no file '{path}'; set stream.path to a CSV or JSON list")
    try:
        text = read_text(path).removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read list '{path}': {error}") from error
    if path.suffix.lower() == ".csv":
        try:
            return list(csv.DictReader(text.splitlines()))
        except csv.Error as error:
            raise DataError(f"list '{path}' is not CSV: {error}") from error
    try:
        if path.suffix.lower() == ".jsonl":
            rows = [parse_json(line) for line in text.splitlines() if line.strip()]
        else:
            rows = parse_json(text)
    except ValueError as error:
        raise DataError(f"list '{path}' is not JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"list '{path}' should be a list of objects with a file and a label each")
    return rows


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        DataError: The file cannot be read, or does not hold an object.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read '{path}': {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"'{path}' should hold a JSON object")
    return content
