"""Time of a run: training and evaluation."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Timing:
    """Seconds of training and evaluation, and processor seconds of both.

    Processor seconds are of this process, regardless of other load. They exclude environments that
    workers step (``stream.num_workers=0`` has none).
    """

    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    cpu_seconds: float = 0.0
    _since: float | None = None
    _cpu_since: float = 0.0

    def start(self) -> None:
        """Start or continue training."""
        self._since, self._cpu_since = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """Stop training."""
        self.train_seconds, self.cpu_seconds = self._trained(), self._worked()
        self._since = None

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Count this block as evaluation, even within training."""
        training = self._since is not None
        if training:
            self.stop()
        started, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.eval_seconds += time.perf_counter() - started
            self.cpu_seconds += time.process_time() - cpu
            if training:
                self.start()

    def _trained(self) -> float:
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self.train_seconds + running

    def _worked(self) -> float:
        running = 0.0 if self._since is None else time.process_time() - self._cpu_since
        return self.cpu_seconds + running

    def state_dict(self) -> dict[str, float]:
        """Return the seconds so far."""
        return {
            "train_seconds": self._trained(),
            "eval_seconds": self.eval_seconds,
            "cpu_seconds": self._worked(),
        }

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue from the seconds of a saved run."""
        self.train_seconds = float(state["train_seconds"])
        self.eval_seconds = float(state["eval_seconds"])
        self.cpu_seconds = float(state["cpu_seconds"])
        if self._since is not None:
            self.start()

    def to_json(self, samples: int, device: Any) -> dict[str, float]:
        """Return the content of ``timing`` in results.json."""
        return {
            "train_seconds": self.train_seconds,
            "eval_seconds": self.eval_seconds,
            "cpu_seconds": self.cpu_seconds,
            "eval_share": self.eval_seconds / max(self.train_seconds + self.eval_seconds, 1e-9),
            "samples_per_second": samples / max(self.train_seconds, 1e-9),
            "peak_memory_bytes": peak_memory_bytes(device),
        }


def peak_memory_bytes(device: Any) -> int:
    """Return the peak memory of the accelerator, or of this process if there is none."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
