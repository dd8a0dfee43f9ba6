"""Finds the frames of OpenLORIS-Object in a folder, however they were arranged.

Four arrangements are about, distinguished by the parts of a path and never by file names:

* as distributed: ``{train,validation,test}/{factor}/segment{1..9}/{instance}/*.jpg``;
* the authors' benchmark: ``{factor}/{train,validation,test}/task{1..9}/{instance}/*.jpg``;
* the challenge: ``{train,validation,test}/batch{n}/`` with a ``label.csv``;
* the first one with lists ``batches_filelists/domain/{factor|iros}/train_batch_{nn}.txt``.

Depth (16-bit PNG, millimeters) and masks may be in a tree next to the color images whose paths
differ only by a part ``depth`` or ``mask``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from clframe.errors import DataError
from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames import lists
from clframe.worlds.objects.frames.clips import (
    MIXTURE,
    SPLIT_FOLDERS,
    Clip,
    images_of,
    natural,
    place_of,
)

_DEEPEST = 10
"""Folders below this depth are not looked into: a link that leads back up would never end."""

EXPECTED = (
    "train/illumination/segment1/bottle_01/*.jpg, illumination/train/task1/bottle_01/*.jpg, "
    "train/batch1/label.csv with its images, or batches_filelists/domain/*/train_batch_00.txt"
)


@dataclass
class Found:
    """What a folder holds.

    Attributes:
        root: The folder.
        clips: Ordered by group, number, instance and split.
        layouts: The arrangements met, in words.
        strangers: Folders in the place of an instance whose name is not in the catalog.
    """

    root: Path
    clips: list[Clip] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)
    strangers: Counter[str] = field(default_factory=Counter)

    @property
    def groups(self) -> list[str]:
        """Factors (and ``mixture``) that are there, in the paper's order."""
        present = {clip.group for clip in self.clips}
        return [group for group in (*catalog.FACTORS, MIXTURE) if group in present]


def looks_right(root: Path) -> bool:
    """Whether a folder has something of OpenLORIS at its top, without reading it."""
    try:
        names = {entry.name.lower() for entry in os.scandir(root) if entry.is_dir()}
    except OSError:
        return False
    return bool(names & {*SPLIT_FOLDERS, *catalog.FACTORS, "batches_filelists"})


def scan(root: Path) -> Found:
    """Find every clip below a folder.

    Raises:
        DataError: The folder is not there, or is none of the arrangements.
    """
    if not root.is_dir():
        raise DataError(f"there is no folder '{root}' to read OpenLORIS-Object from")
    folders = dict(_walk(root))
    dataset = Found(root)
    places = {folder: place_of(folder) for folder in folders}
    number_of = {name: index for index, name in enumerate(catalog.instances())}
    for folder, files in folders.items():
        place = places[folder]
        images = images_of(files)
        if not images or place.tree != "rgb" or place.factor is None:
            continue
        if place.segment not in catalog.SEGMENTS:
            continue
        instance = place.key[-1]
        if instance not in number_of:
            dataset.strangers[instance] += len(images)
            continue
        layout = "as distributed" if _split_first(folder) else "the authors' benchmark folder"
        _note(dataset, layout)
        dataset.clips.append(
            Clip(
                group=place.factor,
                number=int(place.segment),
                split=place.split or "train",
                instance=number_of[instance],
                folder=folder,
                names=natural(images),
            )
        )
    for layout, clips in (
        ("challenge batches with label.csv", lists.read_label_files(root, folders)),
        ("batch lists", lists.read_batch_lists(root, folders, {c.group for c in dataset.clips})),
    ):
        if clips:
            _note(dataset, layout)
            dataset.clips += clips
    if not dataset.clips:
        raise DataError(_refusal(dataset, folders))
    # Color, depth and mask of one clip have the same path but for the name of the tree.
    trees = {(place.tree, place.key): folder for folder, place in places.items() if folders[folder]}
    dataset.clips = [_with_trees(clip, trees) for clip in _joined(dataset.clips)]
    return dataset


def _walk(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Relative folders with the names of their files."""
    for place, folders, files in os.walk(root, followlinks=True):
        relative = Path(place).relative_to(root)
        # clframe's cache may be next to the images.
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and not os.path.exists(os.path.join(place, name, "plan.json"))
        )
        if len(relative.parts) >= _DEEPEST:
            folders.clear()
        yield relative.as_posix(), files


def _split_first(folder: str) -> bool:
    """Whether the split stands before the factor, as in the archives."""
    words = [part.lower() for part in PurePosixPath(folder).parts]
    splits = [i for i, word in enumerate(words) if word in SPLIT_FOLDERS]
    return bool(splits) and splits[0] < next(i for i, w in enumerate(words) if w in catalog.FACTORS)


def _note(dataset: Found, layout: str) -> None:
    if layout not in dataset.layouts:
        dataset.layouts.append(layout)


def _joined(clips: Iterable[Clip]) -> list[Clip]:
    """In order; a clip that is in two folders (A and B, say) is taken once, the first."""
    order = {name: i for i, name in enumerate((*catalog.FACTORS, MIXTURE))}
    splits = {name: i for i, name in enumerate(("train", "validation", "test"))}
    chosen: dict[tuple[int, int, int, int, str], Clip] = {}
    taken: set[tuple[int, int, int, int]] = set()
    for clip in clips:
        place = (order[clip.group], clip.number, clip.instance, splits[clip.split])
        if clip.group != MIXTURE:
            if place in taken:
                continue
            taken.add(place)
        chosen[(*place, clip.folder)] = clip
    return [chosen[key] for key in sorted(chosen)]


def _with_trees(clip: Clip, trees: Mapping[tuple[str, tuple[str, ...]], str]) -> Clip:
    key = place_of(clip.folder).key
    return replace(clip, depth=trees.get(("depth", key)), mask=trees.get(("mask", key)))


def _refusal(dataset: Found, folders: dict[str, list[str]]) -> str:
    top = [name + "/" for name in folders if name != "." and "/" not in name]
    names = natural([*top, *folders.get(".", [])])
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    strange = ", ".join(list(dataset.strangers)[:3])
    if strange:
        shown += f", with images of instances that are not in the catalog ({strange})"
    return (
        f"'{dataset.root}' is not a folder of OpenLORIS-Object: found {shown or 'nothing'}; "
        f"expected {EXPECTED}"
    )
