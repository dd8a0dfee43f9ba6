"""``clframe data check`` for data sets of pictures: what is found, missing and unreadable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.errors import DataError
from clframe.utils.console import say

if TYPE_CHECKING:
    from clframe.streams.own.listing import Entry
    from clframe.streams.own.pictures import Picture

_SHOWN = 5
"""Names of a list that are printed; the rest is counted."""


def check_pictures(stream: str, path: Path, quick: bool) -> None:
    """Print what a folder or list holds for a stream.

    Args:
        stream: The stream's name.
        path: The folder or list.
        quick: Look only whether files are there.

    Raises:
        DataError: The stream cannot use it as it is; the sentence says why.
    """
    from clframe.streams.own.pictures import find_bad

    entries = _reader(stream)(path)
    say(f"{stream} in {path}: {len(entries):,} pictures of {_n_classes(entries)} classes")
    for line in _table(entries):
        say(line)
    pictures = [entry.path for entry in entries]
    gone = [p for p in pictures if isinstance(p, Path) and not os.path.isfile(p)]
    if gone:
        say(f"missing: {len(gone):,} of {len(entries):,}: {_some(gone)}")
    absent = {id(picture) for picture in gone}
    here = [picture for picture in pictures if id(picture) not in absent]
    bad: list[Picture] = []
    if quick:
        say("not opened: --quick was given")
    else:
        bad = [picture for picture, _ in find_bad(here, None, "rgb")]
        say(f"unreadable: {f'{len(bad):,}: {_some(bad)}' if bad else 'none'}")
    alone = _in_one_split(entries)
    if alone:
        say(f"classes in one split only: {_some(alone)}")
    if len(gone) + len(bad) == len(entries):
        raise DataError(f"no picture of '{path}' can be read")
    if alone:
        raise DataError(f"{len(alone)} classes of '{path}' occur in one split only: {_some(alone)}")
    skip = " stream.on_bad=skip" if gone or bad else ""
    say(f"usable: clframe fit stream={stream} stream.path={path}{skip}")


def _reader(stream: str) -> Callable[[Path], list[Entry]]:
    if stream == "folder":
        from clframe.streams.own.listing import read_folder

        return read_folder
    if stream == "file_list":
        from clframe.streams.own.listing import read_list

        return lambda path: read_list(path, "file", "label")
    if stream == "hf":
        from clframe.streams.own.hugging_face import read_hf

        return read_hf
    from clframe.streams.published.catalog import layouts

    layout = layouts()[stream]

    def read(path: Path) -> list[Entry]:
        return layout.read(layout.place(str(path), path.parent))

    return read


def _table(entries: Sequence[Entry]) -> list[str]:
    """One line for each split and part, with its pictures and classes."""
    rows: Counter[tuple[str, str]] = Counter()
    classes: dict[tuple[str, str], set[str | int]] = {}
    for entry in entries:
        part = next(iter(entry.columns.values()), "") if len(entry.columns) == 1 else ""
        key = (entry.split or "not split", part)
        rows[key] += 1
        classes.setdefault(key, set()).add(entry.label)
    lines = [f"{'split':<12}{'part':<14}{'classes':>8}{'pictures':>10}"]
    for split, part in sorted(rows):
        n, own = rows[split, part], len(classes[split, part])
        lines.append(f"{split:<12}{part:<14}{own:>8}{n:>10,}")
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
