"""Videos of episodes: an animated GIF, or a folder of pictures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError
from clframe.robot.task import Environment
from clframe.utils.files import write_bytes

_FRAMES_PER_SECOND = 20


class RecordVideo:
    """An environment that is recorded while it is stepped.

    Args:
        environment: With ``render()``, which gives a picture if ``render_mode`` is ``rgb_array``.
        every: Record every so many steps.
    """

    def __init__(self, environment: Environment, every: int = 4) -> None:
        self.environment: Any = environment
        setattr(environment, "render_mode", "rgb_array")  # noqa: B010  Gymnasium's name
        self.every, self.steps = every, 0
        self.frames: list[NDArray[np.uint8]] = []

    def _take(self) -> None:
        frame = self.environment.render() if hasattr(self.environment, "render") else None
        if frame is None:
            raise DataError(
                f"{type(self.environment).__name__} gives no pictures, so it cannot be recorded"
            )
        self.frames.append(np.asarray(frame, np.uint8))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        result: tuple[Any, dict[str, Any]] = self.environment.reset(seed=seed, options=options)
        self.steps = 0
        self._take()
        return result

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action."""
        result: tuple[Any, Any, bool, bool, dict[str, Any]] = self.environment.step(action)
        self.steps += 1
        if result[2] or result[3] or self.steps % self.every == 0:
            self._take()
        return result


def check_target(path: Path) -> None:
    """Refuse a video of a kind that cannot be written, before anything is rendered."""
    if path.suffix not in (".gif", ""):
        raise SettingError(
            f"a video is written as an animated picture (NAME.gif) or as a folder of pictures "
            f"(NAME), not as '{path.name}'"
        )


def write(path: Path, frames: list[NDArray[np.uint8]]) -> None:
    """Write an animated GIF, or numbered PNG files where the name has no ending."""
    from PIL import Image

    check_target(path)
    pictures = [Image.fromarray(frame) for frame in frames]
    if path.suffix == ".gif":
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        pictures[0].save(
            content,
            "GIF",
            save_all=True,
            append_images=pictures[1:],
            duration=1000 // _FRAMES_PER_SECOND,
            loop=0,
        )
        write_bytes(path, content.getvalue())
        return
    path.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures):
        content = io.BytesIO()
        picture.save(content, "PNG")
        write_bytes(path / f"{number:04d}.png", content.getvalue())
