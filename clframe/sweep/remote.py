"""A run that is started wherever a cluster has room for it.

Light on purpose: whoever starts the run imports it, and only the run itself has use for torch.
"""

from __future__ import annotations

import os
from typing import Any

from clframe.sweep.job import Job
from clframe.sweep.local import LocalLauncher
from clframe.sweep.settings import SweepSettings
from clframe.utils.lock import Lock

_ONE_BY_ONE = 0.2
_LEASE = 150.0
"""Seconds until a lost machine's lock is free: its processes save within 120, and a file server
that has lost one lets its locks go after a lease, of 90 seconds with NFS."""

_servers: dict[tuple[str, int], LocalLauncher] = {}


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

    def __call__(self, keep: bool = False) -> int:
        """Run or continue, and return the exit code; the run ends when its caller does.

        Args:
            keep: Keep the process that starts runs, and all that it has imported, for the next
                run that is called here.
        """
        if self.job.state == "finished":  # by an earlier attempt of the same job
            return 0
        self._launcher = self._serving()
        whole = False
        try:
            self._wait_for_lost()
            self._launcher.start(self.job)
            while True:
                for _, code in self._launcher.wait(_ONE_BY_ONE):
                    whole = True
                    return int(code)
        finally:
            if not (keep and whole):
                self._close()

    def _serving(self) -> LocalLauncher:
        """The process that starts runs."""
        place = self.folder, self.threads
        if place not in _servers:
            settings = SweepSettings(jobs=1, threads=self.threads)
            _servers[place] = LocalLauncher(settings, folder=self.folder)
        # Each run may be given other GPUs, by whoever calls.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        _servers[place].gpus = () if visible is None else (visible,)
        return _servers[place]

    def _wait_for_lost(self) -> None:
        """A run that was lost with its machine may hold its folder for a while."""
        path = self.job.folder / ".lock"
        if path.exists():
            lock = Lock(path)
            lock.wait(seconds=_LEASE)  # still held after that, the run says by whom
            lock.release()

    def _close(self) -> None:
        """Let the run save, and end the process that starts runs."""
        server = _servers.pop((self.folder, self.threads), None)
        if server is not None:
            server.close()

    def checkpoint(self) -> Any:
        """Submitit asks this before the machine is taken away: save, and start again later."""
        from submitit.helpers import DelayedSubmission

        if self._launcher is not None:
            self._close()
        return DelayedSubmission(RemoteRun(self.job, self.folder, self.threads))
