"""``clframe data check`` for data sets of images: present, missing and unreadable files."""

from __future__ import annotations

import os
import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.errors import ClframeError, DataError
from clframe.utils.console import print_out

if TYPE_CHECKING:
    from clframe.streams.custom.listing import Entry

_SHOWN = 5
"""Maximum names printed of a list; the others are counted."""
_UNSCALED = ("folder", "file_list", "hf")
"""Streams that do not scale images."""
_LARGE = 256
_SIDES = (32, 64, 128, 224)
"""Image sides that are suggested."""
_IN_TEN = ("tiny_imagenet", "imagenet_r", "cub200")
_TEN = 10
"""Experiences of these streams, each with its own classes."""


def check_images(stream: str, path: Path, quick: bool) -> None:
    """Print the content of a folder or list for a stream.

    Args:
        stream: The stream's name.
        path: The folder or list.
        quick: Only check whether files exist.

    Raises:
        DataError: The stream cannot use it; the message says why.
    """
    from clframe.streams.custom.image_data import survey

    entries = _reader(stream)(path)
    print_out(f"{stream} in {path}: {len(entries):,} images of {_n_classes(entries)} classes")
    for line in _table(entries):
        print_out(line)
    if stream == "folder" and (empty := _empty_folders(path)):
        print_out(f"folders without an image: {len(empty):,}: {_some(empty)}")
    images = [entry.path for entry in entries]
    gone = [p for p in images if isinstance(p, Path) and not os.path.isfile(p)]
    if gone:
        print_out(f"missing: {len(gone):,} of {len(entries):,}: {_some(gone)}")
    absent = {id(image) for image in gone}
    here = [image for image in images if id(image) not in absent]
    if quick:
        print_out("not opened: --quick was given, so the command to train with is unknown")
        _check_classes(entries, path)
        return
    unreadable, sizes = survey(here, None, "rgb")
    bad = [image for image, _ in unreadable]
    print_out(f"unreadable: {f'{len(bad):,}: {_some(bad)}' if bad else 'none'}")
    if len(gone) + len(bad) == len(entries):
        raise DataError(f"no image of '{path}' can be read")
    left_out = {id(image) for image in (*gone, *bad)}
    good = [entry for entry in entries if id(entry.path) not in left_out]
    _check_classes(good, path)
    settings: dict[str, Any] = {"path": str(path)}
    if left_out:
        settings["on_bad"] = "skip"
    if stream in _UNSCALED and (side := _side_for(sizes)) is not None:
        settings["size"] = side
        shown = ", ".join(f"{w}x{h} ({n:,})" for (w, h), n in sizes.most_common(3))
        print_out(f"sizes: {len(sizes):,}, such as {shown}")
    if stream in _IN_TEN and _n_classes(good) < _TEN:
        settings["n_experiences"] = _n_classes(good)
    print_out(f"usable: {_command(stream, settings)}")


def _check_classes(entries: Sequence[Entry], path: Path) -> None:
    """Refuse classes that a stream cannot both train and test on.

    Raises:
        DataError: Names these classes.
    """
    alone = _in_one_split(entries)
    if alone:
        print_out(f"classes in one split only: {_some(alone)}")
        raise DataError(f"{len(alone)} classes of '{path}' occur in one split only: {_some(alone)}")
    counts = Counter(entry.label for entry in entries)
    single = [str(label) for label, n in counts.items() if n == 1]
    if single and not any(entry.split for entry in entries):
        more = f" and {len(single) - 1:,} more" if len(single) > 1 else ""
        raise DataError(
            f"class '{single[0]}' of '{path}'{more} has one image, which cannot be both learned "
            "and tested on: add images, or remove the class"
        )


def _command(stream: str, settings: Mapping[str, Any]) -> str:
    """Return a command that trains on the data, tested up to the stream.

    Raises:
        DataError: The stream does not accept the data.
    """
    from clframe.api import stream as make
    from clframe.utils.hydra_quote import override_value

    try:
        make(stream, **settings)
    except ClframeError as error:
        raise DataError(f"stream={stream} cannot use '{settings['path']}': {error}") from error
    arguments = [f"stream.{name}={override_value(value)}" for name, value in settings.items()]
    return shlex.join(["clframe", "fit", f"stream={stream}", *arguments])


def _side_for(sizes: Counter[tuple[int, int]]) -> int | None:
    """Return the side to scale images to; None if they are all small and of the same size.

    >>> _side_for(Counter({(28, 28): 9})), _side_for(Counter({(640, 480): 9, (48, 40): 2}))
    (None, 224)
    """
    if len(sizes) == 1 and max(next(iter(sizes))) <= _LARGE:
        return None
    middle = int(statistics.median(min(size) for size in sizes.elements()))
    return max((side for side in _SIDES if side <= middle), default=middle)


def _empty_folders(root: Path) -> list[Path]:
    """Return the innermost folders without an image, which may be missing classes."""
    from clframe.streams.custom.listing import SUFFIXES

    empty = []
    for folder in sorted(path for path in root.rglob("*") if path.is_dir()):
        hidden = any(name.startswith(".") for name in folder.relative_to(root).parts)
        inside = list(folder.iterdir())
        if hidden or any(child.is_dir() or child.suffix.lower() in SUFFIXES for child in inside):
            continue
        empty.append(folder)
    return empty


def _reader(stream: str) -> Callable[[Path], list[Entry]]:
    if stream == "folder":
        from clframe.streams.custom.listing import read_folder

        return read_folder
    if stream == "file_list":
        from clframe.streams.custom.listing import read_list

        return lambda path: read_list(path, "file", "label")
    if stream == "hf":
        from clframe.streams.custom.hugging_face import read_hf

        return read_hf
    from clframe.streams.datasets.known import layouts

    layout = layouts()[stream]

    def read(path: Path) -> list[Entry]:
        return layout.read(layout.place(str(path), path.parent))

    return read


def _table(entries: Sequence[Entry]) -> list[str]:
    """Return one line for each split and part, with its images and classes."""
    rows: Counter[tuple[str, str]] = Counter()
    classes: dict[tuple[str, str], set[str | int]] = {}
    for entry in entries:
        column = next(iter(entry.columns.values()), "") if len(entry.columns) == 1 else ""
        key = (entry.split or "not split", column)
        rows[key] += 1
        classes.setdefault(key, set()).add(entry.label)
    lines = [f"{'split':<12}{'part':<14}{'classes':>8}{'images':>10}"]
    for split, column in sorted(rows):
        n, own = rows[split, column], len(classes[split, column])
        lines.append(f"{split:<12}{column:<14}{own:>8}{n:>10,}")
    return lines


def _n_classes(entries: Sequence[Entry]) -> int:
    return len({entry.label for entry in entries})


def _in_one_split(entries: Sequence[Entry]) -> list[str]:
    splits: dict[str, set[str | int]] = {}
    for entry in entries:
        if entry.split is not None:
            splits.setdefault(entry.split, set()).add(entry.label)
    if len(splits) < 2:
        return []
    first, second = splits.values()
    return sorted(str(label) for label in first ^ second)


def _some(names: Sequence[object]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(str(name) for name in names[:_SHOWN]) + more
