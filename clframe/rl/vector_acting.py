"""Environments that are acted in at once: here, in worker processes, on several ranks.

Which of them is stepped where does not matter to what happens. Actions are sent first and the
answers taken later, so that a worker process steps while this one computes.
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
"""Environments that a process keeps, unless more are acted in at once."""

_owners = itertools.count()


class Start(NamedTuple):
    """An episode to begin, and what has been done in it already."""

    task: int
    seed: int
    actions: NDArray[np.float32]


def maker(task: Task, action_size: int) -> Make:
    """Makes a task's environment, in any process."""
    # Of the task an environment needs its name alone.
    robot = dataclasses.replace(episodes_of(task).robot, expert=None, facts={})
    return functools.partial(CheckedEnvironment, robot, inputs_of(task).state_size, action_size)


class Environments:
    """So many environments, each of any task.

    Args:
        number: How many are acted in at once.
        makers: Makes a task's environment, by the task's index.
        state_size: Numbers of a state.
        processes: Worker processes; 0 for this one alone.
        ranks: The processes that learn together; None for one. Each has every so manieth
            environment, and all are given what happens in all of them.
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
                f"a worker process that steps environments ended with code {code} (memory?); "
                "learner.overlap=false works without it"
            ),
            advice="set learner.overlap=false, or give the environment as a function of a module",
        )

    def close(self) -> None:
        """Give everything up."""
        self._pool.close()
        forget(self._owner)

    def begin(self, starts: Mapping[int, Start], window: int) -> dict[int, NDArray[np.float32]]:
        """Begin episodes, by the environment's number; gives the last states of each."""
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
            # The first state stands for those before it.
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
        """What the actions led to, in the order in which they were sent."""
        own = {n: self._worker(n).receive() for n in numbers if self._is_own(n)}
        if self.ranks is None:
            return own
        # Numbers of 64 bits hold all of it as it is.
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
        """The tables of all environments, of which this rank has its own."""
        if self.ranks is None:
            return dict(own)
        size, each = self._size, -(-self.number // self._size)
        table = torch.zeros(each, *shape, dtype=torch.float64)
        for number, rows in own.items():
            table[number // size] = torch.from_numpy(rows.astype(np.float64))
        whole = self.ranks.gather(table.to(self.ranks.device)).cpu().unflatten(0, (size, each))
        return {number: whole[number % size, number // size].numpy() for number in numbers}
