"""A Hugging Face dataset on disk (``save_to_disk``), read with only pyarrow: ``stream=hf``.

The layout is a folder per split with Arrow files, ``state.json`` (list of files) and
``dataset_info.json`` (types of the columns), and ``dataset_dict.json`` in the parent folder. A
dataset without splits is one such folder.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clframe.core.stream import Scenario, Stream
from clframe.data.stream_from import By, Split
from clframe.errors import ClframeError, DataError, SettingError, nearest
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry, read_object
from clframe.streams.custom.stream import stream_of
from clframe.utils.inside import inside

_TESTS = ("test", "validation", "valid", "val")
_LABELS = ("label", "labels", "fine_label", "target", "class")


def hf(
    path: str,
    seed: int = 0,
    scenario: Scenario | None = None,
    by: By = "class",
    column: str | None = None,
    groups: list[Any] | None = None,
    n_experiences: int | None = None,
    test_fraction: float = 0.2,
    image: str | None = None,
    label: str | None = None,
    train: str = "train",
    test: str | None = None,
    images: ImageSettings = ImageSettings(),
) -> Stream:
    """A Hugging Face dataset on disk, written by ``save_to_disk``: images with labels.

    Args:
        path: The folder written by ``save_to_disk``.
        seed: The seed of the held-out images.
        scenario: class, task or domain; null is class if classes divide the data, else domain.
        by: What divides the data: ``class``, ``domain`` (values of a column, one experience each)
            or ``time`` (values of a column in ascending order, cut into equal parts).
        column: The column with the domain or time; null is the column ``domain`` or ``time``.
        groups: Classes or domains of each experience, in order; null uses all in ascending order.
        n_experiences: Number of experiences; null is 5, or the number of classes if that is less.
        test_fraction: Share of each class for testing, if there is no test split.
        image: The column with the images; null is the only image column.
        label: The column with the classes; null is the one named label, labels or fine_label.
        train: The training split.
        test: The test split; null is test or validation, or a part of the training split if there
            is neither.
        images: How images are read.
    """
    root = Path(path).expanduser()
    if column is not None and by == "class":
        raise SettingError("stream.column needs stream.by=domain or time")
    entries = read_hf(root, image, label, train, test, None if by == "class" else column or by)
    split = Split(by, groups, n_experiences, scenario, test_fraction, None, seed)
    return stream_of("hf", entries, split, None if by == "class" else column or by, root, images)


@dataclass(frozen=True)
class TableRow:
    """An image in a row of a table.

    Args:
        column: The column of the table.
        number: The number of the row.
        folder: The folder of the table.
    """

    column: Any
    number: int
    folder: Path

    def __str__(self) -> str:
        return f"row {self.number} of {self.folder}"

    def stored(self) -> bytes:
        """Return the file or the pixels of the row, as bytes."""
        value = self.content()
        if isinstance(value, Path):
            return value.read_bytes()
        return value.getvalue() if isinstance(value, io.BytesIO) else bytes(value.tobytes())

    def content(self) -> Any:
        """Return a file in memory, the path of a file, or pixels."""
        value = self.column[self.number].as_py()
        if isinstance(value, dict):
            if value.get("bytes"):
                return io.BytesIO(value["bytes"])
            if value.get("path"):
                try:
                    return inside(self.folder, str(value["path"]), "it")
                except DataError as error:
                    raise OSError(str(error)) from error
            raise OSError("it holds neither bytes nor a path")
        if isinstance(value, bytes):
            return io.BytesIO(value)
        if value is None:
            raise OSError("it is empty")
        pixels = np.asarray(value)
        if pixels.dtype.kind not in "iu" or pixels.min() < 0 or pixels.max() > 255:
            raise OSError(f"it holds {pixels.dtype} numbers that are not pixels of 0 to 255")
        if pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3):
            pixels = pixels.transpose(1, 2, 0)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        if pixels.ndim not in (2, 3):
            raise OSError(f"it holds an array of shape {pixels.shape}, which is not an image")
        return pixels.astype(np.uint8)


def read_hf(
    root: Path,
    image: str | None = None,
    label: str | None = None,
    train: str = "train",
    test: str | None = None,
    column: str | None = None,
) -> list[Entry]:
    """List the images of a dataset on disk without opening them.

    Raises:
        DataError: It is not such a dataset, or holds something that cannot be read.
    """
    splits = _splits(root)
    if set(splits) == {""}:
        return _entries(splits[""], None, image, label, column)
    if train not in splits:
        raise DataError(f"'{root}' has no split '{train}'; {nearest(train, splits)}")
    chosen = test or next((name for name in _TESTS if name in splits and name != train), None)
    if chosen is None:
        return _entries(splits[train], None, image, label, column)
    if chosen not in splits:
        raise DataError(f"'{root}' has no split '{chosen}'; {nearest(chosen, splits)}")
    return [
        *_entries(splits[train], TRAIN, image, label, column),
        *_entries(splits[chosen], TEST, image, label, column),
    ]


def _splits(root: Path) -> Mapping[str, Path]:
    """Return the folder of each split; a dataset without splits has one with an empty name."""
    if (root / "state.json").is_file():
        return {"": root}
    if not (root / "dataset_dict.json").is_file():
        raise DataError(
            f"'{root}' is not a Hugging Face dataset on disk: it has neither dataset_dict.json nor "
            "state.json; write one with datasets.load_dataset(...).save_to_disk(DIR)"
        )
    names = read_object(root / "dataset_dict.json").get("splits")
    if not isinstance(names, list) or not names:
        raise DataError(f"'{root / 'dataset_dict.json'}' lists no split")
    where = f"'{root / 'dataset_dict.json'}'"
    return {str(name): inside(root, str(name), where) for name in names}


def _entries(
    folder: Path, split: str | None, image: str | None, label: str | None, part: str | None
) -> list[Entry]:
    table = _table(folder)
    features = read_object(folder / "dataset_info.json").get("features") or {}
    if not isinstance(features, dict) or not all(
        isinstance(kind or {}, dict) for kind in features.values()
    ):
        features = {}  # an unknown format: use the columns instead
    column_names = list(table.column_names)
    image = image or _only_image(folder, table, features)
    label = label or next((name for name in _LABELS if name in column_names), "label")
    for column in (image, label, *([part] if part else [])):
        if column not in column_names:
            raise DataError(f"'{folder}' has no column '{column}'; {nearest(column, column_names)}")
    labels = _labels(folder, label, table[label].to_pylist(), features.get(label) or {})
    values = None if part is None else table[part].to_pylist()
    images = table[image]
    return [
        Entry(
            TableRow(images, number, folder),
            name,
            split,
            {} if values is None or values[number] is None else {str(part): str(values[number])},
        )
        for number, name in enumerate(labels)
    ]


def _only_image(folder: Path, table: Any, features: Mapping[str, Any]) -> str:
    columns = [name for name, kind in features.items() if (kind or {}).get("_type") == "Image"]
    if not columns:
        columns = [
            field.name
            for field in table.schema
            if str(field.type).startswith(
                ("struct<bytes", "binary", "list<item: list", "extension")
            )
        ]
    if len(columns) != 1:
        which = f"several ({', '.join(columns)})" if columns else "none"
        raise DataError(
            f"'{folder}' should have one column of images, but has {which}; choose one with "
            "stream.image=COLUMN"
        )
    return columns[0]


def _labels(
    folder: Path, column: str, values: Sequence[Any], feature: Mapping[str, Any]
) -> list[str | int]:
    names = feature.get("names")
    labels: list[str | int] = []
    for number, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise DataError(
                f"row {number} of '{folder}': '{column}' is {value!r}; a label is a whole number "
                "or a name"
            )
        if names and isinstance(value, int):
            if not 0 <= value < len(names):
                raise DataError(
                    f"row {number} of '{folder}': label {value} is out of range; "
                    f"'{column}' has {len(names)} names"
                )
            labels.append(str(names[value]))
        else:
            labels.append(value)
    return labels


def _table(folder: Path) -> Any:
    """Return all rows of a split, memory-mapped."""
    pa = _pyarrow()
    state = read_object(folder / "state.json")
    if state.get("_indices_data_files"):
        raise DataError(
            f"'{folder}' stores its rows with a separate index; call flatten_indices() and save it "
            "again"
        )
    data_files = state.get("_data_files") or []
    if not isinstance(data_files, list) or not all(isinstance(entry, dict) for entry in data_files):
        raise DataError(f"'{folder / 'state.json'}': '_data_files' must list objects")
    files = [str(entry.get("filename")) for entry in data_files]
    if not files:
        raise DataError(f"'{folder / 'state.json'}' lists no data file")
    tables = []
    for name in files:
        try:
            mapped = pa.memory_map(str(inside(folder, name, f"'{folder / 'state.json'}'")))
            try:
                tables.append(pa.ipc.open_stream(mapped).read_all())
            except pa.ArrowInvalid:
                tables.append(pa.ipc.open_file(mapped).read_all())
        except (OSError, pa.ArrowException) as error:
            line = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"cannot read data file '{folder / name}': {line}") from error
    table = pa.concat_tables(tables)
    if not len(table):
        raise DataError(f"'{folder}' holds no row")
    return table


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise ClframeError(
            "stream=hf needs pyarrow; install it with: pip install 'clframe[lerobot]'"
        ) from error
    return pyarrow
