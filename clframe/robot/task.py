"""What imitation needs to know of a task: an environment, an expert, an instruction.

Light on purpose: worker processes import it and have no use for torch.
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
"""The observation that is the robot's and the world's numbers."""


MakeEnvironment: TypeAlias = "Callable[[], Any]"
"""Makes an environment; see :mod:`clframe.worlds.environment`."""
Expert: TypeAlias = "Callable[[Any], Iterator[Any]]"
"""Yields the actions that reach the goal of an environment that was just reset."""


class RetryingExpert(abc.ABC):
    """An iterator of actions that tells which ones belonged to attempts that it gave up."""

    @abc.abstractmethod
    def retries(self) -> NDArray[np.bool_]:
        """Return for each action so far whether it belonged to such an attempt."""


@dataclass(frozen=True)
class RobotTask:
    """One task of a robot.

    Args:
        name: Unique in its family.
        family: Which tasks this one shares a folder of demonstrations with; it should name all
            that decides what they look like, versions included.
        language: The instruction.
        environment: Makes the environment; a function of a module (or a partial of one), so that
            worker processes can call it.
        expert: Solves it; likewise. None where demonstrations come from elsewhere.
        limit: Steps that an expert may take.
        facts: Anything else worth writing into the demonstrations (versions, settings).
        discrete: Whether an action is the number of a choice, instead of a vector in -1..1.
        variant: What tells the environment from others that have the same demonstrations.
        recording: Makes the environment that demonstrations are recorded and played in, where it
            is another than the one that measures: one that success does not end.
        finishes: Whether the expert ends by itself, so that recording waits for it and keeps only
            episodes that end with the goal reached; others end some steps after success.
        perturb: Makes the same task away from its demonstrations; None where nothing is known to
            perturb.
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
        """Make the environment that demonstrations are recorded and played in."""
        return as_environment((self.recording or self.environment)())

    def make(self) -> Environment:
        """Make the environment that a policy acts in."""
        return as_environment(self.environment())


def as_dictionary(observation: Any) -> Observation:
    """An observation as arrays by name; a bare array is the ``state``."""
    if isinstance(observation, Mapping):
        return {str(name): np.asarray(value) for name, value in observation.items()}
    return {STATE: np.asarray(observation, dtype=np.float32)}


def episode_seeds(n: int, *key: int, start: int = 0) -> list[int]:
    """Seeds of n episodes, the same ones for the same key.

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
"""Which episodes a seed is for; what is learned from and what is measured on never meet."""


def seed_key(task: RobotTask, goals: int, purpose: int) -> tuple[int, ...]:
    """The key of a task's episodes: its name, the stream's choice of goals, what they are for."""
    import zlib

    return (zlib.crc32(task.name.encode()), goals, purpose)


def success_of(info: Mapping[str, Any], task: str, step: int) -> bool:
    """Whether the goal holds after a step.

    Raises:
        DataError: The environment does not say.
    """
    if "success" not in info:
        raise DataError(
            f"the environment of task '{task}' does not say at step {step} whether the goal holds: "
            "its info must have an entry 'success'"
        )
    return bool(info["success"])


def check_action(action: NDArray[Any], task: str) -> None:
    """Refuse an action that is not made of finite numbers."""
    if not np.isfinite(action).all():
        raise DataError(
            f"the policy's action in task '{task}' holds NaN or infinity; its training has "
            "probably diverged"
        )
