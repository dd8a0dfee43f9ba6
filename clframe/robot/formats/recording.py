"""The demonstrations of one task and their metadata, to convert between formats."""

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
"""The endings of the names of images."""
ROWS = ("executed", "rewards", "successes", "retries")
"""Optional rows of a demonstration, in addition to actions and observations."""


@dataclass(frozen=True)
class Recording:
    """The demonstrations of one task.

    Args:
        name: The task's name.
        language: The task's instruction.
        facts: How the environment was made, and with which versions.
        demos: The demonstrations.
        models: The MJCF text of each demonstration's world; empty if unknown.
    """

    name: str
    language: str
    facts: Mapping[str, Any]
    demos: Sequence[Demonstration]
    models: Sequence[str] = field(default_factory=tuple)


class Recordings(Sequence[Recording]):
    """Recordings that are read again at each access, so that only one is in memory.

    Args:
        names: The names of the tasks.
        load: Reads the recording at a position.
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
    """Read a file in our own layout, or its first n demonstrations."""
    info = demonstrations.read_info(path)
    return Recording(info.name, info.language, info.facts, demonstrations.read(path, n))


def write(path: Path, recording: Recording) -> None:
    """Write a file in our own layout."""
    demonstrations.write(path, recording.name, recording.language, recording.facts, recording.demos)


def is_image(name: str, values: NDArray[Any]) -> bool:
    """Return whether an observation is a color image, ``[T, height, width, 3]`` of bytes."""
    return values.dtype == np.uint8 and values.ndim == 4 and values.shape[-1] == 3


def is_depth(name: str, values: NDArray[Any]) -> bool:
    """Return whether an observation is an image of distances in meters, ``[T, height, width]``."""
    return name.endswith(DEPTH) and values.ndim == 3 and values.dtype.kind == "f"


class Shapes:
    """The shapes of actions and observations, which must be equal in all recordings."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[tuple[int, ...], str]] = {}

    def add(self, recording: Recording) -> None:
        """Check that a recording has the shapes of the previous ones.

        Raises:
            DataError: A shape differs.
        """
        for number, demo in enumerate(recording.demos):
            rows = {"actions": demo.actions, **demo.observations}
            for name, values in rows.items():
                first, where = self._shapes.setdefault(name, (values.shape[1:], recording.name))
                if values.shape[1:] != first:
                    raise DataError(
                        f"'{name}' of task '{recording.name}', demonstration {number}, has the "
                        f"shape {list(values.shape[1:])}, but {list(first)} in task '{where}'; a "
                        f"dataset has one shape, so export them separately"
                    )
            if set(rows) != set(self._shapes):
                (odd, *_) = sorted(set(rows) ^ set(self._shapes))
                raise DataError(
                    f"'{odd}' is not in all demonstrations of '{recording.name}' and the tasks "
                    "before it; export them separately"
                )


def with_state(recording: Recording) -> tuple[Recording, list[str]]:
    """Return the recording with an observation ``state``, and the observations in it, if any.

    Other people's files have no ``state``: it joins all their vectors, ordered by name.
    """
    if not recording.demos or STATE in recording.demos[0].observations:
        return recording, []
    observations = recording.demos[0].observations
    names = sorted(name for name, values in observations.items() if values.ndim == 2)
    demos = [
        dataclasses.replace(
            demo, observations={STATE: _joined(demo.observations, names), **demo.observations}
        )
        for demo in recording.demos
    ]
    return dataclasses.replace(recording, demos=demos), names


def _joined(observations: Observation, names: Sequence[str]) -> NDArray[np.float32]:
    rows = len(next(iter(observations.values())))
    empty = np.zeros((rows, 0), np.float32)
    return np.concatenate([empty, *(observations[name] for name in names)], 1).astype(np.float32)
