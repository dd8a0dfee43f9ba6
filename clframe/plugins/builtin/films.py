"""Films of all tasks learned so far, after each experience."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from clframe.core.plugin import Plugin
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.robot import film_files
from clframe.robot.evaluation import Evaluation, episodes_of
from clframe.robot.filming import actor, film_episode
from clframe.robot.frames import TILE, Shot, grid
from clframe.robot.video import RecordVideo

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream

FOLDER = "films"
"""In the run folder."""
_PICTURES_PER_SECOND = 10.0


class Films(Plugin):
    """Records an episode of each task learned so far after each experience, all in one film.

    The film of the first experience is ``films/exp0.gif`` (or ``.mp4``) in the run folder. Learning
    is the same with films and without.

    Args:
        folder: Where films go.
        ending: Of their names: gif or mp4.
        strategy: Who acts, for the title.
    """

    def __init__(self, folder: str, ending: str, strategy: str = "") -> None:
        self.folder, self.ending, self.strategy = Path(folder), ending, strategy

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Only where films are asked for and the run is written."""
        ending = context.logging.videos
        if ending is None or context.run_dir is None:
            return None
        return cls(str(context.run_dir / FOLDER), ending, context.strategy)

    @hookimpl
    def after_prepare(self, stream: Stream) -> None:
        """Refuse what cannot be filmed, before anything is learned.

        Raises:
            SettingError: With the reason.
        """
        film_files.check_target(self._path(0))
        ways = [task.evaluation for task in stream.tasks]
        found = [how for how in ways if isinstance(how, Evaluation)]
        if not found:
            raise SettingError(
                f"logging.videos records episodes of robots, which stream '{stream.name}' has not"
            )
        recorded = RecordVideo(found[0].robot.make(), sizes=(TILE, 0))
        recorded.reset(seed=found[0].seeds[0])
        try:
            recorded.look()
        finally:
            recorded.close()

    @hookimpl(trylast=True)
    def after_evaluation(self, learner: Learner) -> None:
        """Record what has been learned."""
        if not learner.seen:
            return
        device = learner.engine.device
        learner.eval()
        # Whatever a policy draws with, learning goes on as if nothing had been filmed.
        with (
            learner.state.timing.measuring(),
            torch.inference_mode(),
            torch.random.fork_rng([] if device.type == "cpu" else [device]),
        ):
            episodes, rate, every = self._record(learner)
        learner.train()
        path = self._path(len(learner.seen) - 1)
        pictures = grid(episodes, actor(self.strategy, learner), rate)
        film_files.write(path, pictures, rate / every)
        if learner.step_log.takes_media:
            learner.log_media("films", path, f"after {learner.seen[-1].name}")

    def _record(self, learner: Learner) -> tuple[dict[str, list[Shot]], float, int]:
        """An episode of each task, steps a second, and every how many of them are recorded."""
        tasks = dict.fromkeys(task for one in learner.seen for task in one.tasks)
        episodes = {}
        rate, every = 0.0, 1
        for task in tasks:
            evaluation = episodes_of(task)
            environment = evaluation.robot.make()
            if not rate:
                rate = environment.rate
                every = max(1, round(rate / _PICTURES_PER_SECOND))
            recorded = RecordVideo(environment, every, (TILE, 0))
            film_episode(learner, task, evaluation, recorded)
            episodes[task.name] = recorded.film()
        return episodes, rate, every

    def _path(self, experience: int) -> Path:
        return self.folder / f"exp{experience}.{self.ending}"
