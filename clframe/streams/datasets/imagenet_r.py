"""ImageNet-R: renditions (art, cartoons, toys, ...) of 200 classes of ImageNet."""

from __future__ import annotations

from pathlib import Path

from clframe.core.stream import Scenario, Stream
from clframe.errors import DataError
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry
from clframe.streams.datasets.folder_layout import Layout, by_class, images_in, lines
from clframe.streams.datasets.tiny_imagenet import class_names


def imagenet_r(
    data_dir: Path,
    path: str | None = None,
    seed: int = 0,
    scenario: Scenario | None = None,
    n_experiences: int = 10,
    class_order: str | None = "shuffled",
    split_seed: int = 0,
    images: ImageSettings = ImageSettings(size=224),
) -> Stream:
    """ImageNet-R: 200 classes of renditions, 30,000 images, a fifth of them for testing.

    Hendrycks et al., "The Many Faces of Robustness" (2021), as a stream of Wang et al.,
    "DualPrompt" (2022). The dataset has no published split; 80 of 100 images of each class are for
    training, drawn by ``split_seed`` and therefore the same for every seed of the run. A split in
    the folder takes precedence: ``train.txt`` and ``test.txt`` (CLASS/image in each line), or
    folders ``train`` and ``test``.

    Args:
        data_dir: The data folder.
        path: The folder ``imagenet-r``; null is the one in the data folder.
        seed: The seed of a shuffled class order.
        scenario: class or task; null is class.
        n_experiences: Number of experiences; classes are distributed as evenly as possible.
        class_order: ``shuffled``, or null for the alphabetical order of names.
        split_seed: The seed of the test images.
        images: How to read images.
    """
    root = LAYOUT.place(path, data_dir)
    return by_class(
        LAYOUT,
        read(root),
        root,
        images,
        seed,
        scenario,
        n_experiences,
        class_order,
        split_seed=split_seed,
    )


def read(root: Path) -> list[Entry]:
    """List the images of all classes, with the folder's split if it has one."""
    names = class_names(root / "words.txt")
    parts: list[tuple[list[Path], str | None]] = []
    if (root / "train.txt").is_file() and (root / "test.txt").is_file():
        for split in (TRAIN, TEST):
            listed = [root / fields[0] for _, fields in lines(root / f"{split}.txt")]
            parts.append((listed, split))
    elif (root / "train").is_dir() and (root / "test").is_dir():
        parts += [(images_in(root / split), split) for split in (TRAIN, TEST)]
    else:
        parts.append((images_in(root), None))
    entries = []
    for images, of_split in parts:
        for image in images:
            folder = image.parent.name
            if not (folder.startswith("n") and folder[1:].isdigit()):
                raise DataError(
                    f"'{image}' must be in a folder named after its class, such as n01443537"
                )
            entries.append(Entry(image, names.get(folder) or folder, of_split, {}))
    if not entries:
        raise LAYOUT.missing(root, "images")
    return entries


LAYOUT = Layout(
    "imagenet_r",
    "ImageNet-R",
    "imagenet-r",
    "its 200 folders (n01443537, ...) of images",
    read,
)
