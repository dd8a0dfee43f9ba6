"""CIFAR-10 and CIFAR-100 in their binary layout: labels and pixels as plain bytes, no pickle.

Each row of a file has one label byte (CIFAR-100: the coarse label, then the fine one) and 3,072
bytes of pixels, channels first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Layout:
    """The files of a dataset and the format of their rows.

    Args:
        folder: The folder below the data folder.
        train: Names of the training files, in order.
        test: Name of the test file.
        label_bytes: Bytes before the pixels; the last of them is the class.
        classes: Number of classes.
    """

    folder: str
    train: tuple[str, ...]
    test: str
    label_bytes: int
    classes: int


LAYOUTS = {
    "cifar10": Layout(
        "cifar-10-batches-bin",
        tuple(f"data_batch_{n}.bin" for n in range(1, 6)),
        "test_batch.bin",
        1,
        10,
    ),
    "cifar100": Layout("cifar-100-binary", ("train.bin",), "test.bin", 2, 100),
}


def read_rows(path: Path, layout: Layout) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images (channels first) and labels of one file.

    Raises:
        DataError: It cannot be read, is truncated, or has a label out of range.
    """
    try:
        content = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise DataError(f"cannot read data file '{path}': {error}") from error
    width = layout.label_bytes + PIXELS
    if not len(content) or len(content) % width:
        raise DataError(
            f"data file '{path}' has {len(content):,} bytes, which is not a multiple of the row "
            f"size {width:,}; replace it with the original"
        )
    rows = content.reshape(-1, width)
    labels = rows[:, layout.label_bytes - 1]
    if labels.max() >= layout.classes:
        row = int(labels.argmax())
        raise DataError(
            f"data file '{path}', row {row}: label {labels[row]} is out of range; classes are 0 to "
            f"{layout.classes - 1}"
        )
    return rows[:, layout.label_bytes :].reshape(-1, 3, 32, 32), labels


def read_split(
    folder: Path, layout: Layout, training: bool
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return all images and labels for training or for testing."""
    names = layout.train if training else (layout.test,)
    parts = [read_rows(folder / name, layout) for name in names]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
