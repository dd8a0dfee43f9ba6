"""Videos of episodes: an environment that is recorded while it is stepped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.video.video_frames import LARGE, SMALL, ImageArray, Shot, captioned
from clframe.worlds.environment import WrappedEnvironment, as_environment


class RecordVideo(WrappedEnvironment):
    """An environment that is recorded while it is stepped.

    Args:
        environment: With ``video_cameras`` and ``image``, or with ``render``.
        every: Record every so many steps, and those that reach the goal or end the episode.
        sizes: Pixels of the first camera's image and of the others'; 0 leaves these out.
    """

    def __init__(
        self, environment: Any, every: int = 1, sizes: tuple[int, int] = (LARGE, SMALL)
    ) -> None:
        super().__init__(as_environment(environment))
        self.environment.render_mode = "rgb_array"
        self.every, self.sizes, self.steps = every, sizes, 0
        self.shots: list[Shot] = []
        self._succeeded = False

    def look(self) -> dict[str, ImageArray]:
        """What the cameras see now, by their names.

        Raises:
            DataError: The environment gives no images.
        """
        cameras = self.environment.video_cameras
        if cameras:
            first, others = self.sizes
            kept = cameras if others else cameras[:1]
            sizes = (first, *(others for _ in kept[1:]))
            taken = zip(kept, sizes, strict=True)
            return {name: self.environment.image(name, size) for name, size in taken}
        frame = self.environment.render()
        if frame is None:
            raise DataError(
                f"{type(self.environment.innermost).__name__} gives no images, so it cannot be "
                "recorded"
            )
        return {"": np.asarray(frame, np.uint8)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, and a video."""
        result = self.environment.reset(seed=seed, options=options)
        self.steps, self._succeeded = 0, False
        self.shots.clear()
        return result

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action."""
        result = self.environment.step(action)
        self.steps += 1
        reached = bool(result[4].get("success")) and not self._succeeded
        self._succeeded = self._succeeded or reached
        if reached or result[2] or result[3] or self.steps % self.every == 0:
            self.shots.append(Shot(self.look(), self.steps, self._succeeded))
        return result

    def close(self) -> None:
        """Give the environment up; the video stays, with its last step."""
        self._take_last()
        self.environment.close()

    def _take_last(self) -> None:
        """Record where the episode was left, if that was between two images."""
        if self.steps and (not self.shots or self.shots[-1].step != self.steps):
            self.shots.append(Shot(self.look(), self.steps, self._succeeded))

    def video(self) -> list[Shot]:
        """What was recorded, the last one marked as such."""
        self._take_last()
        *before, last = self.shots
        return [*before, Shot(last.views, last.step, last.success, ended=True)]

    def captioned(self, task: str, actor: str) -> list[ImageArray]:
        """The images of the video, with task, step, success and who acts.

        Args:
            task: The instruction or the name.
            actor: Who acts.
        """
        return [captioned(shot, task, actor, self.rate) for shot in self.video()]
