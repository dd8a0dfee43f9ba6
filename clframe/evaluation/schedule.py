"""Which tasks fill a row of the matrix, and which experiences of a long stream are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clframe.core.stream import Stream, Task
    from clframe.evaluation.evaluation_settings import EvaluationSettings


def tasks_of_row(stream: Stream, settings: EvaluationSettings, learned: int) -> list[Task]:
    """All tasks or those learned so far; between two full rows only the newest ones.

    See ``evaluation.evaluate_every`` and ``evaluation.evaluate_tasks``.

    Args:
        stream: What is learned.
        settings: The config group ``evaluation``.
        learned: How many experiences have been learned; 0 for the untrained model.
    """
    seen = stream.experiences[:learned]
    if seen and learned % settings.evaluate_every and learned != len(stream):
        return list(seen[-1].tasks)
    if settings.evaluate_tasks == "all":
        return list(stream.tasks)
    names = {task.name for one in seen or stream.experiences[:1] for task in one.tasks}
    return [task for task in stream.tasks if task.name in names]


SHOWN = 20
"""Experiences of which images are kept."""


def is_shown(number: int, total: int) -> bool:
    """Whether images of an experience are kept: of all, or of ``SHOWN`` spread over a long stream.

    >>> [number for number in range(1000) if is_shown(number, 1000)][-3:]
    [893, 946, 999]

    Args:
        number: Of the experience, from 0.
        total: Experiences of the stream.
    """
    if total <= SHOWN:
        return True
    return any(number == place * (total - 1) // (SHOWN - 1) for place in range(SHOWN))
