"""Run a sweep as jobs of Slurm, through submitit.

The sweep folder and the data must be on a disk that all machines share. When the cluster ends a job
(a time limit, a more important job), its run saves, and the next job continues it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clframe.errors import SettingError
from clframe.sweep.job import Job
from clframe.sweep.remote import RemoteRun
from clframe.sweep.settings import SweepSettings

_SUBMITIT = {"timeout_min": 240, "name": "clframe"}
_MOST_TIMEOUTS = 1000  # Each job continues where the last one saved.


class SubmititLauncher:
    """Launcher that submits the runs to Slurm.

    Args:
        settings: Settings of the sweep; ``sweep.submitit`` holds the parameters of submitit.
        folder: The sweep folder; submitit keeps its files below it.
    """

    def __init__(self, settings: SweepSettings, folder: Path) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError as error:
            raise SettingError(
                "sweep.launcher=submitit needs the package submitit, which is not installed: "
                "pip install 'clframe[slurm]'"
            ) from error
        self.width = settings.jobs
        self._settings = settings
        self._folder = folder / "submitit"
        self._executor: Any = None
        self._jobs: dict[str, Any] = {}
        self._stopping = False

    def _make_executor(self) -> Any:
        from submitit import AutoExecutor

        parameters = {
            **_SUBMITIT,
            "cpus_per_task": self._settings.threads,
            **self._settings.submitit,
        }
        # Only Slurm unless the user asks for something else: submitit would fall back to this
        # machine.
        cluster = parameters.pop("cluster", "slurm")
        with _sentences("sweep.submitit", (RuntimeError, ValueError, NameError, AssertionError)):
            executor = AutoExecutor(
                self._folder, cluster=cluster, slurm_max_num_timeout=_MOST_TIMEOUTS
            )
            executor.update_parameters(**parameters)
        return executor

    def start(self, job: Job) -> None:
        """Submit a run."""
        if self._executor is None:
            self._executor = self._make_executor()
        remote = RemoteRun(job, os.getcwd(), self._settings.threads)
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        with _sentences("submitit", (FailedJobError, FailedSubmissionError)):
            self._jobs[job.name] = self._executor.submit(remote)

    def wait(self, seconds: float) -> list[tuple[str, int | str]]:
        """Return the runs whose jobs are done."""
        ended: list[tuple[str, int | str]] = []
        for name, submitted in list(self._jobs.items()):
            if submitted.done():
                ended.append((name, self._outcome(submitted)))
                del self._jobs[name]
        if not ended:
            time.sleep(seconds)
        return ended

    def _outcome(self, submitted: Any) -> int | str:
        if self._stopping and not submitted.paths.result_pickle.exists():
            return f"job {submitted.job_id} was cancelled"
        error = submitted.exception()
        if error is None:
            return int(submitted.result())
        state = " ".join(str(submitted.state).split())
        return f"job {submitted.job_id} ended without an answer ({state}); see {self._folder}"

    def stop(self, at_once: bool) -> None:
        """Cancel the jobs; Slurm lets them save first."""
        self._stopping = True
        for submitted in self._jobs.values():
            submitted.cancel(check=False)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


@contextlib.contextmanager
def _sentences(where: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Translate errors of a cluster's library about wrong settings into a SettingError."""
    try:
        yield
    except errors as error:
        raise SettingError(f"{where}: {' '.join(str(error).split())}") from error
