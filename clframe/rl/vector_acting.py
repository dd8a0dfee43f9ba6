"""Environments stepped at the same time: in this process, in workers, or on several ranks.

Where an environment runs does not affect the results. Actions are sent first and the results
received later, so that a worker steps while this process computes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from clframe.rl.env_worker import Make, begin, forget, step
from clframe.rl.environment import CheckedEnvironment, Moment
from clframe.robot.evaluation import episodes_of, inputs_of
from clframe.utils.processes import WorkerPool

if TYPE_CHECKING:
    from clframe.core.stream import Task

KEPT = 24
"""Environments kept per process, unless more are stepped at the same time."""

_owners = itertools.count()


class Start(NamedTuple):
    """An episode to begin, and the actions done in it so far."""

    task: int
    seed: int
    actions: NDArray[np.float32]


def maker(task: Task, action_size: int) -> Make:
    """Return a function that creates a task's environment in any process."""
    # An environment needs only the task's name.
    robot = dataclasses.replace(episodes_of(task).robot, expert=None, facts={})
    return functools.partial(CheckedEnvironment, robot, inputs_of(task).state_size, action_size)


class Environments:
    """Several environments, each of any task.

    Args:
        number: Number of environments stepped at the same time.
        makers: Functions that create a task's environment, by task index.
        state_size: Numbers in a state.
        processes: Worker processes; 0 uses only this process.
        ranks: The processes that train together; None for one. Environments are distributed over
            them in turn, and each receives the results of all.
    """

    def __init__(
        self,
        number: int,
        makers: Mapping[int, Make],
        state_size: int,
        processes: int,
        ranks: Any = None,
    ) -> None:
        self.number, self.makers, self.state_size = number, makers, state_size
        self.ranks, self._size = ranks, 1 if ranks is None else ranks.size
        self._owner = next(_owners)
        self._tasks: dict[int, int] = {}
        self._pool = WorkerPool(
            min(processes, -(-number // self._size)),
            on_exit=lambda code: (
                f"a worker process that steps environments ended with code {code} (memory?); set "
                "learner.overlap=false to run without it"
            ),
            advice="set learner.overlap=false, or give the environment as a function of a module",
        )

    def close(self) -> None:
        """Close all environments and workers."""
        self._pool.close()
        forget(self._owner)

    def begin(self, starts: Mapping[int, Start], window: int) -> dict[int, NDArray[np.float32]]:
        """Begin episodes by environment number; return the last states of each."""
        own = [number for number in starts if self._is_own(number)]
        for number in own:
            task, seed, actions = starts[number]
            self._tasks[number] = task
            most = max(KEPT, self.number)
            arguments = (self._key(number), self.makers[task], most, seed, actions)
            self._worker(number).send(begin, *arguments)
        rows = {}
        for number in own:
            states = self._worker(number).receive()[-window:]
            # The first state fills the window before it.
            first = np.repeat(states[:1], window - len(states), 0)
            rows[number] = np.concatenate([first, states])
        return {
            number: row.astype(np.float32)
            for number, row in self._together(rows, starts, (window, self.state_size)).items()
        }

    def send(self, actions: Mapping[int, NDArray[np.float32]]) -> None:
        """Do an action in each of these environments."""
        for number, action in actions.items():
            if self._is_own(number):
                self._worker(number).send(step, self._key(number), action)

    def receive(self, numbers: Sequence[int]) -> dict[int, Moment]:
        """Return the results of the actions in the order in which they were sent."""
        own = {n: self._worker(n).receive() for n in numbers if self._is_own(n)}
        if self.ranks is None:
            return own
        # 64-bit floats hold all values exactly.
        rows = {
            number: np.concatenate([moment.state, np.array(moment[1:], np.float64)])[None]
            for number, moment in own.items()
        }
        return {
            number: Moment(
                row[0, :-4].astype(np.float32),
                float(row[0, -4]),
                *(bool(value) for value in row[0, -3:]),
            )
            for number, row in self._together(rows, numbers, (1, self.state_size + 4)).items()
        }

    def _is_own(self, number: int) -> bool:
        return self.ranks is None or number % self._size == self.ranks.rank

    def _key(self, number: int) -> tuple[int, int, int]:
        return (self._owner, number, self._tasks[number])

    def _worker(self, number: int) -> Any:
        return self._pool.workers[number // self._size % len(self._pool)]

    def _together(
        self, own: Mapping[int, NDArray[Any]], numbers: Iterable[int], shape: tuple[int, int]
    ) -> dict[int, NDArray[Any]]:
        """Gather the tables of all environments, of which this rank has its own."""
        if self.ranks is None:
            return dict(own)
        size, each = self._size, -(-self.number // self._size)
        table = torch.zeros(each, *shape, dtype=torch.float64)
        for number, rows in own.items():
            table[number // size] = torch.from_numpy(rows.astype(np.float64))
        gathered = self.ranks.gather(table.to(self.ranks.device)).cpu().unflatten(0, (size, each))
        return {number: gathered[number % size, number // size].numpy() for number in numbers}
