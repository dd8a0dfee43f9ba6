"""Frames that are named in text files: the challenge's ``label.csv`` and the lists of batches.

The lists also exist as pickles; those are never opened, since a pickle can run code.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from clframe.errors import DataError
from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames.clips import MIXTURE, Clip, images_of, natural, place_of

_LIST = re.compile(r"(?:(train|validation|test)_batch_?(\d+)|(train|validation|test))\.txt")
_FILE_COLUMNS = ("file name", "file_name", "filename", "file")

Folders = Mapping[str, list[str]]
Row = tuple[int, str, int, PurePosixPath]
"""Number of the batch, split, instance, and path relative to the root."""


def read_label_files(root: Path, folders: Folders) -> list[Clip]:
    """The clips that the challenge's ``label.csv`` files name.

    A file that is listed and not there stays in its clip: reading it will name it.

    Raises:
        DataError: A ``label.csv`` has other columns or a label that is no instance.
    """
    rows: list[Row] = []
    for folder, files in folders.items():
        place = place_of(folder)
        if place.tree != "rgb" or (place.split is None and place.batch is None):
            continue
        for name in files:
            if name.lower() != "label.csv":
                continue
            home = PurePosixPath(folder)
            where = _by_name(home, folders)
            for listed, label in _read_csv(root / folder / name):
                path = home / listed
                if path.name not in folders.get(path.parent.as_posix(), ()):
                    path = where.get(path.name, path)
                image_place = place_of(path.parent.as_posix())
                if image_place.batch is not None:
                    rows.append((image_place.batch, image_place.split or "train", label, path))
    return _clips(MIXTURE, rows)


def read_batch_lists(root: Path, folders: Folders, skip: set[str]) -> list[Clip]:
    """The clips that the lists in ``batches_filelists`` name, of groups not known already.

    There is one list of test images for all batches; an image belongs to the batch that trains on
    its neighbors, the frames of the same folder but for the split.

    Raises:
        DataError: A line is not a path and a label.
    """
    clips: list[Clip] = []
    for folder, files in folders.items():
        parts = PurePosixPath(folder).parts
        if "batches_filelists" not in parts:
            continue
        last = parts[-1].lower()
        group = MIXTURE if last in ("iros", "mixture") else last
        if group in skip or group not in (*catalog.FACTORS, MIXTURE):
            continue
        base = PurePosixPath(*parts[: parts.index("batches_filelists")])
        rows: list[Row] = []
        whole: list[tuple[str, int, PurePosixPath]] = []
        for name in natural(files):
            match = _LIST.fullmatch(name.lower())
            if match is None:
                continue
            lines = _read_list(root / folder / name, base)
            if match[2] is not None:
                rows += [(int(match[2]) + 1, match[1], label, path) for path, label in lines]
            else:
                whole += [(match[3], label, path) for path, label in lines]
        batch_of: dict[tuple[str, ...], int] = {}
        for number, _, _, path in sorted(rows, reverse=True):
            batch_of[_without_split(path)] = number
        rows += [
            (batch_of[_without_split(path)], split, label, path)
            for split, label, path in whole
            if _without_split(path) in batch_of
        ]
        clips += _clips(group, rows)
    return clips


def _clips(group: str, rows: Iterable[Row]) -> list[Clip]:
    names: dict[tuple[int, str, int, str], list[str]] = defaultdict(list)
    for number, split, instance, path in rows:
        names[number, split, instance, path.parent.as_posix()].append(path.name)
    return [
        Clip(group, number, split, instance, folder, natural(files), listed=True)
        for (number, split, instance, folder), files in names.items()
    ]


def _by_name(home: PurePosixPath, folders: Folders) -> dict[str, PurePosixPath]:
    """Images anywhere below a folder by their own name, for lists without folders."""
    paths: dict[str, PurePosixPath] = {}
    for folder, files in folders.items():
        place = PurePosixPath(folder)
        if place == home or home in place.parents:
            paths.update({name: place / name for name in images_of(files)})
    return paths


def _without_split(path: PurePosixPath) -> tuple[str, ...]:
    return tuple(p for p in path.parent.parts if p.lower() not in ("train", "validation", "test"))


def _read_csv(path: Path) -> list[tuple[str, int]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = list(csv.DictReader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{path}' cannot be read: {error}") from error
    rows = []
    for line, entry in enumerate(table, start=2):
        values = {str(key).strip().lower(): value for key, value in entry.items()}
        name = next((values[column] for column in _FILE_COLUMNS if values.get(column)), None)
        if name is None:
            raise DataError(
                f"'{path}' line {line} names no file; its columns must be 'file name' and 'label', "
                f"they are {', '.join(repr(key) for key in values)}"
            )
        rows.append((name.strip().replace("\\", "/"), _label(values.get("label"), path, line)))
    return rows


def _read_list(path: Path, base: PurePosixPath) -> list[tuple[PurePosixPath, int]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"'{path}' cannot be read: {error}") from error
    number_of = {name: index for index, name in enumerate(catalog.instances())}
    rows = []
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        name, _, label = text.strip().rpartition(" ")
        if not name:
            raise DataError(f"'{path}' line {line} must be a path and a label, got '{text}'")
        image = base / name.strip().replace("\\", "/").lstrip("/")
        # The folder's name is plainer than the number, where it is an instance's.
        named = [number_of[part] for part in image.parts if part in number_of]
        rows.append((image, named[-1] if named else _label(label, path, line)))
    return rows


def _label(text: str | None, path: Path, line: int) -> int:
    try:
        label = int(float(text or ""))
    except ValueError:
        label = -1
    if not 0 <= label < len(catalog.instances()):
        raise DataError(
            f"'{path}' line {line} has the label '{text}', which must be a whole number from 0 to "
            f"{len(catalog.instances()) - 1}"
        )
    return label
