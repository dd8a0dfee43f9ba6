"""Images as MP4 files, with the package av."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError

_QUALITY, _GROUP = "18", "2"
"""Rate factor of x264 (lower is better), and images between two key frames."""
_LEVELS = 4095
"""The largest value of 12 bits."""
_DEPTH = {"depth_min": 0.01, "depth_max": 10.0, "shift": 3.5, "use_log": True}
"""LeRobot's default mapping from meters to 12 bits, for datasets without their own."""


def package() -> Any:
    """Return the package av.

    Raises:
        SettingError: It is not installed.
    """
    try:
        import av
    except ModuleNotFoundError as error:
        raise SettingError(
            "videos (mp4) need the package av; install it with: pip install 'clframe[video]'"
        ) from error
    return av


class VideoWriter:
    """Writes one MP4 file, image by image.

    Args:
        path: The file.
        fps: Images per second.
        size: Height and width.

    Raises:
        DataError: A side has an odd number of pixels, which the codec cannot hold.
    """

    def __init__(self, path: Path, fps: int, size: tuple[int, int]) -> None:
        if size[0] % 2 or size[1] % 2:
            raise DataError(
                f"cannot write images of {size[0]} x {size[1]} pixels as mp4, which needs even "
                "sides; omit --video to embed them in Parquet"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        self.av, self.path, self.fps, self.frames = package(), path, fps, 0
        self.container = self.av.open(str(path), "w")
        self.stream = self.container.add_stream("libx264", rate=fps)
        self.stream.height, self.stream.width = size
        self.stream.pix_fmt = "yuv420p"
        self.stream.options = {"crf": _QUALITY, "g": _GROUP}
        self.stream.time_base = Fraction(1, fps)

    def add(self, images: NDArray[np.uint8]) -> tuple[float, float]:
        """Append an episode; return the seconds at which it begins and ends."""
        start = self.frames
        for image in images:
            frame = self.av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            frame.pts, frame.time_base = self.frames, Fraction(1, self.fps)
            self.container.mux(self.stream.encode(frame))
            self.frames += 1
        return start / self.fps, self.frames / self.fps

    def close(self) -> None:
        """Finish the file."""
        self.container.mux(self.stream.encode())
        self.container.close()


def video_info(fps: int, size: tuple[int, int]) -> dict[str, Any]:
    """Return a dataset's metadata about its videos."""
    return {
        "video.height": size[0],
        "video.width": size[1],
        "video.codec": "h264",
        "video.pix_fmt": "yuv420p",
        "video.fps": fps,
        "video.channels": 3,
        "is_depth_map": False,
        "has_audio": False,
    }


def read_video(
    path: Path, start: float, count: int, fps: float, depth: dict[str, Any] | None = None
) -> list[NDArray[Any]]:
    """Return the images of an episode.

    Args:
        path: The file.
        start: Seconds at which the episode begins.
        count: Number of images.
        fps: Images per second.
        depth: The dataset's quantisation of depth; None for color images.

    Raises:
        DataError: The file is missing or damaged, or ends too early.
    """
    av = package()
    if not path.is_file():
        raise DataError(f"the video '{path}' does not exist")
    frames: dict[int, NDArray[Any]] = {}
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            before = max(0.0, start - 0.5 / fps)
            container.seek(int(before / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                number = round((frame.time - start) * fps)
                if number >= count:
                    break
                if number >= 0:
                    kind = "rgb24" if depth is None else "gray12le"
                    frames[number] = frame.to_ndarray(format=kind)
    except (av.FFmpegError, IndexError) as error:
        raise DataError(f"cannot read the video '{path}': {error}") from error
    if len(frames) != count:
        raise DataError(
            f"the video '{path}' has {len(frames)} of the {count} images from second {start:g} on"
        )
    images = [frames[number] for number in range(count)]
    return images if depth is None else [meters(image, depth) for image in images]


def meters(levels: NDArray[Any], info: dict[str, Any]) -> NDArray[np.float32]:
    """Convert LeRobot's 12-bit levels to meters; they are spaced linearly or logarithmically.

    >>> meters(np.array([0, 4095]), {"video.use_log": False})
    array([ 0.01, 10.  ], dtype=float32)
    """
    least, most, shift, log = (
        info.get(f"video.{name}", info.get(name, value)) for name, value in _DEPTH.items()
    )
    share = levels.astype(np.float64) / _LEVELS
    if log:
        low, high = np.log(least + shift), np.log(most + shift)
        distance = np.exp(low + share * (high - low)) - shift
    else:
        distance = least + share * (most - least)
    clipped: NDArray[np.float32] = distance.clip(least, most).astype(np.float32)
    return clipped
