"""Select the tasks of a matrix row, and the experiences of a long stream to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clframe.core.stream import Stream, Task
    from clframe.evaluation.evaluation_settings import EvaluationSettings


def tasks_of_row(stream: Stream, settings: EvaluationSettings, learned: int) -> list[Task]:
    """Return all tasks or those learned so far; between two full rows, only the newest.

    See ``evaluation.evaluate_every`` and ``evaluation.evaluate_tasks``.

    Args:
        stream: The stream.
        settings: The config group ``evaluation``.
        learned: Number of learned experiences; 0 for the untrained model.
    """
    experiences = stream.experiences[:learned]
    if experiences and learned % settings.evaluate_every and learned != len(stream):
        return list(experiences[-1].tasks)
    if settings.evaluate_tasks == "all":
        return list(stream.tasks)
    names = {
        task.name
        for experience in experiences or stream.experiences[:1]
        for task in experience.tasks
    }
    return [task for task in stream.tasks if task.name in names]


SHOWN = 20
"""Largest number of experiences whose images are kept."""


def is_shown(number: int, total: int) -> bool:
    """Return whether to keep an experience's images: all, or ``SHOWN`` over a long stream.

    >>> [number for number in range(1000) if is_shown(number, 1000)][-3:]
    [893, 946, 999]

    Args:
        number: The number of the experience, from 0.
        total: Number of experiences in the stream.
    """
    if total <= SHOWN:
        return True
    return any(number == position * (total - 1) // (SHOWN - 1) for position in range(SHOWN))
