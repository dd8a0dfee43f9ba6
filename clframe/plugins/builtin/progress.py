"""Show the progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from clframe.hookspecs import hookimpl
from clframe.plugins.builtin._following import Following
from clframe.utils.console import print_err, printable, truncate
from clframe.utils.eta import duration

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream

_NAME = 20
"""Characters of an experience's name that are shown."""
_BAR = "{desc} {percentage:3.0f}%|{bar}|"


class Progress(Following):
    """Progress lines, one per experience, with the time left for the whole stream."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.clear()

    def clear(self) -> None:
        """Reset the counts."""
        self.last: dict[str, Any] = {}
        self.samples = self.updates = self.decisions = 0
        self.seconds = 0.0

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin if progress is shown, but not as a bar."""
        return cls() if context.progress and not sys.stderr.isatty() else None

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Store the number of experiences."""
        self.total = len(stream)

    def moved(self, learner: Learner) -> None:
        """Count an experience's own samples only."""
        if self.place["phase"] == "learning":
            self.clear()

    @hookimpl(trylast=True)
    def after_epoch(self, logs: dict[str, Any]) -> None:
        """Add up the experience's epochs."""
        self.last = logs
        self.samples += logs["samples"]
        self.updates += logs["steps"]
        self.decisions += logs.get("decisions", 0)
        self.seconds += logs["seconds"]

    def measured(self, learner: Learner, row: str, results: dict[str, dict[str, float]]) -> None:
        """Print what was learned, with the result."""
        values = [next(iter(measures.values())) for measures in results.values()]
        mean = sum(values) / max(len(values), 1)
        measure = next(iter(next(iter(results.values()))), "measure") if results else "measure"
        line = f"{truncate(row, _NAME):<8} mean {measure} {mean:.3f}"
        if learner.seen:
            line = f"[{len(learner.seen)}/{self.total}] {line}"
        if self.last:
            line += f"  loss {self.last['loss']:.4f}  {self.speed()}"
        if self.left and len(learner.seen) < self.total:
            line += f"  {duration(self.left)} left"
        print_err(line)

    def speed(self) -> str:
        """Return samples per second, or decisions and updates in reinforcement learning."""
        seconds = max(self.seconds, 1e-9)
        if not self.decisions:
            return f"{self.samples / seconds:,.0f} samples/s"
        rates = (self.decisions / seconds, self.updates / seconds)
        return f"{rates[0]:,.0f} decisions/s  {rates[1]:,.0f} updates/s"


class ProgressBar(Progress):
    """Progress bar with position, loss and time left, and a line per experience."""

    name = "progress_bar"

    def __init__(self) -> None:
        super().__init__()
        self.bar: Any = None

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin if progress is shown on a terminal."""
        return cls() if context.progress and sys.stderr.isatty() else None

    def moved(self, learner: Learner) -> None:
        """Start a bar for the current phase."""
        from tqdm import tqdm

        super().moved(learner)
        self.close()
        self.bar = tqdm(
            desc=printable(self.where()),
            bar_format=_BAR,
            leave=False,
            dynamic_ncols=True,
            file=sys.stderr,
        )
        self.draw(learner)

    def advanced(self, learner: Learner) -> None:
        """Redraw the bar; the loss is read from the device only here."""
        if self.bar is not None:
            self.draw(learner)

    def draw(self, learner: Learner) -> None:
        """Show the position of the run in the bar."""
        place, bar, loop = self.place, self.bar, learner.state.loop
        fields = []
        if place["phase"] == "learning":
            if loop is not None:
                bar.n, bar.total = loop.taken, loop.planned
                if loop.steps:
                    fields.append(f"loss {float(loop.total) / loop.steps:.4f}")
            if self.decisions:
                fields.append(self.speed())
        else:
            bar.n, bar.total = place["tasks_done"], place["tasks"]
            if place.get("total"):
                bar.n += min(1.0, place["done"] / place["total"])
        if self.left is not None:
            fields.append(f"{duration(self.left)} left")
        bar.set_description_str(printable(self.where()), refresh=False)
        bar.bar_format = "  ".join([_BAR, *fields])  # tqdm would put a comma before the fields
        bar.refresh()

    def where(self) -> str:
        """Return the experience and its phase."""
        place = self.place
        fields = [f"[{place.get('experience', -1) + 1}/{self.total}]"]
        fields.append(truncate(str(place.get("name", "before")), _NAME))
        if place["phase"] == "evaluating":
            fields.append(f"evaluating {truncate(place['task'], _NAME)}".rstrip())
        elif "epoch" in place:
            epochs = f"/{place['epochs']}" if place.get("epochs") else ""
            fields.append(f"epoch {place['epoch'] + 1}{epochs}")
        return " ".join(fields)

    def measured(self, learner: Learner, row: str, results: dict[str, dict[str, float]]) -> None:
        """Replace the bar with the line."""
        self.close()
        super().measured(learner, row, results)

    @hookimpl
    def teardown(self) -> None:
        """Remove the bar, after success or failure."""
        self.close()

    def close(self) -> None:
        """Remove the bar if there is one."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
