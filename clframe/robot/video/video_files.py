"""Write videos as MP4, animated GIF or a folder of images, depending on the file's name."""

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
"""Frames per second; viewers replace higher rates with their own."""
_HOLD = 100
"""Hundredths of a second for which a GIF shows its last image before it repeats."""
_CODECS = ("libx264", "libopenh264", "mpeg4")
_SAMPLED = 8
"""Images from which the colors of a GIF are chosen."""


def check_target(path: Path) -> None:
    """Check that a video can be written, before anything is rendered.

    Raises:
        SettingError: The name's ending is not supported, or needs a missing package.
    """
    ending = path.suffix.lower()
    if ending == ".mp4" and importlib.util.find_spec("av") is None:
        raise SettingError(
            f"'{path.name}' needs the package av (pip install 'clframe[video]'); "
            f"or write '{path.stem}.gif', which needs no package"
        )
    if ending not in (".gif", ".mp4", ""):
        raise SettingError(
            f"cannot write a video as '{path.name}'; use NAME.mp4, NAME.gif, or NAME for a folder "
            "of images"
        )


def stride(path: Path, rate: float) -> int:
    """Return every how many steps to record an image: 1 unless a GIF would be too fast.

    >>> stride(Path("video.gif"), 20), stride(Path("video.gif"), 80), stride(Path("video.mp4"), 80)
    (1, 2, 1)
    """
    return -int(-rate // _FASTEST_GIF) if path.suffix.lower() == ".gif" else 1


def write(path: Path, frames: Frames, rate: float) -> None:
    """Write a video.

    Args:
        path: NAME.mp4, NAME.gif, or a folder.
        frames: RGB images of one size.
        rate: Images per second.
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
    """Return the hundredths of a second for each image of a GIF, in real time in total.

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

    # One palette for all images: unchanged regions then take no space.
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
            # The format shares colors between 2 x 2 pixels, so sides must be even.
            odd = [(0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)]
            image = av.VideoFrame.from_ndarray(np.pad(frame, odd, "edge"), format="rgb24")
            container.mux(stream.encode(image))
        container.mux(stream.encode())
    return content.getvalue()
