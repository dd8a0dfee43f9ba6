"""A point robot that is seen through two small cameras, as a stream for imitation."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clframe.robot.stream import ImitationSettings, ImitationStream, imitation_stream
from clframe.robot.task import RobotTask
from clframe.worlds.point_robot import PointEnvironment

CAMERAS = ("front_rgb", "wrist_rgb")
SIDE = 16


class SeenPoint(PointEnvironment):
    """A point whose goal is to be seen only: a bright spot in two images."""

    def _observe(self) -> dict[str, Any]:
        images = {name: np.zeros((SIDE, SIDE, 3), np.uint8) for name in CAMERAS}
        for number, name in enumerate(CAMERAS):
            center = self.goal - number * self.position
            x, y = np.clip(((center + 1.3) / 2.6 * SIDE).astype(int), 1, SIDE - 2)
            images[name][y - 1 : y + 2, x - 1 : x + 2] = 255
        return {"state": np.concatenate([self.position, self.goal]).astype(np.float32), **images}


def expert(environment: Any) -> Iterator[Any]:
    """Straight to the place, at a speed that bounds of actions do not cut."""
    while True:
        way = environment.place - environment.position
        yield 0.7 * way / max(float(np.linalg.norm(way)), 0.1)


def seen_stream(
    folder: Path, n_tasks: int = 2, num_demos: int = 2, **options: Any
) -> ImitationStream:
    """Teach the point its places from a few demonstrations."""
    tasks = [
        RobotTask(f"turn{k}", "seen", f"turn {k}", functools.partial(SeenPoint, k, n_tasks), expert)
        for k in range(n_tasks)
    ]
    return imitation_stream(
        "seen",
        tasks,
        range(n_tasks),
        ImitationSettings(
            **{
                "num_demos": num_demos,
                "eval_episodes": 3,
                "horizon": 12,
                "num_workers": 0,
                "num_envs": 2,
                **options,
            }
        ),
        folder,
        4,
        2,
        images=CAMERAS,
        image_size=SIDE,
        parts={"place": (0, 1)},
    )
