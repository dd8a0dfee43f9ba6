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
"""Name in the run folder."""
_IMAGES_PER_SECOND = 10.0


class Videos(Plugin):
    """Videos of an episode of each task learned so far, one video after each experience.

    The first experience's video is ``videos/exp0.gif`` (or ``.mp4``) in the run folder. Training is
    the same with and without videos.

    Args:
        folder: Folder of the videos.
        ending: File type: gif or mp4.
        strategy: The strategy's name, for the title.
    """

    def __init__(self, folder: str, ending: str, strategy: str = "") -> None:
        self.folder, self.ending, self.strategy = Path(folder), ending, strategy

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if videos are enabled and the run is written to a folder."""
        ending = context.logging.videos
        if ending is None or context.run_dir is None:
            return None
        return cls(str(context.run_dir / FOLDER), ending, context.strategy)

    @hookimpl
    def after_prepare(self, stream: Stream) -> None:
        """Raise an error before training if episodes cannot be recorded.

        Raises:
            SettingError: With the reason.
        """
        video_files.check_target(self._path(0))
        ways = [task.evaluation for task in stream.tasks]
        evaluations = [how for how in ways if isinstance(how, Evaluation)]
        if not evaluations:
            raise SettingError(
                "logging.videos needs robot episodes, which stream "
                f"'{stream.name}' does not provide"
            )
        recorded = RecordVideo(evaluations[0].robot.make(), sizes=(TILE, 0))
        recorded.reset(seed=evaluations[0].seeds[0])
        try:
            recorded.look()
        finally:
            recorded.close()

    @hookimpl(trylast=True)
    def after_evaluation(self, learner: Learner) -> None:
        """Record the tasks learned so far."""
        if not learner.seen:
            return
        device = learner.engine.device
        learner.eval()
        # Recording must not change the random state of training.
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
        """Return an episode of each task, the steps per second, and the recording interval."""
        tasks = dict.fromkeys(task for experience in learner.seen for task in experience.tasks)
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
