"""Videos as files: MP4, an animated GIF, or a folder of images; the file's name decides."""

from __future__ import annotations

import importlib.util
import io
import itertools
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.utils.files import write_bytes

Frames = Sequence[NDArray[np.uint8]]

_FASTEST_GIF = 50.0
"""Frames a second; viewers show faster ones at a speed of their own."""
_HOLD = 100
"""Hundredths of a second that a GIF shows its last image before it begins again."""
_CODECS = ("libx264", "libopenh264", "mpeg4")
_SAMPLED = 8
"""Images that the colors of a GIF are chosen from."""


def check_target(path: Path) -> None:
    """Refuse a video that cannot be written, before anything is rendered.

    Raises:
        SettingError: With what would be right.
    """
    ending = path.suffix.lower()
    if ending == ".mp4" and importlib.util.find_spec("av") is None:
        raise SettingError(
            f"'{path.name}' needs the package av (pip install 'clframe[video]'); "
            f"'{path.stem}.gif' needs none"
        )
    if ending not in (".gif", ".mp4", ""):
        raise SettingError(
            f"a video is written as NAME.mp4, as NAME.gif or as a folder of images (NAME), not as "
            f"'{path.name}'"
        )


def stride(path: Path, rate: float) -> int:
    """Every how many steps an image is taken, for steps at this rate: each one where that can be.

    >>> stride(Path("video.gif"), 20), stride(Path("video.gif"), 80), stride(Path("video.mp4"), 80)
    (1, 2, 1)
    """
    return -int(-rate // _FASTEST_GIF) if path.suffix.lower() == ".gif" else 1


def write(path: Path, frames: Frames, rate: float) -> None:
    """Write a video.

    Args:
        path: NAME.mp4, NAME.gif, or a folder.
        frames: Images of one size, with red, green and blue.
        rate: Images a second.
    """
    check_target(path)
    ending = path.suffix.lower()
    if ending == "":
        path.mkdir(parents=True, exist_ok=True)
        for number, frame in enumerate(frames):
            write_bytes(path / f"{number:04d}.png", _png(frame))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, _gif(frames, rate) if ending == ".gif" else _mp4(frames, rate))


def delays(count: int, rate: float) -> list[int]:
    """Hundredths of a second that each image of a GIF is shown, together in real time.

    >>> delays(4, 20), delays(4, 30)
    ([5, 5, 5, 100], [3, 4, 3, 100])
    """
    ends = [round(100 * number / rate) for number in range(count + 1)]
    shown = [end - begin for begin, end in itertools.pairwise(ends)]
    return [*shown[:-1], max(_HOLD, shown[-1])]


def _png(frame: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(frame).save(content, "PNG")
    return content.getvalue()


def _gif(frames: Frames, rate: float) -> bytes:
    from PIL import Image

    # The same colors for all images: what stands still stays the same and takes no room.
    chosen = np.linspace(0, len(frames) - 1, min(_SAMPLED, len(frames))).astype(int)
    sample = Image.fromarray(np.concatenate([frames[number] for number in chosen]))
    colors = sample.quantize(255, Image.Quantize.MEDIANCUT)
    images = [
        Image.fromarray(frame).quantize(palette=colors, dither=Image.Dither.NONE)
        for frame in frames
    ]
    content = io.BytesIO()
    images[0].save(
        content,
        "GIF",
        save_all=True,
        append_images=images[1:],
        duration=[10 * hundredths for hundredths in delays(len(frames), rate)],
        loop=0,
        optimize=False,
    )
    return content.getvalue()


def _mp4(frames: Frames, rate: float) -> bytes:
    import av

    codec = next(name for name in _CODECS if name in av.codecs_available)
    content = io.BytesIO()
    with av.open(content, "w", format="mp4") as container:
        stream: Any = container.add_stream(codec, rate=Fraction(rate).limit_denominator(1000))
        height, width = (side + side % 2 for side in frames[0].shape[:2])
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        if codec == "libx264":
            stream.options = {"crf": "18"}
        for frame in frames:
            # The format's colors are shared by two times two pixels, so sides are even.
            odd = [(0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)]
            image = av.VideoFrame.from_ndarray(np.pad(frame, odd, "edge"), format="rgb24")
            container.mux(stream.encode(image))
        container.mux(stream.encode())
    return content.getvalue()
