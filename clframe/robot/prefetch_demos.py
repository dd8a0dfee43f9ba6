"""Record demonstrations of later tasks while earlier ones are learned."""

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
"""Seconds between two checks for a file that another process may write."""


@dataclass(eq=False)
class Recorder:
    """Records the missing demonstrations of some tasks once the first of them is needed.

    Worker processes record ahead in the order of the tasks, and only the requested file is
    waited for. The files do not depend on this: a task and a seed determine an episode.

    Args:
        tasks: The tasks in learning order.
        folder: The data folder.
        n: Demonstrations per task.
        goal_seed: The seed of the stream's goals.
        num_workers: Worker processes; 0 uses only this process, None one per core.
        ahead: Whether to record tasks in advance; None if there are workers and several cores.
    """

    tasks: Sequence[RobotTask]
    folder: Path
    n: int
    goal_seed: int = 0
    num_workers: int | None = None
    ahead: bool | None = None
    _thread: threading.Thread | None = field(default=None, init=False)

    def need(self, task: RobotTask) -> Path:
        """Return a task's file, with all its demonstrations.

        Raises:
            DataError: They cannot be recorded.
        """
        path = collect.path_of(task, self.folder, self.goal_seed)
        if not self._is_complete(task):
            if self._is_ahead():
                self._await(task)
            else:
                self._record(self.tasks)
        return path

    def _is_ahead(self) -> bool:
        if self.ahead is None:
            return self.num_workers != 0 and usable_cores() > 1
        return self.ahead

    def _is_complete(self, task: RobotTask) -> bool:
        return collect.has_enough(collect.path_of(task, self.folder, self.goal_seed), self.n)

    def _record(self, tasks: Sequence[RobotTask], show: bool = True) -> None:
        collect.ensure(
            tasks, self.folder, self.n, self.goal_seed, self.num_workers, show_progress=show
        )

    def _await(self, task: RobotTask) -> None:
        """Wait for a task's file from any process."""
        if self._thread is None:
            # A daemon thread ends with this process. Files are written whole or not at all.
            self._thread = threading.Thread(
                target=self._record_all, daemon=True, name="record-ahead"
            )
            self._thread.start()
        elif self._thread.is_alive():
            warn_user(f"waiting for the demonstrations of '{task.name}'")
        while self._thread.is_alive() and not self._is_complete(task):
            self._thread.join(_LOOK)
        if not self._is_complete(task):
            # The error may be another task's. If it is this task's, recording it again raises it.
            self._record([task])

    def _record_all(self) -> None:
        # If a task is missing later, recording it again raises the error.
        with contextlib.suppress(Exception):
            self._record(self.tasks, show=False)
