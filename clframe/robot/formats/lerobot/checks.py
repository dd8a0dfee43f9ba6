"""Check the metadata of a LeRobot dataset."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clframe.errors import ClframeError, DataError

_ODD = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError),
    *(RecursionError, MemoryError, AssertionError, NotImplementedError),
)
_MOST_SIDES, _LARGEST_SIDE = 8, 1 << 24


@contextlib.contextmanager
def reading(root: Path) -> Iterator[None]:
    """Report any error in a dataset's content as a `DataError` that names the dataset.

    Raises:
        DataError: The content cannot be read.
    """
    try:
        yield
    except ClframeError:
        raise
    except _ODD as error:
        line = (str(error).splitlines() or [""])[0][:200]
        raise DataError(
            f"'{root}' cannot be read as a LeRobot dataset: {type(error).__name__}: {line}"
        ) from error


def check_features(features: Any, path: Path) -> dict[str, dict[str, Any]]:
    """Return the features of ``info.json``: each has a dtype and a shape.

    Raises:
        DataError: A feature lacks one.
    """
    if not isinstance(features, dict):
        raise DataError(f"'{path}': 'features' must be an object")
    for name, spec in features.items():
        shape = spec.get("shape") if isinstance(spec, dict) else None
        sides = shape if isinstance(shape, list) else ["?"]
        good = len(sides) <= _MOST_SIDES and all(
            type(side) is int and 0 <= side <= _LARGEST_SIDE for side in sides
        )
        if not good or not isinstance(spec.get("dtype"), str):
            raise DataError(f"'{path}': feature '{name}' must have a dtype and a shape")
        for key in ("info", "video_info"):
            if not isinstance(spec.get(key) or {}, dict):
                raise DataError(f"'{path}': feature '{name}' has a '{key}' that is not an object")
    return features


def check_rate(value: Any, path: Path) -> float:
    """Return the frames per second; 0 if there is no entry.

    Raises:
        DataError: It is not a number.
    """
    if value is None:
        return 0.0
    if type(value) not in (int, float) or not math.isfinite(value) or value > 1e6:
        raise DataError(f"'{path}': fps must be a number, got {str(value)[:40]!r}")
    return float(value)


def check_ours(known: Mapping[str, Any], path: Path) -> None:
    """Check that a ``clframe.json`` is as clframe writes it.

    Raises:
        DataError: An entry is not.
    """
    tasks, episodes = known.get("tasks"), known.get("episodes")
    observations = known.get("observations", {})
    if not isinstance(tasks, list) or not all(map(_is_task, tasks)):
        raise DataError(f"'{path}': each entry of 'tasks' must have a name, a language and facts")
    if not isinstance(episodes, list) or not all(
        _is_episode(episode, len(tasks)) for episode in episodes
    ):
        raise DataError(f"'{path}': each of 'episodes' must have a task, a seed, rows and states")
    if not isinstance(observations, dict) or not all(
        isinstance(feature, str) for feature in observations.values()
    ):
        raise DataError(f"'{path}': 'observations' must map each name to a feature")


def is_text(value: Any) -> bool:
    """Return whether a value is a text that HDF5 can hold."""
    return isinstance(value, str) and "\0" not in value


def _is_task(task: Any) -> bool:
    return (
        isinstance(task, dict)
        and is_text(task.get("name"))
        and is_text(task.get("language"))
        and isinstance(task.get("facts"), dict)
    )


def _is_episode(episode: Any, n_tasks: int) -> bool:
    return (
        isinstance(episode, dict)
        and type(episode.get("task")) is int
        and 0 <= episode["task"] < n_tasks
        and isinstance(episode.get("seed"), int | None)
        and isinstance(episode.get("rows"), list)
        and all(isinstance(name, str) for name in episode["rows"])
        and type(episode.get("states")) is int
        and episode["states"] >= 0
    )
