"""Record videos of a learner's episodes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from clframe.core import hooks
from clframe.robot.episodes import Outcome, forget
from clframe.robot.evaluation import Evaluation, evaluate
from clframe.robot.video.record_video import RecordVideo
from clframe.utils.processes import WorkerPool

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Task


def record_episode(learner: Learner, task: Task, how: Evaluation, recorded: RecordVideo) -> Outcome:
    """Run the task's first episode in this process and record it.

    Args:
        learner: The learner that acts, in evaluation mode.
        task: The task to do.
        how: The task's evaluation.
        recorded: An environment of the task; closed at the end.
    """
    robot = dataclasses.replace(
        how.robot, variant=f"{how.robot.variant} (recorded)", environment=lambda: recorded
    )
    recording = dataclasses.replace(how, robot=robot)
    try:
        with hooks.in_task(learner, task):
            (outcome,) = evaluate(learner, task, recording, WorkerPool(0), how.seeds[:1])
    finally:
        forget(recording.key)
    return outcome


def actor(strategy: str, learner: Learner) -> str:
    """Describe the actor for a caption: a strategy and what it has learned."""
    seen = learner.seen
    learned = (
        f"{len(seen)} of {len(learner.stream)}: {seen[-1].name.replace('_', ' ')}"
        if seen
        else "nothing"
    )
    return f"{strategy}, after {learned}"
