"""CUB-200-2011: two hundred species of birds."""

from __future__ import annotations

from pathlib import Path

from clframe.core.stream import Scenario, Stream
from clframe.errors import DataError
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry
from clframe.streams.datasets.folder_layout import Layout, by_class, pairs


def cub200(
    data_dir: Path,
    path: str | None = None,
    seed: int = 0,
    scenario: Scenario | None = None,
    n_experiences: int = 10,
    class_order: str | None = "shuffled",
    images: ImageSettings = ImageSettings(size=224),
) -> Stream:
    """CUB-200-2011: 200 species of birds, about 30 images each for training and for testing.

    Wah et al., "The Caltech-UCSD Birds-200-2011 Dataset" (2011), with its own split.

    Args:
        data_dir: The data folder.
        path: The folder ``CUB_200_2011``; null is the one in the data folder.
        seed: The seed of a shuffled class order.
        scenario: class or task; null is class.
        n_experiences: Number of experiences; classes are distributed as evenly as possible.
        class_order: ``shuffled``, or null for the published order.
        images: How to read images.
    """
    root = LAYOUT.place(path, data_dir)
    return by_class(LAYOUT, read(root), root, images, seed, scenario, n_experiences, class_order)


def read(root: Path) -> list[Entry]:
    """List the images in the lists; classes have published names (001.Laysan_Albatross)."""
    lists = ("images.txt", "image_class_labels.txt", "train_test_split.txt")
    for name in lists:
        if not (root / name).is_file():
            raise LAYOUT.missing(root, f"the list {name}")
    paths, classes, trained = (dict(pairs(root / name)) for name in lists)
    names = dict(pairs(root / "classes.txt")) if (root / "classes.txt").is_file() else {}
    entries = []
    for number, path in paths.items():
        if number not in classes or trained.get(number) not in ("0", "1"):
            raise DataError(
                f"image {number} of '{root / lists[0]}' has no class in {lists[1]} or no 0 or 1 "
                f"in {lists[2]}"
            )
        label = classes[number]
        if names and label not in names:
            raise DataError(
                f"'{root / lists[1]}': class {label} of image {number} is out of range; "
                f"classes.txt has {len(names)}"
            )
        split = TRAIN if trained[number] == "1" else TEST
        entries.append(Entry(root / "images" / path, names.get(label, label), split, {}))
    if not entries:
        raise LAYOUT.missing(root, "images in images.txt")
    return entries


LAYOUT = Layout(
    "cub200",
    "CUB-200-2011",
    "CUB_200_2011",
    "images, images.txt, image_class_labels.txt, train_test_split.txt and classes.txt",
    read,
)
