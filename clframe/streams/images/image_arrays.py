"""Image datasets as compact tensors: found in the data folder, downloaded, or embedded.

Files are read from where torchvision stores them (``MNIST/raw``, ``FashionMNIST/raw``,
``cifar-10-batches-py``, ``cifar-100-python``), CIFAR also in its binary layout. MNIST's format is
parsed here, so that plain and gzipped files work and errors name a damaged file.
"""

from __future__ import annotations

import functools
import gzip
import importlib.resources
import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from clframe.data.dataset import TensorSource
from clframe.errors import DataError
from clframe.streams.images import cifar_binary

_IDX_FOLDER = {"mnist": "MNIST/raw", "fashion_mnist": "FashionMNIST/raw"}
_CIFAR_FOLDER = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
_TORCHVISION = {
    "mnist": "MNIST",
    "fashion_mnist": "FashionMNIST",
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
}


@dataclass(frozen=True, eq=False)
class Images:
    """A labelled image dataset in memory: uint8, channels first."""

    train: TensorSource
    train_labels: Tensor
    test: TensorSource
    test_labels: Tensor
    shape: tuple[int, int, int]
    n_classes: int
    source: str


def load_images(dataset: str, data_dir: Path, download: bool) -> Images:
    """Load a dataset from the data folder, by download, or from the package.

    Raises:
        DataError: There is no usable data; the message tells which files to put where.
    """
    if data_dir.exists() and not data_dir.is_dir():
        raise DataError(f"data_dir '{data_dir}' is a file; it must be a folder")
    if dataset in _IDX_FOLDER:
        folder = data_dir / _IDX_FOLDER[dataset]
        if not _idx_files(folder) and download:
            _download(dataset, data_dir)
        if _idx_files(folder):
            return _load_idx(dataset, folder.resolve())
        if dataset == "mnist":
            return _load_embedded()
        raise DataError(
            f"{dataset} is not in '{folder}'; put its four idx files (gzipped or not) there or set "
            "download=true. stream=split_mnist runs on embedded data without any file"
        )
    return _load_cifar(dataset, data_dir, download)


def _idx_files(folder: Path) -> dict[str, Path]:
    """Return the four files of an MNIST-like dataset, or none unless all exist."""
    files = {}
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            stem = f"{part}-{kind}-ubyte"
            for name in (stem, f"{stem}.gz"):
                if (folder / name).is_file():
                    files[f"{part}-{kind}"] = folder / name
                    break
            else:
                return {}
    return files


def read_idx(path: Path, dimensions: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Read one idx file of unsigned bytes.

    Raises:
        DataError: The file cannot be read, is truncated or is not an idx file.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read data file '{path}': {error}") from error
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, 8, dimensions]):
        raise DataError(
            f"data file '{path}' is not an idx file of bytes with {dimensions} dimension(s); "
            "replace it with the original"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != int(np.prod(shape)):
        raise DataError(
            f"data file '{path}' is truncated: its header promises {int(np.prod(shape))} bytes, "
            f"but it has {len(content) - header}; replace it with the original"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


@functools.lru_cache(maxsize=2)
def _load_idx(dataset: str, folder: Path) -> Images:
    files = _idx_files(folder)
    arrays = {key: read_idx(path, 3 if "images" in key else 1) for key, path in files.items()}
    for part in ("train", "t10k"):
        images, labels = arrays[f"{part}-images-idx3"], arrays[f"{part}-labels-idx1"]
        if len(images) != len(labels):
            raise DataError(
                f"data files in '{folder}' do not match: {len(images)} {part} images, "
                f"{len(labels)} labels"
            )
    return _images(
        arrays["train-images-idx3"][:, None],
        arrays["train-labels-idx1"],
        arrays["t10k-images-idx3"][:, None],
        arrays["t10k-labels-idx1"],
        f"{dataset} from the data folder",
    )


@functools.lru_cache(maxsize=1)
def _load_embedded() -> Images:
    resource = importlib.resources.files("clframe.embedded") / "mnist_mini.npz"
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return _images(
            arrays["train_x"][:, None],
            arrays["train_y"],
            arrays["test_x"][:, None],
            arrays["test_y"],
            "mnist, embedded subset (500 training and 100 test images of each digit)",
        )


def _load_cifar(dataset: str, data_dir: Path, download: bool) -> Images:
    from torchvision import datasets

    loader = getattr(datasets, _TORCHVISION[dataset])
    folder = data_dir / _CIFAR_FOLDER[dataset]
    layout = cifar_binary.LAYOUTS[dataset]
    binary = data_dir / layout.folder
    if not folder.is_dir() and binary.is_dir():
        return _images(
            *cifar_binary.read_split(binary, layout, training=True),
            *cifar_binary.read_split(binary, layout, training=False),
            f"{dataset} from the data folder",
        )
    if not folder.is_dir() and not download:
        fetch = "run 'clframe data get cifar10', " if dataset == "cifar10" else ""
        raise DataError(
            f"{dataset} is not in '{data_dir}'; {fetch}put the official Python files into "
            f"'{folder.name}' or the binary ones into '{binary.name}', or set download=true. "
            "stream=split_mnist runs on embedded data without any file"
        )
    if not folder.is_dir():
        _download(dataset, data_dir)
    try:
        train, test = loader(data_dir, train=True), loader(data_dir, train=False)
    except Exception as error:  # torchvision checks sums and raises several kinds
        raise DataError(
            f"cannot read {dataset} in '{folder}': {error}; replace it with the original files"
        ) from error
    return _images(
        train.data.transpose(0, 3, 1, 2),
        np.array(train.targets),
        test.data.transpose(0, 3, 1, 2),
        np.array(test.targets),
        f"{dataset} from the data folder",
    )


def _download(dataset: str, data_dir: Path) -> None:
    from torchvision import datasets

    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        getattr(datasets, _TORCHVISION[dataset])(data_dir, download=True)
    except Exception as error:  # no network, no disk space, or an HTML page instead of a file
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        warnings.warn(f"cannot download {dataset} ({reason})", stacklevel=2)


def _images(
    train_x: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    train_y: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    test_x: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    test_y: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    source: str,
) -> Images:
    channels, height, width = train_x.shape[1:]
    return Images(
        train=TensorSource(torch.from_numpy(np.ascontiguousarray(train_x).copy())),
        train_labels=torch.from_numpy(train_y.astype(np.int64)),
        test=TensorSource(torch.from_numpy(np.ascontiguousarray(test_x).copy())),
        test_labels=torch.from_numpy(test_y.astype(np.int64)),
        shape=(channels, height, width),
        n_classes=int(train_y.max()) + 1,
        source=source,
    )
