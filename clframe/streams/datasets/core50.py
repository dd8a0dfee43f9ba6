"""CORe50: fifty objects of ten categories, recorded in eleven sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from clframe.core.stream import Scenario, Stream
from clframe.data.stream_from import By, Split
from clframe.errors import DataError
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry
from clframe.streams.custom.stream import stream_of
from clframe.streams.datasets.folder_layout import Layout, images_in, lines
from clframe.utils.setting_checks import at_least

Protocol = Literal["ni", "nc", "nic"]
CATEGORIES = (
    "plug_adapter",
    "mobile_phone",
    "scissors",
    "light_bulb",
    "can",
    "glasses",
    "ball",
    "marker",
    "cup",
    "remote_control",
)
TEST_SESSIONS = (3, 7, 10)
_PLACE = re.compile(r"s(\d+)/o(\d+)/[^/]+$")
_BATCHES = {"ni": 8, "nc": 9, "nic": 79}


def core50(
    data_dir: Path,
    path: str | None = None,
    seed: int = 0,
    scenario: Scenario | None = None,
    protocol: Protocol = "nc",
    run: int = 0,
    level: Literal["object", "category"] = "object",
    images: ImageSettings = ImageSettings(),
) -> Stream:
    """CORe50 (NI, NC, NIC): 50 objects in 11 sessions, by its lists or its folders.

    Lomonaco & Maltoni, "CORe50: a New Dataset and Benchmark for Continuous Object Recognition"
    (2017). ``nc``: new objects, ten at first, then five at a time (9 experiences). ``ni``: all
    objects in new sessions (8). ``nic``: both (79 experiences; needs the lists). Sessions 3, 7 and
    10 are for
    testing: ``nc`` has a column for the objects of each experience, the others have one column.
    Without the folder ``batches_filelists``, nc learns objects in order and ni one session after
    the other. Labels come from the folders: an object's own, or its category's.

    Args:
        data_dir: The data folder.
        path: The folder with ``core50_128x128`` and ``batches_filelists``; null is CORe50 in the
            data folder.
        seed: Has no effect.
        scenario: null is class for nc and nic, and domain for ni.
        protocol: ``ni``, ``nc`` or ``nic``.
        run: The number of one of the ten published orders.
        level: Distinguish the 50 objects, or the 10 categories.
        images: How to read images.
    """
    at_least(run, 0, "stream.run")
    root = LAYOUT.place(path, data_dir)
    entries = read(root, protocol, run, level)
    groups: list[Any] | None = None
    new_classes = protocol == "nc" and level == "object"
    if new_classes:
        batches: dict[str, dict[str, None]] = {}
        for entry in entries:
            if entry.split == TRAIN:
                batches.setdefault(entry.columns["batch"], {})[str(entry.label)] = None
        taken: set[str] = set()
        groups = []
        for names in batches.values():
            fresh = [name for name in names if name not in taken]
            taken.update(fresh)
            groups += [fresh] if fresh else []
    by: By = "class" if new_classes else "domain"
    chosen: Scenario = scenario or ("domain" if protocol == "ni" else "class")
    split = Split(by, groups, None, chosen, 0.2, None, seed)
    return stream_of("core50", entries, split, None if by == "class" else "batch", root, images)


def read(root: Path, protocol: Protocol = "nc", run: int = 0, level: str = "object") -> list[Entry]:
    """List the images of a protocol, each with its training batch."""
    images = next((p for p in sorted(root.glob("core50_*x*")) if p.is_dir()), root)
    lists = next((p for p in (root, root.parent) if (p / "batches_filelists").is_dir()), None)
    if lists is not None:
        return _listed(root, images, lists / "batches_filelists", protocol, run, level)
    if protocol == "nic":
        raise LAYOUT.missing(root, "the folder batches_filelists, which stream.protocol=nic needs")
    return _in_folders(root, images, protocol, level)


def _listed(
    root: Path, images: Path, lists: Path, protocol: Protocol, run: int, level: str
) -> list[Entry]:
    names = [f"{protocol.upper()}_inc{'_cat' if level == 'category' else ''}"]
    names.append(f"{protocol.upper()}_inc")
    folders = [lists / name / f"{prefix}{run}" for name in names for prefix in ("run", "Run")]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise LAYOUT.missing(root, f"batches_filelists/{names[-1]}/run{run}")
    batches = sorted(folder.glob("train_batch_*_filelist.txt"))
    if len(batches) != _BATCHES[protocol]:
        raise DataError(
            f"'{folder}' has {len(batches)} lists train_batch_*_filelist.txt, but "
            f"{protocol.upper()} has {_BATCHES[protocol]}"
        )
    entries = []
    for number, path in enumerate(batches):
        for _, fields in lines(path):
            entries.append(
                _entry(images, fields[0], TRAIN, {"batch": f"batch{number:02d}"}, level, path)
            )
    tests = folder / "test_filelist.txt"
    for _, fields in lines(tests):
        entries.append(_entry(images, fields[0], TEST, {}, level, tests))
    return entries


def _in_folders(root: Path, images: Path, protocol: Protocol, level: str) -> list[Entry]:
    paths = [path.relative_to(images).as_posix() for path in images_in(images)]
    paths = [image for image in paths if _PLACE.match(image)]
    if not paths:
        raise LAYOUT.missing(root, "images such as core50_128x128/s1/o1/C_01_01_000.png")
    entries = []
    for image in paths:
        session, number = _numbers(image)
        if session in TEST_SESSIONS:
            entries.append(_entry(images, image, TEST, {}, level, root))
            continue
        batch = f"s{session:02d}" if protocol == "ni" else _batch_of(number)
        entries.append(_entry(images, image, TRAIN, {"batch": batch}, level, root))
    order = sorted({e.columns["batch"] for e in entries if e.split == TRAIN})
    return sorted(entries, key=lambda e: order.index(e.columns["batch"]) if e.columns else -1)


def _batch_of(number: int) -> str:
    """Return the batch of an object: 1 to 10 first, then five at a time."""
    return f"batch{max(0, (number - 6) // 5):02d}"


def _numbers(path: str) -> Sequence[int]:
    match = _PLACE.search(path)
    if match is None:
        raise DataError(f"'{path}' must be SESSION/OBJECT/image, such as s1/o1/C_01_01_000.png")
    return [int(word) for word in match.groups()]


def _entry(
    images: Path, path: str, split: str, columns: dict[str, str], level: str, where: Path
) -> Entry:
    number = _numbers(path)[1]
    if not 1 <= number <= 50:
        raise DataError(f"'{where}': object o{number} is out of range; there are o1 to o50")
    category = CATEGORIES[(number - 1) // 5]
    label = category if level == "category" else f"{category}{(number - 1) % 5 + 1}"
    return Entry(images / path, label, split, columns)


LAYOUT = Layout(
    "core50",
    "CORe50",
    "CORe50",
    "the folders core50_128x128 (s1/o1/C_01_01_000.png, ...) and batches_filelists",
    read,
)
