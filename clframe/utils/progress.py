"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from clframe.utils.console import warn_user

_LINE_EVERY = 15.0
"""Seconds between two lines if there is no terminal."""


class ProgressMeter:
    """Progress counter: tqdm on a terminal, occasional lines elsewhere.

    Args:
        label: Text before the bar and in the lines.
        total: Number of items.
        unit: Name of the items, in the plural.
        summary: Report the number and the time at the end.
    """

    def __init__(self, label: str, total: int, unit: str, summary: bool = False) -> None:
        self.label, self.total, self.unit, self.summary = label, total, unit, summary
        self.count = 0
        self._bar: Any = None

    def __enter__(self) -> ProgressMeter:
        self._started = time.perf_counter()
        self._next_line = self._started + _LINE_EVERY
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=self.label,
                total=self.total,
                unit=f" {self.unit}",
                leave=False,
                dynamic_ncols=True,
            )
        return self

    def update(self, count: int = 1) -> None:
        """Count more items as done."""
        self.count += count
        if self._bar is not None:
            self._bar.update(count)
        elif time.perf_counter() >= self._next_line and self.count < self.total:
            self._next_line = time.perf_counter() + _LINE_EVERY
            warn_user(f"{self.label}: {self.count:,} of {self.total:,} {self.unit}")

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self.summary:
            seconds = time.perf_counter() - self._started
            speed = self.count / max(seconds, 1e-9)
            warn_user(
                f"{self.label}: {self.count:,} {self.unit} in {seconds:.1f} s ({speed:,.0f}/s)"
            )
