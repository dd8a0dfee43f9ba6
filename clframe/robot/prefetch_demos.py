"""Demonstrations of later tasks are recorded while earlier ones are learned."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clframe.robot import collect
from clframe.robot.task import RobotTask
from clframe.utils.console import warn_user
from clframe.utils.processes import usable_cores

_LOOK = 0.1
"""Seconds between two looks whether a file is there: another process may write it."""


@dataclass(eq=False)
class Recorder:
    """Makes what is missing of some tasks' demonstrations, once the first of them is needed.

    Ahead of need, worker processes record in the order of the tasks, and only the file that is
    asked for is waited for. The files are those that are made without it: what an episode is
    follows from its task and its seed.

    Args:
        tasks: In the order in which they are learned.
        folder: The data folder.
        n: Demonstrations a task.
        goal_seed: The stream's choice of goals.
        num_workers: Worker processes; 0 for this one alone, None for one per core.
        ahead: Whether to record tasks ahead of need; None if there are workers and several cores.
    """

    tasks: Sequence[RobotTask]
    folder: Path
    n: int
    goal_seed: int = 0
    num_workers: int | None = None
    ahead: bool | None = None
    _thread: threading.Thread | None = field(default=None, init=False)

    def need(self, task: RobotTask) -> Path:
        """The file of a task, with all demonstrations in it.

        Raises:
            DataError: They cannot be made.
        """
        path = collect.path_of(task, self.folder, self.goal_seed)
        if not self._there(task):
            if self._is_ahead():
                self._await(task)
            else:
                self._record(self.tasks)
        return path

    def _is_ahead(self) -> bool:
        if self.ahead is None:
            return self.num_workers != 0 and usable_cores() > 1
        return self.ahead

    def _there(self, task: RobotTask) -> bool:
        return collect.has_enough(collect.path_of(task, self.folder, self.goal_seed), self.n)

    def _record(self, tasks: Sequence[RobotTask], show: bool = True) -> None:
        collect.ensure(
            tasks, self.folder, self.n, self.goal_seed, self.num_workers, show_progress=show
        )

    def _await(self, task: RobotTask) -> None:
        """Wait for a task's file, whoever writes it."""
        if self._thread is None:
            # Ends with this process, as its workers do; files are there whole or not at all.
            self._thread = threading.Thread(
                target=self._record_all, daemon=True, name="record-ahead"
            )
            self._thread.start()
        elif self._thread.is_alive():
            warn_user(f"waiting for the demonstrations of '{task.name}'")
        while self._thread.is_alive() and not self._there(task):
            self._thread.join(_LOOK)
        if not self._there(task):
            # What went wrong may have been another task's fault; if not, it is said here.
            self._record([task])

    def _record_all(self) -> None:
        # Said where a task that is missing is needed, by recording it once more.
        with contextlib.suppress(Exception):
            self._record(self.tasks, show=False)
