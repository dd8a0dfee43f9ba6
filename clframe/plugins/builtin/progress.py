"""Shows how far a run is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.utils.console import tell

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.step import Step
    from clframe.core.stream import Experience, Stream

_REFRESH = 0.25
"""Seconds between two updates of the bar; the loss is read from the device only then."""


class Progress(Plugin):
    """Prints one line per experience."""

    supports_batched_seeds = True

    def __init__(self) -> None:
        self.total = 0
        self.last: dict[str, Any] = {}
        self.clear()

    def clear(self) -> None:
        """Count anew."""
        self.last = {}
        self.samples = self.updates = self.decisions = 0
        self.seconds = 0.0

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Where progress is shown, and not as a bar."""
        return cls() if context.progress and not sys.stderr.isatty() else None

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Remember how many experiences there are."""
        self.total = len(stream)

    @hookimpl
    def before_experience(self, experience: Experience) -> None:
        """Start counting."""
        self.clear()

    @hookimpl(trylast=True)
    def after_epoch(self, logs: dict[str, Any]) -> None:
        """Add up the experience's epochs."""
        self.last = logs
        self.samples += logs["samples"]
        self.updates += logs["steps"]
        self.decisions += logs.get("decisions", 0)
        self.seconds += logs["seconds"]

    @hookimpl(trylast=True)
    def after_evaluation(
        self, learner: Learner, row: str, results: dict[str, dict[str, float]]
    ) -> None:
        """Say what was learned and how well."""
        values = [next(iter(measures.values())) for measures in results.values()]
        mean = sum(values) / max(len(values), 1)
        measure = next(iter(next(iter(results.values()))), "measure") if results else "measure"
        line = f"{row:<8} mean {measure} {mean:.3f}"
        if learner.seen:
            line = f"[{len(learner.seen)}/{self.total}] {line}"
        if self.last:
            line += f"  loss {self.last['loss']:.4f}  {self.speed()}"
        self.show(line)

    def speed(self) -> str:
        """What a second had in it: samples, or decisions and updates of learning by reward."""
        seconds = max(self.seconds, 1e-9)
        if not self.decisions:
            return f"{self.samples / seconds:,.0f} samples/s"
        rates = (self.decisions / seconds, self.updates / seconds)
        return f"{rates[0]:,.0f} decisions/s  {rates[1]:,.0f} updates/s"

    def show(self, line: str) -> None:
        """Print a line."""
        tell(line)


class ProgressBar(Progress):
    """Shows a bar with experience, epoch, loss and speed, and one line per experience."""

    name = "progress_bar"

    def __init__(self) -> None:
        super().__init__()
        self.bar: Any = None
        self.next_refresh = 0.0

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Where progress is shown on a terminal."""
        return cls() if context.progress and sys.stderr.isatty() else None

    @hookimpl
    def before_experience(self, experience: Experience) -> None:
        """Start a bar."""
        from tqdm import tqdm

        self.clear()
        self.bar = tqdm(
            desc=f"[{experience.index + 1}/{self.total}] {experience.name}",
            unit=" samples",
            unit_scale=True,
            leave=False,
            dynamic_ncols=True,
            file=sys.stderr,
        )

    @hookimpl
    def before_epoch(self, learner: Learner, experience: Experience, epoch: int) -> None:
        """Name the epoch."""
        if self.bar is not None:
            self.bar.set_description_str(
                f"[{experience.index + 1}/{self.total}] {experience.name} epoch {epoch + 1}"
            )

    @hookimpl(trylast=True)
    def after_step(self, step: Step) -> None:
        """Count samples; read the loss only when the bar is redrawn."""
        if self.bar is None:
            return
        self.bar.n += len(step.batch)
        now = time.perf_counter()
        if now >= self.next_refresh:
            self.next_refresh = now + _REFRESH
            loss = f"loss {float(step.loss.detach()):.4f}"  # type: ignore[union-attr]
            self.bar.set_postfix_str(f"{loss}  {self.speed()}" if self.decisions else loss)

    @hookimpl(trylast=True)
    def after_experience(self) -> None:
        """Take the bar away."""
        self.close()

    @hookimpl
    def teardown(self) -> None:
        """Take the bar away, whatever happened."""
        self.close()

    def close(self) -> None:
        """Take the bar away if there is one."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
