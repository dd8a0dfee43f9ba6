"""The videos of a run on its page: embedded, up to a maximum size."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from clframe.report.page_blocks import Block, Details, ImageBlock, Notes, Text

FOLDER = "videos"
MOST = 12_000_000
"""Maximum bytes of videos within one page; the newest come first."""
_HEADS = {".gif": (b"GIF8", 0, "image/gif"), ".mp4": (b"ftyp", 4, "video/mp4")}


def videos(folder: Path, experiences: list[str]) -> Iterator[Block]:
    """Yield the video of each experience; nothing if the run has none.

    Args:
        folder: The run folder.
        experiences: Names of the experiences in the order of learning.
    """
    files = _found(folder / FOLDER)
    if not files:
        return
    left = MOST
    shown: list[Block] = []
    left_out: list[str] = []
    for number, path in reversed(files):
        name = experiences[number] if number < len(experiences) else f"experience {number}"
        content = _content(path, left)
        if content is None:
            left_out.append(path.name)
            continue
        left -= len(content)
        title = f"After {number + 1}: {name}"
        kind = _HEADS[path.suffix][2]
        video = ImageBlock(data_address(kind, content), title, video=kind.startswith("video"))
        shown.append(Details(title, [video], opened=not shown))
    yield Text(
        "An episode of each task learned so far, after each experience; a green frame means that "
        "the goal was reached."
    )
    yield from shown
    if left_out:
        yield Notes([f"Not on this page, but in '{FOLDER}': {', '.join(reversed(left_out))}."])


def data_address(kind: str, content: bytes) -> str:
    """Return the content of a file as an address within a page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _found(folder: Path) -> list[tuple[int, Path]]:
    """Return videos by the number of their experience."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    named = [
        (re.fullmatch(r"exp(\d{1,6})\.(gif|mp4)", path.name), path) for path in folder.iterdir()
    ]
    return sorted((int(match[1]), path) for match, path in named if match and _is_plain(path))


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _content(path: Path, room: int) -> bytes | None:
    """Return a video, or None if it is too large or not of the type in its name."""
    head, start, _ = _HEADS[path.suffix]
    try:
        if path.stat().st_size > room:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    return content if content[start : start + len(head)] == head else None
