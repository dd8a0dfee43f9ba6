"""Record videos of episodes."""

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
        environment: An environment with ``video_cameras`` and ``image``, or with ``render``.
        every: Record every n-th step, and the steps that reach the goal or end the episode.
        sizes: Pixels of the first camera's image and of the others'; 0 omits the others.
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
        """Return the cameras' current images by name.

        Raises:
            DataError: The environment provides no images.
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
                f"{type(self.environment.innermost).__name__} provides no images, so it cannot be "
                "recorded"
            )
        return {"": np.asarray(frame, np.uint8)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and a video."""
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
        """Close the environment; the video remains, including its last step."""
        self._take_last()
        self.environment.close()

    def _take_last(self) -> None:
        """Record the episode's last step if it is not recorded yet."""
        if self.steps and (not self.shots or self.shots[-1].step != self.steps):
            self.shots.append(Shot(self.look(), self.steps, self._succeeded))

    def video(self) -> list[Shot]:
        """Return the recorded steps, the last one marked as the end."""
        self._take_last()
        *before, last = self.shots
        return [*before, Shot(last.views, last.step, last.success, ended=True)]

    def captioned(self, task: str, actor: str) -> list[ImageArray]:
        """Return the images of the video, with task, step, success and actor.

        Args:
            task: The task's instruction or name.
            actor: Describes the actor.
        """
        return [captioned(shot, task, actor, self.rate) for shot in self.video()]
