"""Runs as jobs of Slurm, through submitit, and as tasks of a Ray cluster.

The sweep folder and the data must be on a disk that all machines share. A job that the cluster
takes away (a time limit, a more important job) lets its run save, and the next one continues it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clframe.errors import SettingError
from clframe.sweep.job import Job
from clframe.sweep.local import LocalLauncher
from clframe.sweep.settings import SweepSettings

_SUBMITIT = {"timeout_min": 240, "name": "clframe"}
_MOST_TIMEOUTS = 1000  # each continues where the last one saved
_ONE_BY_ONE = 0.2


class RemoteRun:
    """One run, started wherever this object is called.

    Args:
        job: The run.
        folder: The working directory.
        threads: Of the run.
    """

    def __init__(self, job: Job, folder: str, threads: int) -> None:
        self.job, self.folder, self.threads = job, folder, threads
        self._launcher: LocalLauncher | None = None

    def __call__(self) -> int:
        """Run or continue, and return the exit code; the run ends when its caller does."""
        if self.job.state == "finished":  # by an earlier attempt of the same job
            return 0
        settings = SweepSettings(jobs=1, threads=self.threads)
        self._launcher = launcher = LocalLauncher(settings, folder=self.folder)
        try:
            launcher.start(self.job)
            while True:
                for _, code in launcher.wait(_ONE_BY_ONE):
                    return int(code)
        finally:
            launcher.close()

    def checkpoint(self) -> Any:
        """Submitit asks this before the machine is taken away: save, and start again later."""
        from submitit.helpers import DelayedSubmission

        if self._launcher is not None:
            self._launcher.close()
        return DelayedSubmission(RemoteRun(self.job, self.folder, self.threads))


class SubmititLauncher:
    """Hands the runs to Slurm.

    Args:
        settings: Of the sweep; ``sweep.submitit`` holds the parameters of submitit.
        folder: The sweep folder; submitit keeps its files below it.
    """

    def __init__(self, settings: SweepSettings, folder: Path) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError as error:
            raise _absent("submitit", "slurm") from error
        self.width = settings.jobs
        self._settings = settings
        self._folder = folder / "submitit"
        self._executor: Any = None
        self._jobs: dict[str, Any] = {}
        self._stopping = False

    def _make_executor(self) -> Any:
        from submitit import AutoExecutor

        given = {**_SUBMITIT, "cpus_per_task": self._settings.threads, **self._settings.submitit}
        # Never anything but Slurm unless the user says so: submitit would fall back to this
        # machine.
        cluster = given.pop("cluster", "slurm")
        with _sentences("sweep.submitit", (RuntimeError, ValueError, NameError, AssertionError)):
            executor = AutoExecutor(
                self._folder, cluster=cluster, slurm_max_num_timeout=_MOST_TIMEOUTS
            )
            executor.update_parameters(**given)
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
        """The runs whose jobs are done."""
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
        """Nothing to release."""


class RayLauncher:
    """Hands the runs to a Ray cluster, or to one that Ray starts on this machine.

    Args:
        settings: Of the sweep; ``sweep.ray`` holds the address and the options of a task.
    """

    def __init__(self, settings: SweepSettings) -> None:
        try:
            import ray
        except ImportError as error:
            raise _absent("ray", "ray") from error
        self.width = settings.jobs
        self._settings = replace(settings, ray=dict(settings.ray))
        self._ray: Any = ray
        self._tasks: dict[Any, str] = {}
        self._remote: Any = None

    def _connect(self) -> Any:
        settings: Mapping[str, Any] = self._settings.ray
        options = {key: value for key, value in settings.items() if key != "address"}
        with _sentences("sweep.ray", (ConnectionError, ValueError, RuntimeError, TypeError)):
            self._ray.init(
                address=settings.get("address"), log_to_driver=False, logging_level="error"
            )
            # A worker is left after one run, so that none inherits anything; fit itself resumes.
            task = {"num_cpus": self._settings.threads, "max_retries": 0, "max_calls": 1, **options}
            return self._ray.remote(**task)(_call)

    def start(self, job: Job) -> None:
        """Hand over a run."""
        if self._remote is None:
            self._remote = self._connect()
        remote = RemoteRun(job, os.getcwd(), self._settings.threads)
        self._tasks[self._remote.remote(remote)] = job.name

    def wait(self, seconds: float) -> list[tuple[str, int | str]]:
        """The runs whose tasks are done."""
        done, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [(self._tasks.pop(task), self._outcome(task)) for task in done]

    def _outcome(self, task: Any) -> int | str:
        from ray.exceptions import RayError, TaskCancelledError

        try:
            return int(self._ray.get(task))
        except TaskCancelledError:
            return "its task was cancelled"
        except RayError as error:
            first = next((line for line in str(error).splitlines() if line.strip()), "")
            return f"its task ended with {type(error).__name__}: {first.strip()}"

    def stop(self, at_once: bool) -> None:
        """Cancel the tasks; a run saves when its worker tells it so or goes away."""
        for task in list(self._tasks):
            self._ray.cancel(task, force=at_once)

    def close(self) -> None:
        """Leave the cluster."""
        if self._remote is not None:
            self._ray.shutdown()


def _call(remote: RemoteRun) -> int:
    return remote()


def _absent(package: str, extra: str) -> SettingError:
    return SettingError(
        f"sweep.launcher={package} needs the package {package}, which is not installed: "
        f"pip install 'clframe[{extra}]'"
    )


@contextlib.contextmanager
def _sentences(where: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Translate what a cluster's library says of wrong settings into a SettingError."""
    try:
        yield
    except errors as error:
        raise SettingError(f"{where}: {' '.join(str(error).split())}") from error
