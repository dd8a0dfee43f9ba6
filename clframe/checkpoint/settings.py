"""Settings of how often a run is saved: the config group ``checkpoint``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from clframe.checkpoint import signals
from clframe.utils.setting_checks import at_least

KEEP_ALL = (
    "checkpoint.every_experience=true keeps all; by default a run of up to 50 experiences keeps "
    "what fits into 100 MB"
)
"""Advice in messages about a state that was not kept."""
LONG = 50
"""Maximum experiences of a stream whose states between experiences are kept by default."""


@dataclass(frozen=True)
class CheckpointSettings:
    """Settings of how often a run is saved: the config group ``checkpoint``.

    Args:
        every_seconds: Save after this number of seconds; None for never by time.
        every_n_steps: Save after this number of optimizer steps, at any cost; None for never.
        max_cost: Save by time only if it takes at most this share of the time; 1 for always.
        keep: How many checkpoints to keep.
        every_experience: Save the start of the run and the end of every experience, at any cost,
            and keep them all: ``clframe verify`` and ``clframe fork`` start from them.
            ``auto`` does so for streams of up to 50 experiences while these states take at most
            ``max_bytes``.
        max_bytes: Disk space of one run for the states that ``every_experience=auto`` keeps.
        signals: Further signals on which to save and stop (exit code 130), besides SIGINT, SIGTERM
            and SIGHUP.
    """

    every_seconds: float | None = 60.0
    every_n_steps: int | None = None
    max_cost: float = 0.01
    keep: int = 2
    every_experience: bool | Literal["auto"] = "auto"
    max_bytes: int = 100_000_000
    signals: tuple[str, ...] = ("SIGUSR1",)

    def __post_init__(self) -> None:
        at_least(self.every_seconds, 0, "checkpoint.every_seconds")
        at_least(self.every_n_steps, 1, "checkpoint.every_n_steps")
        at_least(self.max_cost, 1e-6, "checkpoint.max_cost")
        at_least(self.keep, 1, "checkpoint.keep")
        at_least(self.max_bytes, 0, "checkpoint.max_bytes")
        signals.check(self.signals)

    def room(self, experiences: int | None = None) -> float:
        """Return the bytes that kept states between experiences may take.

        Args:
            experiences: Length of the stream; None if it does not matter.
        """
        if self.every_experience != "auto":
            return math.inf if self.every_experience else 0
        return 0 if (experiences or 0) > LONG else self.max_bytes
