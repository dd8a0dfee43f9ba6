"""Build the embedded MNIST subset: the first 500 training and 100 test images of each digit.

    python scripts/make_mnist_mini.py FOLDER OUTPUT.npz

FOLDER holds the four original idx files, gzipped or not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from clframe.streams.images.image_arrays import read_idx


def first_of_each(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """Indices, in file order, of the first images of each digit."""
    return np.sort(np.concatenate([np.flatnonzero(y == digit)[:count] for digit in range(10)]))


def main(folder: Path, output: Path) -> None:
    """Read the original files and write the subset."""

    def read(name: str, dimensions: int) -> np.ndarray:
        plain = folder / name
        return read_idx(plain if plain.is_file() else plain.with_name(name + ".gz"), dimensions)

    arrays = {}
    for part, key, count in (("train", "train", 500), ("t10k", "test", 100)):
        x = read(f"{part}-images-idx3-ubyte", 3)
        y = read(f"{part}-labels-idx1-ubyte", 1)
        chosen = first_of_each(x, y, count)
        arrays[f"{key}_x"], arrays[f"{key}_y"] = x[chosen], y[chosen]
    np.savez_compressed(output, **arrays)
    print(f"{output}: {output.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
