"""Record demonstrations: experts act, and successful episodes are kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot import demonstrations
from clframe.robot.demonstrations import Demonstration
from clframe.robot.task import (
    DEMONSTRATION,
    RetryingExpert,
    RobotTask,
    as_dictionary,
    episode_seeds,
    seed_key,
)
from clframe.robot.workers import environment_pool
from clframe.utils.console import warn_user
from clframe.utils.files import remove_temporary
from clframe.utils.lock import Lock
from clframe.utils.progress import ProgressMeter
from clframe.worlds.environment import Environment, as_environment

AFTER_SUCCESS = 10
"""Steps kept after the goal was reached, so that the demonstration includes holding it."""
_TRIES = 4
"""Episodes tried per requested one before a task is given up."""


def path_of(task: RobotTask, folder: Path, goal_seed: int = 0) -> Path:
    """Return the file of a task's demonstrations under the data folder."""
    family = task.family if goal_seed == 0 else f"{task.family}-goals-{goal_seed}"
    return folder / "demos" / family / f"{task.name}_demo.hdf5"


def record(task: RobotTask, environment: Environment, seed: int) -> Demonstration | None:
    """Record one episode of the expert; return None if it does not reach the goal."""
    assert task.expert is not None
    environment = as_environment(environment)
    observation, _ = environment.reset(seed=seed)
    observations: list[dict[str, Any]] = []
    steps: list[_Step] = []
    states: list[Any] = []
    left = task.limit
    succeeded = False
    expert = task.expert(environment.innermost)
    ended = False
    for action in expert:
        observations.append(as_dictionary(observation))
        executed: Any = action
        if task.discrete:  # stored as a vector of one number
            label = np.array([action], np.float32)
        else:
            executed = label = np.clip(np.asarray(action, np.float32), -1.0, 1.0)
        if (state := environment.simulator_state()) is not None:
            states.append(state)
        observation, reward, terminated, truncated, info = environment.step(executed)
        steps.append(_Step(label, info.get("executed"), float(reward), bool(info["success"])))
        left -= 1
        if info["success"] and not succeeded:
            succeeded, left = True, left if task.finishes else min(left, AFTER_SUCCESS)
        if terminated or truncated or left <= 0:
            break
    else:
        ended = True
    if not succeeded or (task.finishes and not (ended and steps[-1].success)):
        return None
    disturbed = any(step.executed is not None for step in steps)
    return Demonstration(
        np.stack([step.action for step in steps]),
        {name: np.stack([frame[name] for frame in observations]) for name in observations[0]},
        np.stack(states) if states else np.zeros((0, 0)),
        seed,
        np.stack([step.done for step in steps]) if disturbed else None,
        np.array([step.reward for step in steps], np.float32),
        np.array([step.success for step in steps]),
        expert.retries() if isinstance(expert, RetryingExpert) else None,
    )


class _Step(NamedTuple):
    """An action and its results."""

    action: NDArray[np.float32]
    executed: NDArray[np.float32] | None
    reward: float
    success: bool

    @property
    def done(self) -> NDArray[np.float32]:
        return self.action if self.executed is None else self.executed


def make_file(task: RobotTask, path: Path, n: int, goal_seed: int = 0) -> tuple[int, int]:
    """Record n successful episodes and write them; return how many were kept and tried.

    Raises:
        DataError: The expert fails too often.
    """
    if task.expert is None:
        raise DataError(
            f"task '{task.name}' has no expert to demonstrate it; put its demonstrations at "
            f"'{path}'"
        )
    environment = task.make_recording()
    kept: list[Demonstration] = []
    tried = 0
    key = seed_key(task, goal_seed, DEMONSTRATION)
    while len(kept) < n:
        if tried >= _TRIES * n:
            raise DataError(
                f"the expert of task '{task.name}' reached the goal in {len(kept)} of {tried} "
                f"episodes, but {n} successful ones are needed"
            )
        demo = record(task, environment, episode_seeds(1, *key, start=tried)[0])
        tried += 1
        if demo is not None:
            kept.append(demo)
    facts = {**task.facts, "family": task.family, "goals": goal_seed, "episodes_tried": tried}
    demonstrations.write(path, task.name, task.language, facts, kept)
    environment.close()
    return len(kept), tried


def has_enough(path: Path, n: int) -> bool:
    """Return whether a file exists with at least n demonstrations."""
    return path.is_file() and demonstrations.read_info(path).demos >= n


def ensure(
    tasks: Sequence[RobotTask],
    folder: Path,
    n: int,
    goal_seed: int = 0,
    num_workers: int | None = None,
    again: bool = False,
    show_progress: bool = True,
) -> list[tuple[RobotTask, int, int, float]]:
    """Record missing demonstrations, tasks in parallel; return counts and seconds per task.

    Args:
        tasks: The tasks to demonstrate.
        folder: The data folder.
        n: Demonstrations per task.
        goal_seed: The seed of the stream's goals.
        num_workers: Worker processes; 0 uses only this process, None one per core.
        again: Record them even if they exist.
        show_progress: Whether to show a progress bar.
    """
    missing = [t for t in tasks if again or not has_enough(path_of(t, folder, goal_seed), n)]
    if not missing:
        return []
    demo_folder = path_of(missing[0], folder, goal_seed).parent
    lock = Lock(demo_folder / ".lock")
    try:
        lock.wait(lambda: warn_user("waiting for another process that is recording demonstrations"))
        remove_temporary(demo_folder)
    except OSError as error:
        raise DataError(
            f"cannot write the demonstration folder '{demo_folder}': {error.strerror}; choose "
            "another folder with data_dir="
        ) from error
    with lock:
        # Another process may have recorded some while this one waited.
        missing = [t for t in missing if again or not has_enough(path_of(t, folder, goal_seed), n)]
        if not missing:
            return []
        return _make_all(missing, folder, n, goal_seed, num_workers, show_progress)


def _make_all(
    tasks: Sequence[RobotTask],
    folder: Path,
    n: int,
    goal_seed: int,
    num_workers: int | None,
    show_progress: bool,
) -> list[tuple[RobotTask, int, int, float]]:
    warn_user(
        f"recording {n} demonstrations of {len(tasks)} task{'s' if len(tasks) > 1 else ''} in "
        f"'{path_of(tasks[0], folder, goal_seed).parent}'"
    )
    done: list[tuple[RobotTask, int, int, float]] = []
    with ExitStack() as stack:
        meter = None
        if show_progress:
            meter = stack.enter_context(ProgressMeter("demonstrations", len(tasks), "tasks"))
        pool = stack.enter_context(environment_pool(num_workers, len(tasks)))
        make = partial(_make_one, folder=folder, n=n, goal_seed=goal_seed)
        for task, (kept, tried, seconds) in pool.map_unordered(make, tasks):
            done.append((task, kept, tried, seconds))
            if meter is not None:
                meter.update()
    return sorted(done, key=lambda item: list(tasks).index(item[0]))


def _make_one(task: RobotTask, folder: Path, n: int, goal_seed: int) -> tuple[int, int, float]:
    """Record one task's file; return the kept and tried episodes and the seconds."""
    started = time.perf_counter()
    kept, tried = make_file(task, path_of(task, folder, goal_seed), n, goal_seed)
    return kept, tried, time.perf_counter() - started
