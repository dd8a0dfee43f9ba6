"""TinyImageNet: 200 classes of ImageNet, 64 pixels wide."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from clframe.core.stream import Scenario, Stream
from clframe.errors import DataError
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry
from clframe.streams.datasets.folder_layout import Layout, by_class, images_in, lines


def tiny_imagenet(
    data_dir: Path,
    path: str | None = None,
    seed: int = 0,
    scenario: Scenario | None = None,
    n_experiences: int = 10,
    class_order: str | None = None,
    images: ImageSettings = ImageSettings(),
) -> Stream:
    """TinyImageNet: 200 classes, 500 training images each; the validation set is for testing.

    Le & Yang, "Tiny ImageNet Visual Recognition Challenge" (2015). The labels of its test set are
    not published.

    Args:
        data_dir: The data folder.
        path: The folder ``tiny-imagenet-200``; null is the one in the data folder.
        seed: The seed of a shuffled class order.
        scenario: class or task; null is class.
        n_experiences: Number of experiences; classes are distributed as evenly as possible.
        class_order: null for the alphabetical order of names, or ``shuffled``.
        images: How to read images.
    """
    root = LAYOUT.place(path, data_dir)
    return by_class(LAYOUT, read(root), root, images, seed, scenario, n_experiences, class_order)


def read(root: Path) -> list[Entry]:
    """List the images of train, and of val from its list."""
    train, val = root / "train", root / "val"
    if not train.is_dir():
        raise LAYOUT.missing(root, "the folder train")
    names = class_names(root / "words.txt")
    folders = sorted(folder for folder in train.iterdir() if folder.is_dir())
    titles = _titles([folder.name for folder in folders], names)
    entries = [
        Entry(image, titles[folder.name], TRAIN, {})
        for folder in folders
        for image in images_in(folder)
    ]
    annotations = val / "val_annotations.txt"
    if annotations.is_file():
        for number, fields in lines(annotations):
            if len(fields) < 2 or fields[1] not in titles:
                raise DataError(
                    f"list '{annotations}', line {number}: expected an image and the name of a "
                    "class in train"
                )
            entries.append(Entry(val / "images" / fields[0], titles[fields[1]], TEST, {}))
        return entries
    own = [folder for folder in folders if (val / folder.name).is_dir()]
    if not own:
        raise LAYOUT.missing(root, "the list val/val_annotations.txt")
    return entries + [
        Entry(image, titles[folder.name], TEST, {})
        for folder in own
        for image in images_in(val / folder.name)
    ]


def class_names(path: Path) -> dict[str, str]:
    """Return the first name of each WordNet number in a list; empty if there is no list."""
    if not path.is_file():
        return {}
    names = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        number, _, titles = line.partition("\t")
        names[number] = titles.partition(",")[0].strip()
    return names


def _titles(numbers: list[str], names: dict[str, str]) -> dict[str, str]:
    """Return the titles of classes: their name if it is unique, else their number."""
    titles = {number: names.get(number) or number for number in numbers}
    counts = Counter(titles.values())
    return {number: name if counts[name] == 1 else number for number, name in titles.items()}


LAYOUT = Layout(
    "tiny_imagenet",
    "TinyImageNet",
    "tiny-imagenet-200",
    "the folders train (CLASS/images/...) and val (images and val_annotations.txt)",
    read,
)
