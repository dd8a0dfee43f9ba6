"""Run a sweep as processes on this machine.

A pool of worker processes (joblib's, ``concurrent.futures``') breaks as a whole when one worker is
killed, and one run's memory stays for the next. Here every run has its own process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from clframe.errors import ClframeError
from clframe.sweep.job import Job
from clframe.sweep.lines import Lines
from clframe.sweep.settings import SweepSettings
from clframe.utils.processes import thread_limits, usable_cores


class LocalLauncher:
    """Launcher that lets :mod:`clframe.cli._prefork` start the runs.

    Args:
        settings: Settings of the sweep.
        gpus: Names of the GPUs to spread the runs over; empty leaves the choice to the runs.
        folder: The working directory; None for the current one.
    """

    def __init__(
        self, settings: SweepSettings, gpus: Sequence[str] = (), folder: str | None = None
    ) -> None:
        self.width = settings.jobs or len(gpus) or max(1, usable_cores() // settings.threads)
        self.gpus = gpus
        self._running: dict[str, int] = {}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the launcher
        # In its own session: Ctrl-C in a terminal reaches the sweep, which passes it to the runs.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clframe.cli._prefork"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=folder,
            env={**os.environ, **thread_limits(settings.threads)},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self._answers = Lines(self._process.stdout.fileno())

    def start(self, job: Job) -> None:
        """Start a process for this run, on the GPU of a free slot."""
        slot = next(i for i in range(len(self._running) + 1) if i not in self._running.values())
        self._running[job.name] = slot
        self._ask(
            {
                "name": job.name,
                "words": job.words,
                "log": str(job.log),
                "environment": gpu_of(slot, self.gpus),
            }
        )

    def _ask(self, request: dict[str, Any]) -> None:
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except BrokenPipeError:
            pass  # `wait` reports that the process has ended.

    def wait(self, seconds: float) -> list[tuple[str, int | str]]:
        """Return the runs that have ended."""
        ready, _, _ = select.select([self._answers.descriptor], [], [], seconds)
        if not ready:
            return []
        ended = [(answer["name"], answer["code"]) for answer in self._answers.read()]
        for name, _ in ended:
            del self._running[name]
        if self._answers.ended:
            self._errors.seek(0)
            lines = [line.strip() for line in self._errors if line.strip()]
            reason = lines[-1] if lines else f"exit code {self._process.wait()}"
            raise ClframeError(
                f"the process that starts the runs has ended ({reason}); "
                "run the same command to continue"
            )
        return ended

    def stop(self, at_once: bool) -> None:
        """Pass the interrupt on to the runs."""
        self._ask({"stop": int(signal.SIGKILL if at_once else signal.SIGINT)})

    def close(self) -> None:
        """End the server; remaining runs are asked to save and exit."""
        with self._process:
            self._requests.close()
        self._errors.close()


def gpu_of(slot: int, gpus: Sequence[str]) -> dict[str, str]:
    """Return the environment variable that gives a run its GPU; empty without GPUs.

    >>> [gpu_of(slot, ["0", "GPU-b"])["CUDA_VISIBLE_DEVICES"] for slot in range(3)]
    ['0', 'GPU-b', '0']
    """
    return {"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} if gpus else {}


def visible_gpus() -> list[str]:
    """Return the CUDA devices of this machine, as named in CUDA_VISIBLE_DEVICES."""
    import torch

    count = torch.cuda.device_count()
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return named[:count] or [str(number) for number in range(count)]
