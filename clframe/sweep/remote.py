"""Start a run on any machine of a cluster.

This module is light on purpose: the launcher imports it too, and only the run itself needs torch.
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
releases the locks of a lost machine after a lease, 90 seconds with NFS."""

_servers: dict[tuple[str, int], LocalLauncher] = {}


class RemoteRun:
    """A run that starts on the machine where this object is called.

    Args:
        job: The run.
        folder: The working directory.
        threads: Threads of the run.
    """

    def __init__(self, job: Job, folder: str, threads: int) -> None:
        self.job, self.folder, self.threads = job, folder, threads
        self._launcher: LocalLauncher | None = None

    def __call__(self, keep: bool = False) -> int:
        """Run or continue, and return the exit code; the run ends when its caller does.

        Args:
            keep: Keep the process that starts runs, with all its imports, for the next run that is
                called here.
        """
        if self.job.state == "finished":  # In an earlier attempt of the same job.
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
        """Return the process that starts runs."""
        key = self.folder, self.threads
        if key not in _servers:
            settings = SweepSettings(jobs=1, threads=self.threads)
            _servers[key] = LocalLauncher(settings, folder=self.folder)
        # Each caller may have been assigned other GPUs.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        _servers[key].gpus = () if visible is None else (visible,)
        return _servers[key]

    def _wait_for_lost(self) -> None:
        """Wait for the lock of a run whose machine was lost."""
        path = self.job.folder / ".lock"
        if path.exists():
            lock = Lock(path)
            lock.wait(seconds=_LEASE)  # If it is still held after that, the run names the holder.
            lock.release()

    def _close(self) -> None:
        """Let the run save, and end the process that starts runs."""
        server = _servers.pop((self.folder, self.threads), None)
        if server is not None:
            server.close()

    def checkpoint(self) -> Any:
        """Save before the machine is taken away and start again later; submitit calls this."""
        from submitit.helpers import DelayedSubmission

        if self._launcher is not None:
            self._close()
        return DelayedSubmission(RemoteRun(self.job, self.folder, self.threads))
