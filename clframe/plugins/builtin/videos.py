"""Videos of all tasks learned so far, after each experience."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from clframe.core.plugin import Plugin
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.robot.evaluation import Evaluation, episodes_of
from clframe.robot.video import video_files
from clframe.robot.video.record_episode import actor, record_episode
from clframe.robot.video.record_video import RecordVideo
from clframe.robot.video.video_frames import TILE, Shot, grid

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream

FOLDER = "videos"
"""In the run folder."""
_IMAGES_PER_SECOND = 10.0


class Videos(Plugin):
    """Records an episode of each task learned so far after each experience, all in one video.

    The first experience's video is ``videos/exp0.gif`` (or ``.mp4``) in the run folder. Training is
    the same with videos and without.

    Args:
        folder: Where videos go.
        ending: Of their names: gif or mp4.
        strategy: Who acts, for the title.
    """

    def __init__(self, folder: str, ending: str, strategy: str = "") -> None:
        self.folder, self.ending, self.strategy = Path(folder), ending, strategy

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Only where videos are asked for and the run is written."""
        ending = context.logging.videos
        if ending is None or context.run_dir is None:
            return None
        return cls(str(context.run_dir / FOLDER), ending, context.strategy)

    @hookimpl
    def after_prepare(self, stream: Stream) -> None:
        """Refuse what cannot be recorded, before anything is learned.

        Raises:
            SettingError: With the reason.
        """
        video_files.check_target(self._path(0))
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
        # Whatever a policy draws with, learning goes on as if nothing had been recorded.
        with (
            learner.state.timing.measuring(),
            torch.inference_mode(),
            torch.random.fork_rng([] if device.type == "cpu" else [device]),
        ):
            episodes, rate, every = self._record(learner)
        learner.train()
        path = self._path(len(learner.seen) - 1)
        images = grid(episodes, actor(self.strategy, learner), rate)
        video_files.write(path, images, rate / every)
        if learner.step_log.takes_media:
            learner.log_media("videos", path, f"after {learner.seen[-1].name}")

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
                every = max(1, round(rate / _IMAGES_PER_SECOND))
            recorded = RecordVideo(environment, every, (TILE, 0))
            record_episode(learner, task, evaluation, recorded)
            episodes[task.name] = recorded.video()
        return episodes, rate, every

    def _path(self, experience: int) -> Path:
        return self.folder / f"exp{experience}.{self.ending}"
