"""CLEAR-10: ten years of photographs in consecutive buckets."""

from __future__ import annotations

from pathlib import Path

from clframe.core.stream import Scenario, Stream
from clframe.data.stream_from import Split
from clframe.errors import DataError
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry, read_object
from clframe.streams.custom.stream import stream_of
from clframe.streams.datasets.folder_layout import Layout, images_in


def clear10(
    data_dir: Path,
    path: str | None = None,
    seed: int = 0,
    scenario: Scenario | None = None,
    images: ImageSettings = ImageSettings(size=224),
) -> Stream:
    """CLEAR-10: 11 classes (one is background) of photographs of 2004 to 2014, in 10 buckets.

    Lin et al., "The CLEAR Benchmark: Continual LEArning on Real-World Imagery" (2021). Each bucket
    is an experience and a task. Bucket 0, meant for pretraining a backbone, is left out. The test
    set is the published folder ``test`` or, without it, three of ten images of each class, as in
    the paper.

    Args:
        data_dir: The data folder.
        path: The folder with ``train`` and ``test``; null is ``clear10`` in the data folder.
        seed: The seed of the held-out images if there is no test set.
        scenario: null is domain.
        images: How to read images.
    """
    root = LAYOUT.place(path, data_dir)
    split = Split("domain", None, None, scenario, 0.3, None, seed)
    return stream_of("clear10", read(root), split, "bucket", root, images)


def read(root: Path) -> list[Entry]:
    """List the images of train and test from their JSON lists or their folders."""
    folders = [(root / name, name) for name in (TRAIN, TEST) if (root / name).is_dir()]
    if not any(name == TRAIN for _, name in folders):
        folders = [(root, TRAIN)]
    several = len(folders) > 1
    entries: list[Entry] = []
    for folder, name in folders:
        split = name if several else None
        if (folder / "labeled_metadata.json").is_file():
            entries += _listed(folder, split)
        elif (folder / "labeled_images").is_dir():
            entries += _in_folders(folder, split)
        else:
            raise LAYOUT.missing(folder, "labeled_metadata.json and the folder labeled_images")
    if not entries:
        raise LAYOUT.missing(root, "labelled images")
    return entries


def _listed(folder: Path, split: str | None) -> list[Entry]:
    buckets = read_object(folder / "labeled_metadata.json")
    entries = []
    for bucket, classes in buckets.items():
        if bucket == "0":
            continue
        for name, list_path in classes.items():
            for image in read_object(folder / str(list_path)).values():
                if not isinstance(image, dict) or "IMG_PATH" not in image:
                    raise DataError(
                        f"'{folder / str(list_path)}' must have an IMG_PATH for each image"
                    )
                entries.append(_entry(folder / image["IMG_PATH"], name, split, bucket))
    return entries


def _in_folders(folder: Path, split: str | None) -> list[Entry]:
    images = folder / "labeled_images"
    entries = []
    for image in images_in(images):
        parts = image.relative_to(images).parts
        if len(parts) != 3:
            raise DataError(f"'{image}' must be labeled_images/BUCKET/CLASS/image")
        if parts[0] != "0":
            entries.append(_entry(image, parts[1], split, parts[0]))
    return entries


def _entry(image: Path, label: str, split: str | None, bucket: str) -> Entry:
    if not bucket.isdigit():
        raise DataError(f"'{image}' is in bucket '{bucket}', but buckets are numbers")
    return Entry(image, label, split, {"bucket": f"bucket{int(bucket):02d}"})


LAYOUT = Layout(
    "clear10",
    "CLEAR-10",
    "clear10",
    "the folders train and test, each with labeled_metadata.json and labeled_images",
    read,
)
