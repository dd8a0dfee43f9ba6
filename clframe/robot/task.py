"""The description of a robot task: an environment, an expert and an instruction.

Worker processes import this module, so it does not import torch.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.worlds.environment import Environment, as_environment
from clframe.worlds.perturbation import Perturbation

Observation: TypeAlias = "dict[str, NDArray[Any]]"
STATE = "state"
"""The observation that holds the state of robot and world as numbers."""


MakeEnvironment: TypeAlias = "Callable[[], Any]"
"""Creates an environment; see :mod:`clframe.worlds.environment`."""
Expert: TypeAlias = "Callable[[Any], Iterator[Any]]"
"""Yields the actions that solve an environment that was just reset."""


class RetryingExpert(abc.ABC):
    """An iterator of actions that marks those of attempts it gave up."""

    @abc.abstractmethod
    def retries(self) -> NDArray[np.bool_]:
        """Return for each action so far whether it belonged to such an attempt."""


@dataclass(frozen=True)
class RobotTask:
    """One task of a robot.

    Args:
        name: The task's name, unique in its family.
        family: The tasks that share a folder of demonstrations; the name should include everything
            that determines their content, including versions.
        language: The instruction.
        environment: Creates the environment; a module-level function (or a partial of one), so that
            worker processes can call it.
        expert: Solves the task, also module-level; None if demonstrations come from elsewhere.
        limit: Largest number of steps of an expert.
        facts: Metadata to write into the demonstrations (versions, settings).
        discrete: Whether an action is the number of a choice instead of a vector in -1..1.
        variant: Distinguishes the environment from others with the same demonstrations.
        recording: Creates the environment for recording and replay, if it differs from the one for
            evaluation: one that success does not end.
        finishes: Whether the expert ends the episode itself. Recording then waits for it and keeps
            only episodes that end with the goal reached; otherwise it stops some steps after
            success.
        perturb: Returns the perturbed task with its demonstrations unchanged; None if it cannot be
            perturbed.
    """

    name: str
    family: str
    language: str
    environment: MakeEnvironment
    expert: Expert | None = None
    limit: int = 500
    facts: Mapping[str, Any] = field(default_factory=dict)
    discrete: bool = False
    variant: str = ""
    perturb: Callable[[RobotTask, Perturbation], RobotTask] | None = None
    recording: MakeEnvironment | None = None
    finishes: bool = False

    def make_recording(self) -> Environment:
        """Create the environment for recording and replaying demonstrations."""
        return as_environment((self.recording or self.environment)())

    def make(self) -> Environment:
        """Create the environment in which a policy acts."""
        return as_environment(self.environment())


def as_dictionary(observation: Any) -> Observation:
    """Return an observation as arrays by name; a bare array is the ``state``."""
    if isinstance(observation, Mapping):
        return {str(name): np.asarray(value) for name, value in observation.items()}
    return {STATE: np.asarray(observation, dtype=np.float32)}


def episode_seeds(n: int, *key: int, start: int = 0) -> list[int]:
    """Return the seeds of n episodes, the same ones for the same key.

    >>> episode_seeds(3, 0, 1) == episode_seeds(5, 0, 1)[:3]
    True
    >>> set(episode_seeds(100, 0, 1)) & set(episode_seeds(100, 0, 2))
    set()
    """
    return [
        int(np.random.SeedSequence([*key, number]).generate_state(1)[0])
        for number in range(start, start + n)
    ]


DEMONSTRATION, EVALUATION, TRAINING = 0, 1, 2
"""The purpose of an episode's seed; training and evaluation never share episodes."""


def seed_key(task: RobotTask, goals: int, purpose: int) -> tuple[int, ...]:
    """Return the key of a task's episodes: from its name, the goals' seed and the purpose."""
    import zlib

    return (zlib.crc32(task.name.encode()), goals, purpose)


def success_of(info: Mapping[str, Any], task: str, step: int) -> bool:
    """Return whether the goal holds after a step.

    Raises:
        DataError: The environment does not report it.
    """
    if "success" not in info:
        raise DataError(
            f"the environment of task '{task}' does not report at step {step} whether the goal "
            "holds; its info must have an entry 'success'"
        )
    return bool(info["success"])


def check_action(action: NDArray[Any], task: str) -> None:
    """Check that an action holds only finite numbers."""
    if not np.isfinite(action).all():
        raise DataError(
            f"the policy's action in task '{task}' holds NaN or infinity; its training has "
            "probably diverged"
        )
