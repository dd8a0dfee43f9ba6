"""Sample images of each experience on a run's page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from clframe.report.page_blocks import Block, ImageBlock, ImagesBlock, Text
from clframe.report.videos import data_address

FOLDER = "samples"
MOST = 2_000_000
"""Maximum bytes of images within one page."""
_LARGEST = 50_000_000
_HEAD = b"\x89PNG\r\n\x1a\n"


def samples(folder: Path, experiences: int) -> Iterator[Block]:
    """Yield a strip of samples of each experience; nothing if the run has kept none.

    Args:
        folder: The run folder.
        experiences: Number of learned experiences.
    """
    strips = _found(folder / FOLDER)
    if not strips:
        return
    left, shown, large = MOST, [], 0
    there = {number for number, _, _ in strips}
    bad = [f"'exp{number}_*.png'" for number in range(experiences) if number not in there]
    for number, name, path in strips:
        content = _content(path)
        if content is None:
            bad.append(f"'{path.name}'")
        elif len(content) > left:
            large += 1
        else:
            left -= len(content)
            title = f"{number + 1}: {name}" if name else f"Experience {number + 1}"
            alt = f"samples of experience {number + 1}" + (f", {name}" if name else "")
            shown.append(ImageBlock(data_address("image/png", content), alt, title, pixels=True))
    if shown:
        yield Text(
            "A few training samples of each experience, scaled down. The lower row is depth, if "
            "there is any: the brighter, the further."
        )
        yield ImagesBlock(shown)
    if large:
        yield Text(f"{large} more are in '{FOLDER}' of the run folder.")
    if bad:
        yield Text(f"Missing or damaged in '{FOLDER}' of the run folder: {', '.join(bad)}.")


def _found(folder: Path) -> list[tuple[int, str, Path]]:
    """Return the strips by the number of their experience, with its name."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    named = [
        (re.fullmatch(r"exp(\d{1,6})(?:_(.{1,80}))?\.png", path.name), path)
        for path in folder.iterdir()
    ]
    return sorted((int(match[1]), match[2] or "", path) for match, path in named if match)


def _content(path: Path) -> bytes | None:
    """Return an image, or None if it cannot be shown."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        content = path.read_bytes() if path.stat().st_size <= _LARGEST else b""
    except OSError:
        return None
    return content if content.startswith(_HEAD) else None
