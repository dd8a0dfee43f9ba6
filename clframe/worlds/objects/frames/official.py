"""The real frames as a plan: decoded once, resized, kept as bytes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.utils.image_files import opened_image
from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames.cache_plan import (
    FARTHEST,
    SPLITS,
    Bad,
    Job,
    Plan,
    Section,
    split_frames,
)
from clframe.worlds.objects.frames.clips import Clip
from clframe.worlds.objects.frames.layouts import Found

_IMAGES_PER_JOB = 256


def plan_official(
    dataset: Found,
    instances: Sequence[str],
    size: int,
    arrays: Sequence[str] = ("rgb",),
    frames: int | None = None,
) -> Plan:
    """The clips of a folder, decoded to squares of one size.

    The authors squeeze all frames to a square, whatever their shape; so do we. A factor that has no
    test images (only training data was unpacked, say) is shared out 8:1:1 by frame here.

    Args:
        dataset: What the folder holds.
        instances: Which of the catalog's to use.
        size: Pixels on a side.
        arrays: Which of rgb, depth and mask.
        frames: Maximum number of frames per clip, evenly spread; None for all.

    Raises:
        DataError: The folder holds none of these instances, or no tree of an array asked for.
    """
    chosen = {catalog.instances().index(name) for name in instances}
    clips = [clip for clip in dataset.clips if clip.instance in chosen]
    if not clips:
        raise DataError(f"'{dataset.root}' holds none of the {len(chosen)} instances asked for")
    for tree in arrays:
        if tree != "rgb" and not any(getattr(clip, tree) for clip in clips):
            raise DataError(
                f"'{dataset.root}' holds no {tree} images: expected a folder '{tree}' next to the "
                "color images, with the same paths below it and PNG files of the same names"
            )
    remade = [
        g for g in dataset.groups if not any(c.group == g and c.split == "test" for c in clips)
    ]
    clips = [_thin(clip, frames) for clip in clips]
    by_section: dict[tuple[str, int], list[Clip]] = defaultdict(list)
    for clip in clips:
        by_section[clip.group, clip.number].append(clip)
    sections, instance, split, start = {}, [], [], 0
    for key, members in by_section.items():
        count = sum(len(clip.names) for clip in members)
        sections[key] = Section(*key, start, start + count)
        start += count
        for clip in members:
            n = len(clip.names)
            instance.append(np.full(n, clip.instance, np.int16))
            fixed = np.full(n, SPLITS.index(clip.split), np.uint8)
            split.append(split_frames(n) if clip.group in remade else fixed)

    def jobs(section: Section) -> list[Job]:
        files = [
            (clip, name)
            for clip in by_section[section.group, section.number]
            for name in clip.names
        ]
        return [
            {
                "kind": "official",
                "start": section.start + first,
                "count": len(files[first : first + _IMAGES_PER_JOB]),
                "root": str(dataset.root),
                "size": size,
                "arrays": list(arrays),
                "files": [
                    [_file(clip, name, tree) for tree in arrays]
                    for clip, name in files[first : first + _IMAGES_PER_JOB]
                ],
            }
            for first in range(0, len(files), _IMAGES_PER_JOB)
        ]

    shapes = {"rgb": ("|u1", (3, size, size)), "depth": ("<u2", (size, size))}
    shapes["mask"] = ("|u1", (size, size))
    n_present = len({clip.instance for clip in clips})
    remark = f", {' and '.join(remade)} split 8:1:1 here" if remade else ""
    return Plan(
        key=f"official-{size}-{'-'.join(arrays)}-{_digest(dataset.root, clips)}",
        words=(
            f"OpenLORIS-Object from '{dataset.root}' ({' and '.join(dataset.layouts)}; "
            f"{n_present} of {len(catalog.instances())} instances, "
            f"{start:,} images at {size}x{size}{remark})"
        ),
        verb="decoding",
        arrays={name: shapes[name] for name in arrays},
        sections=sections,
        instance=np.concatenate(instance),
        split=np.concatenate(split),
        jobs=jobs,
    )


def _thin(clip: Clip, frames: int | None) -> Clip:
    n = len(clip.names)
    if frames is None or n <= frames:
        return clip
    return replace(clip, names=tuple(clip.names[i * n // frames] for i in range(frames)))


def _file(clip: Clip, name: str, tree: str) -> str:
    """Path of a frame's image in one of the trees, relative to the root."""
    if tree == "rgb":
        return f"{clip.folder}/{name}"
    folder = getattr(clip, tree)
    if folder is None:  # no such folder: name the place where it would be
        folder = f"{tree}/{clip.folder}"
    return f"{folder}/{PurePosixPath(name).stem}.png"


def _digest(root: Path, clips: Sequence[Clip]) -> str:
    """Stands for the place and the names of all images; their content is not read."""
    total = hashlib.sha256(str(root.resolve()).encode())
    for clip in clips:
        total.update(f"\n{clip}".encode())
    return total.hexdigest()[:12]


# ---------------------------------------------------------------- decoding, in the workers


def produce(job: Job) -> tuple[dict[str, NDArray[np.generic]], Bad]:
    """Decode the images of a job; rows of images that cannot be read stay empty."""
    count, size = job["count"], job["size"]
    arrays: dict[str, NDArray[np.generic]] = {}
    for tree in job["arrays"]:
        shape = (count, 3, size, size) if tree == "rgb" else (count, size, size)
        arrays[tree] = np.zeros(shape, np.uint16 if tree == "depth" else np.uint8)
    bad: Bad = []
    for row, names in enumerate(job["files"]):
        try:
            for tree, name in zip(job["arrays"], names, strict=True):
                arrays[tree][row] = decode(Path(job["root"], name), tree, size)
        except DataError as error:
            bad.append((job["start"] + row, str(error)))
    return arrays, bad


def decode(path: Path, tree: str, size: int) -> NDArray[np.generic]:
    """One image as an array of the wanted size.

    Color is resized with antialiasing; depth and masks take the nearest pixel, since a mean of two
    depths is the depth of nothing.

    Raises:
        DataError: The image is missing, truncated or something else.
    """
    from PIL import Image

    try:
        with opened_image(path) as image:
            image.load()
            if tree == "rgb":
                resized = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
                return np.asarray(resized).transpose(2, 0, 1)
            if tree == "depth" and image.mode not in ("I", "I;16", "I;16B"):
                raise DataError(
                    f"depth image '{path}' has pixels of mode {image.mode}; it must be a 16-bit "
                    "PNG of millimeters"
                )
            values = np.asarray(image if tree == "depth" else image.convert("L"))
    except FileNotFoundError:
        raise DataError(f"image '{path}' is not there") from None
    except OSError as error:
        reason = str(error).replace(f" {str(path)!r}", "")
        raise DataError(f"image '{path}' cannot be read: {reason}") from error
    rows = (np.arange(size) + 0.5) * values.shape[0] / size
    columns = (np.arange(size) + 0.5) * values.shape[1] / size
    nearest: NDArray[np.int64] = values[rows.astype(int)][:, columns.astype(int)].astype(np.int64)
    if tree == "mask":
        return (nearest > 0).astype(np.uint8)
    return nearest.clip(0, FARTHEST).astype(np.uint16)
