"""The pictures of samples that a run kept of each experience, on its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from clframe.report.blocks import Block, Picture, Pictures, Text
from clframe.report.films import data_address

FOLDER = "samples"
MOST = 2_000_000
"""Bytes of pictures within one page."""
_HEAD = b"\x89PNG\r\n\x1a\n"


def samples(folder: Path) -> Iterator[Block]:
    """A strip of samples of each experience; nothing where the run has kept none.

    Args:
        folder: The run folder.
    """
    found = _found(folder / FOLDER)
    if not found:
        return
    left, shown = MOST, []
    for number, name, path in found:
        content = _content(path, left)
        if content is None:
            continue
        left -= len(content)
        title = f"{number + 1}: {name}" if name else f"Experience {number + 1}"
        alt = f"samples of experience {number + 1}" + (f", {name}" if name else "")
        shown.append(Picture(data_address("image/png", content), alt, title, pixels=True))
    if shown:
        yield Text(
            "A few training samples of each experience, scaled down. Depth, where there is any, is "
            "the lower row: the brighter, the further."
        )
        yield Pictures(shown)
        if len(shown) < len(found):
            yield Text(f"{len(found) - len(shown)} more are in '{FOLDER}' of the run folder.")


def _found(folder: Path) -> list[tuple[int, str, Path]]:
    """Strips by the number of their experience, with its name."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    named = [
        (re.fullmatch(r"exp(\d{1,6})(?:_(.{1,80}))?\.png", path.name), path)
        for path in folder.iterdir()
        if path.is_file() and not path.is_symlink()
    ]
    return sorted((int(match[1]), match[2] or "", path) for match, path in named if match)


def _content(path: Path, room: int) -> bytes | None:
    try:
        content = path.read_bytes() if path.stat().st_size <= room else b""
    except OSError:
        return None
    return content if content.startswith(_HEAD) else None
