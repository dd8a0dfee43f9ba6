"""ImageNet-R: renditions (art, cartoons, toys, ...) of 200 classes of ImageNet."""

from __future__ import annotations

from pathlib import Path

from clframe.core.stream import Scenario, Stream
from clframe.errors import DataError
from clframe.streams.custom.image_data import PictureSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry
from clframe.streams.datasets.folder_layout import Layout, by_class, lines, pictures_in
from clframe.streams.datasets.tiny_imagenet import class_names


def imagenet_r(
    data_dir: Path,
    path: str | None = None,
    seed: int = 0,
    scenario: Scenario | None = None,
    n_experiences: int = 10,
    class_order: str | None = "shuffled",
    split_seed: int = 0,
    pictures: PictureSettings = PictureSettings(size=224),
) -> Stream:
    """ImageNet-R: 200 classes of renditions, 30,000 pictures, a fifth of them tested on.

    Hendrycks et al., "The Many Faces of Robustness" (2021), as a stream of Wang et al.,
    "DualPrompt" (2022). It is published without a split; 80 of 100 are learned, drawn within each
    class by ``split_seed`` and so the same whatever the run's seed. Where the folder has
    ``train.txt`` and ``test.txt`` (CLASS/picture in each line), or folders ``train`` and ``test``,
    those decide.

    Args:
        data_dir: The data folder.
        path: The folder ``imagenet-r``; null is the one in the data folder.
        seed: Of a shuffled class order.
        scenario: class or task; null is class.
        n_experiences: How many; classes are shared out as evenly as can be.
        class_order: ``shuffled``, or null for the alphabetical order of names.
        split_seed: Of the pictures that are tested on.
        pictures: How pictures are read.
    """
    root = LAYOUT.place(path, data_dir)
    return by_class(
        LAYOUT,
        read(root),
        root,
        pictures,
        seed,
        scenario,
        n_experiences,
        class_order,
        split_seed=split_seed,
    )


def read(root: Path) -> list[Entry]:
    """The pictures of all classes, split where the folder says how."""
    names = class_names(root / "words.txt")
    parts: list[tuple[list[Path], str | None]] = []
    if (root / "train.txt").is_file() and (root / "test.txt").is_file():
        for split in (TRAIN, TEST):
            listed = [root / words[0] for _, words in lines(root / f"{split}.txt")]
            parts.append((listed, split))
    elif (root / "train").is_dir() and (root / "test").is_dir():
        parts += [(pictures_in(root / split), split) for split in (TRAIN, TEST)]
    else:
        parts.append((pictures_in(root), None))
    entries = []
    for pictures, of_split in parts:
        for picture in pictures:
            folder = picture.parent.name
            if not (folder.startswith("n") and folder[1:].isdigit()):
                raise DataError(
                    f"'{picture}' should be in a folder named after its class, such as n01443537"
                )
            entries.append(Entry(picture, names.get(folder) or folder, of_split, {}))
    if not entries:
        raise LAYOUT.missing(root, "pictures")
    return entries


LAYOUT = Layout(
    "imagenet_r",
    "ImageNet-R",
    "imagenet-r",
    "its 200 folders (n01443537, ...) of pictures",
    read,
)
