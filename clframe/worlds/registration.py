"""Gymnasium ids of the worlds; importing this module registers them.

>>> import gymnasium
>>> import clframe.worlds.registration
>>> env = gymnasium.make("clframe/PointRobot-v0", task=1, of=4)
>>> observation, info = env.reset(seed=0)
>>> sorted(observation), info["success"]
(['state'], False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.worlds.point_robot import ACTION_SIZE, STATE_SIZE, PointEnvironment

if TYPE_CHECKING:
    from clframe.worlds.behavior.env import BehaviorEnv
    from clframe.worlds.tabletop.env import TabletopEnv


def tabletop(task: str = "tabletop_spatial/0", **settings: Any) -> TabletopEnv:
    """Make a tabletop task.

    Args:
        task: ``SUITE/NAME`` or ``SUITE/NUMBER`` of a shipped task, or the path or text of a file.
        **settings: Of :class:`clframe.worlds.tabletop.env.TabletopEnv`.
    """
    from clframe.worlds.tabletop import suites
    from clframe.worlds.tabletop.env import TabletopEnv

    suite, _, name = task.partition("/")
    return TabletopEnv(suites.task(suite, name) if suite in suites.SUITES else task, **settings)


def household(task: str = "b100/picking_up_trash", **settings: Any) -> BehaviorEnv:
    """Make a household activity without physics.

    Args:
        task: ``CORPUS/ACTIVITY``, with the corpus ``b100`` or ``b1k``.
        **settings: Of :class:`clframe.worlds.behavior.env.BehaviorEnv`.
    """
    from clframe.worlds.behavior.env import BehaviorEnv

    corpus, slash, activity = task.partition("/")
    if not slash:
        raise SettingError(f"task is '{task}', but it is written CORPUS/ACTIVITY")
    return BehaviorEnv((corpus, activity), **settings)


class PointRobotEnv(PointEnvironment, gymnasium.Env[dict[str, NDArray[Any]], NDArray[Any]]):
    """The point robot with the spaces that Gymnasium asks for.

    Args:
        task: Which one, from 0.
        of: How many tasks there are.
        render_mode: None or ``rgb_array``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012  Gymnasium's own

    def __init__(self, task: int = 0, of: int = 4, render_mode: str | None = None) -> None:
        if not 0 <= task < of:
            raise SettingError(f"task is {task}, but it must be from 0 to {of - 1}")
        super().__init__(task, of)
        self.render_mode = render_mode
        state = spaces.Box(-np.inf, np.inf, (STATE_SIZE,), np.float32)
        seen: spaces.Space[Any] = spaces.Dict({"state": state})
        self.observation_space = seen
        self.action_space = spaces.Box(-1.0, 1.0, (ACTION_SIZE,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Begin an episode; without a seed it follows from the environment's own generator."""
        gymnasium.Env.reset(self, seed=seed)
        return super().reset(seed=int(self.np_random.integers(2**31)), options=options)


gymnasium.register("clframe/Tabletop-v0", f"{__name__}:tabletop")
gymnasium.register("clframe/Household-v0", f"{__name__}:household")
gymnasium.register("clframe/PointRobot-v0", f"{__name__}:PointRobotEnv", max_episode_steps=60)
