"""Record a run's training and test data, for ``fork``, ``eval`` and ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.data.identify import Ids, ids_of
from clframe.hookspecs import hookimpl
from clframe.runs.append_file import AppendOnlyFile
from clframe.runs.data_record import DATA, experience_line, task_line, tasks_in
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience


class DataRecorder(Plugin):
    """Record of the data: a line in ``data.jsonl`` per experience and per task's test data.

    Each line is written once, when the data is loaded anyway, in one pass over it.

    Args:
        path: The file.
    """

    name = "data_record"
    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, path: Path) -> None:
        self.file = AppendOnlyFile(path)
        self._tested: set[str] = set()
        self._ids: dict[str, Ids] = {}
        """IDs of the test samples by task, to compare with training samples."""
        self._warned = False

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if the run is written to a folder."""
        return None if context.run_dir is None else cls(context.run_dir / DATA)

    def state_dict(self) -> dict[str, Any]:
        """Return the length of the file."""
        return {"mark": self.file.mark()}

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return the record."""
        return {self.file.path.name: self.file.mark()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Drop lines written after the checkpoint; a run of an older version has no record."""
        if state:
            self.file.rollback(state["mark"])
            self._tested = tasks_in(self.file.path, state["mark"]["bytes"])

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Record the training data, and warn about test samples in it."""
        line, ids = experience_line(experience)
        if not learner.state.checkpointer.replaying:  # else the line exists and stays
            self.file.append(line)
        for task in experience.tasks:
            tested = self._ids.get(task.name)
            if ids is None or tested is None or self._warned:
                continue
            n = int(np.isin(tested, ids).sum())
            if n:
                self._warned = True
                warn_user(
                    f"{n} of {len(tested)} test samples of task '{task.name}' are copies of "
                    f"training samples of '{experience.name}': remove them from one of the two"
                )

    @hookimpl(trylast=True)
    def after_evaluation(self, learner: Learner, results: dict[str, dict[str, float]]) -> None:
        """Record the test data of tasks that are tested for the first time."""
        for task in learner.stream.tasks:
            if task.load is None or task.name not in results:
                continue
            if task.name not in self._ids and (ids := ids_of(task.data)) is not None:
                self._ids[task.name] = ids
            if task.name not in self._tested:
                self._tested.add(task.name)
                self.file.append(task_line(task))
