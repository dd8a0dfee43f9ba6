"""Assign sets of weights to experiences, for methods with one per experience."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clframe.core.stream import Experience, Stream


class Slots:
    """A number for each experience; an experience whose tasks recur has the same number.

    It is known before the run begins, so that all weights exist when the optimizer is created.

    Args:
        stream: The stream to learn.
    """

    def __init__(self, stream: Stream) -> None:
        numbers: dict[tuple[int, ...], int] = {}
        self._of_experience: dict[int, int] = {}
        of_task: dict[int, int] = {}
        for experience in stream.experiences:
            tasks = tuple(task.index for task in experience.tasks)
            number = numbers.setdefault(tasks, len(numbers))
            self._of_experience[experience.index] = number
            for task in tasks:
                of_task.setdefault(task, number)
        self.names: list[str] = [""] * len(numbers)
        """Names of the first experience of each slot."""
        for experience in reversed(stream.experiences):
            self.names[self.of(experience)] = experience.name
        self.of_task = [of_task.get(task.index, 0) for task in stream.tasks]
        """The slot of each task; 0 for a task that is never learned."""

    def __len__(self) -> int:
        return len(self.names)

    def of(self, experience: Experience) -> int:
        """Return the slot of an experience."""
        return self._of_experience[experience.index]
