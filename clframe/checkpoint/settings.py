"""How often a run is saved: the config group ``checkpoint``."""

from __future__ import annotations

from dataclasses import dataclass

from clframe.checkpoint import signals
from clframe.utils.settings import at_least


@dataclass(frozen=True)
class CheckpointSettings:
    """How often a run is saved: the config group ``checkpoint``.

    Args:
        every_seconds: Save after so many seconds; None for never by time.
        every_n_steps: Save after so many optimizer steps, whatever it costs; None for never.
        max_cost: Save by time only if it takes at most this share of the time; 1 for always.
        keep: How many checkpoints to keep.
        every_experience: Save the start of the run and the end of every experience, whatever it
            costs, and keep them all: what ``clframe verify`` learns an experience again from.
        signals: Those on which to save and stop (exit code 130), besides SIGINT, SIGTERM and
            SIGHUP.
    """

    every_seconds: float | None = 60.0
    every_n_steps: int | None = None
    max_cost: float = 0.01
    keep: int = 2
    every_experience: bool = False
    signals: tuple[str, ...] = ("SIGUSR1",)

    def __post_init__(self) -> None:
        at_least(self.every_seconds, 0, "checkpoint.every_seconds")
        at_least(self.every_n_steps, 1, "checkpoint.every_n_steps")
        at_least(self.max_cost, 1e-6, "checkpoint.max_cost")
        at_least(self.keep, 1, "checkpoint.keep")
        signals.check(self.signals)
