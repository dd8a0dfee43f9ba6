"""What is converted: the demonstrations of one task, with what is known of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot import demonstrations
from clframe.robot.demonstrations import Demonstration
from clframe.robot.task import STATE, Observation

RGB, DEPTH = "_rgb", "_depth"
"""How the names of images end."""
ROWS = ("executed", "rewards", "successes", "retries")
"""What a demonstration may know of each step beside actions and observations."""


@dataclass(frozen=True)
class Recording:
    """The demonstrations of one task.

    Args:
        name: Of the task.
        language: Its instruction.
        facts: How the environment was made, which versions.
        demos: The demonstrations.
        models: The MJCF text of each demonstration's world; empty where nobody tells it.
    """

    name: str
    language: str
    facts: Mapping[str, Any]
    demos: Sequence[Demonstration]
    models: Sequence[str] = field(default_factory=tuple)


class Recordings(Sequence[Recording]):
    """Recordings that are read when they are asked for, each time anew: one is in memory at a time.

    Args:
        names: Of the tasks.
        load: Reads the one at a position.
    """

    def __init__(self, names: Sequence[str], load: Callable[[int], Recording]) -> None:
        self.names, self._load = list(names), load

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self._load(number) for number in range(len(self))[position]]
        return self._load(range(len(self))[position])


def read(path: Path, n: int | None = None) -> Recording:
    """A file in our own layout, or the first n demonstrations of it."""
    info = demonstrations.read_info(path)
    return Recording(info.name, info.language, info.facts, demonstrations.read(path, n))


def write(path: Path, recording: Recording) -> None:
    """The same, written."""
    demonstrations.write(path, recording.name, recording.language, recording.facts, recording.demos)


def is_image(name: str, values: NDArray[Any]) -> bool:
    """Whether an observation is a colour image, ``[T, height, width, 3]`` of bytes."""
    return values.dtype == np.uint8 and values.ndim == 4 and values.shape[-1] == 3


def is_depth(name: str, values: NDArray[Any]) -> bool:
    """Whether an observation is an image of distances in meters, ``[T, height, width]``."""
    return name.endswith(DEPTH) and values.ndim == 3 and values.dtype.kind == "f"


class Shapes:
    """The shapes of actions and observations, which must be the same in all that is written."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def add(self, recording: Recording) -> None:
        """See to it that a recording has the shapes of those before it.

        Raises:
            DataError: It has not.
        """
        for number, demo in enumerate(recording.demos):
            rows = {"actions": demo.actions, **demo.observations}
            for name, values in rows.items():
                first, where = self._known.setdefault(name, (values.shape[1:], recording.name))
                if values.shape[1:] != first:
                    raise DataError(
                        f"'{name}' of task '{recording.name}', demonstration {number}, has the "
                        f"shape {list(values.shape[1:])}, but {list(first)} in task '{where}'; a "
                        "data set has one shape: export them apart"
                    )
            if set(rows) != set(self._known):
                (odd, *_) = sorted(set(rows) ^ set(self._known))
                raise DataError(
                    f"'{odd}' is not in all demonstrations of '{recording.name}' and the tasks "
                    "before it; export them apart"
                )


def with_state(recording: Recording) -> tuple[Recording, list[str]]:
    """The same with an observation ``state``, and of which ones it was put together, if it was.

    Files of others have no ``state``: it is made of all their vectors, in the order of their names.
    """
    if not recording.demos or STATE in recording.demos[0].observations:
        return recording, []
    seen = recording.demos[0].observations
    names = sorted(name for name, values in seen.items() if values.ndim == 2)
    demos = [
        dataclasses.replace(
            demo, observations={STATE: _joined(demo.observations, names), **demo.observations}
        )
        for demo in recording.demos
    ]
    return dataclasses.replace(recording, demos=demos), names


def _joined(seen: Observation, names: Sequence[str]) -> NDArray[np.float32]:
    rows = len(next(iter(seen.values())))
    empty = np.zeros((rows, 0), np.float32)
    return np.concatenate([empty, *(seen[name] for name in names)], 1).astype(np.float32)
