"""Several environments of one task, stepped together; each begins its next episode itself.

Environments run in workers (:mod:`clframe.rl.env_slots`) or in this process, with equal results.
The key, the environment's number and the episode's number determine an episode. A checkpoint
therefore needs no simulator state: a resumed run begins the current episodes again and repeats
their actions.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.rl import env_slots
from clframe.rl.env_slots import Maker
from clframe.robot.task import episode_seeds
from clframe.robot.workers import environment_pool
from clframe.utils.processes import WorkerPool

_numbers = itertools.count()


class Finished(NamedTuple):
    """An episode that has ended."""

    total: float
    success: bool
    steps: int


class Steps(NamedTuple):
    """The results of one step of all environments."""

    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    """Environments whose episode terminated."""
    ended: NDArray[np.bool_]
    """Environments whose episode ended for any reason, including the horizon."""
    last: dict[int, NDArray[np.float32]]
    """The last observations of the episodes that ended."""
    finished: list[Finished]


class VectorEnvironment:
    """Several environments of a task.

    Args:
        make: Creates an environment.
        n: Number of environments.
        key: The key of the episodes' seeds.
        horizon: Steps after which an episode ends.
        window: Observations that a policy sees.
        processes: Worker processes; 0 uses only this process, None one per core.
    """

    def __init__(
        self,
        make: Maker,
        n: int,
        key: tuple[int, ...],
        horizon: int,
        window: int = 1,
        processes: int | None = 0,
    ) -> None:
        self.make, self.n, self.key, self.horizon = make, n, key, horizon
        self.processes = processes
        self._pool: WorkerPool | None = None
        self._name = f"{os.getpid()}-{next(_numbers)}"
        action = () if make.discrete else (make.action_size,)
        kind = np.int64 if make.discrete else np.float32
        self._columns: dict[str, NDArray[Any]] = {
            "windows": np.zeros((n, window, make.state_size), np.float32),
            "episode": np.zeros(n, np.int64),
            "steps": np.zeros(n, np.int64),
            "total": np.zeros(n, np.float64),
            "success": np.zeros(n, np.bool_),
            # The actions of the current episodes.
            "actions": np.zeros((n, horizon, *action), kind),
        }
        self._begun = False
        """Whether the environments are at the step in the columns."""
        self._fresh = True
        """Whether the first episodes have not begun yet."""

    @property
    def windows(self) -> NDArray[np.float32]:
        """The current windows ``[n, window, state]``; the next step changes them."""
        if not self._begun:
            self._restore_episodes()
        return self._columns["windows"]

    def step(self, actions: NDArray[Any]) -> Steps:
        """Do one action in each environment; begin the next episode where one ends."""
        windows, columns = self.windows, self._columns
        moments = self._ask(env_slots.step, dict(enumerate(actions)))
        reward, terminated = np.zeros(self.n, np.float32), np.zeros(self.n, np.bool_)
        ended, last, finished = np.zeros(self.n, np.bool_), {}, []
        columns["actions"][np.arange(self.n), columns["steps"]] = actions
        columns["steps"] += 1
        for slot in range(self.n):
            moment = moments[slot]
            windows[slot] = np.concatenate([windows[slot, 1:], moment.state[None]])
            reward[slot], terminated[slot] = moment.reward, moment.terminated
            columns["total"][slot] += moment.reward
            columns["success"][slot] |= moment.success
            steps = int(columns["steps"][slot])
            if moment.terminated or moment.truncated or steps >= self.horizon:
                ended[slot], last[slot] = True, windows[slot].copy()
                total, success = columns["total"][slot], columns["success"][slot]
                finished.append(Finished(float(total), bool(success), steps))
        if last:
            self._begin_next(np.flatnonzero(ended))
        return Steps(reward, terminated, ended, last, finished)

    # ------------------------------------------------------------ episodes

    def _begin_next(self, slots: NDArray[np.int64]) -> None:
        columns = self._columns
        columns["episode"][slots] += 1
        for name in ("steps", "total", "success"):
            columns[name][slots] = 0
        self._begin(slots)

    def _begin(self, slots: NDArray[np.int64]) -> None:
        """Begin the current episodes of these environments and repeat their actions."""
        columns = self._columns
        episodes = {
            int(slot): (
                episode_seeds(1, *self.key, int(slot), start=int(columns["episode"][slot]))[0],
                columns["actions"][slot, : columns["steps"][slot]],
            )
            for slot in slots
        }
        window = columns["windows"].shape[1]
        states_of = self._ask(env_slots.begin, episodes, self.make)
        for slot, states in states_of.items():
            # Before the first observation, the window repeats it.
            steps_seen = np.arange(len(states) - window, len(states)).clip(0)
            columns["windows"][slot] = states[steps_seen]

    def _restore_episodes(self) -> None:
        """Bring the environments to the step in the columns."""
        expected = self._columns["windows"].copy()
        self._begin(np.arange(self.n))
        if not self._fresh:
            moved = (self._columns["windows"] != expected).any((1, 2))
            if moved.any():
                slot = int(np.flatnonzero(moved)[0])
                raise DataError(
                    f"the environment of task '{self.make.robot.name}' does not repeat an episode: "
                    f"after the same seed and {self._columns['steps'][slot]} equal actions its "
                    "state differs, so the run cannot be resumed"
                )
        self._begun, self._fresh = True, False

    # ------------------------------------------------------------ workers

    def _ask(self, function: Callable[..., Any], work: Mapping[int, Any], *more: Any) -> Any:
        """Distribute work over the workers by slot and merge the answers."""
        if self._pool is None:
            self._pool = environment_pool(self.processes, self.n)
        workers = self._pool.workers
        # A slot always has the same worker, which holds its environment.
        shares: list[dict[int, Any]] = [{} for _ in workers]
        for slot, item in work.items():
            shares[slot % len(shares)][slot] = item
        busy = [pair for pair in zip(workers, shares, strict=True) if pair[1]]
        for worker, share in busy:
            worker.send(function, self._name, *more, share)
        answers: dict[int, Any] = {}
        for worker, _ in busy:
            answers |= worker.receive()
        return answers

    def close(self) -> None:
        """Close the environments and the workers."""
        if self._pool is not None:
            env_slots.forget(self._name)
            self._pool.close()
            self._pool = None
        self._begun = False

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the environments, without a simulator state."""
        most = int(self._columns["steps"].max())
        columns = {**self._columns, "actions": self._columns["actions"][:, :most]}
        arrays = {name: torch.from_numpy(column.copy()) for name, column in columns.items()}
        return {"fresh": self._fresh, "columns": arrays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of :meth:`state_dict`; the environments follow when they are needed."""
        self._fresh, self._begun = state["fresh"], False
        for name, column in state["columns"].items():
            kept = column.cpu().numpy()
            if name == "actions":
                self._columns[name][:, : kept.shape[1]] = kept
            else:
                self._columns[name][:] = kept
