"""Shows how far a run is: a bar on a terminal, plain lines elsewhere."""

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
"""Letters of an experience's name that are shown."""
_BAR = "{desc} {percentage:3.0f}%|{bar}|"


class Progress(Following):
    """Prints one line per experience, with the time left for the whole stream."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.clear()

    def clear(self) -> None:
        """Count anew."""
        self.last: dict[str, Any] = {}
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
        """Say what was learned and how well."""
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
        """What a second had in it: samples, or decisions and updates of learning by reward."""
        seconds = max(self.seconds, 1e-9)
        if not self.decisions:
            return f"{self.samples / seconds:,.0f} samples/s"
        rates = (self.decisions / seconds, self.updates / seconds)
        return f"{rates[0]:,.0f} decisions/s  {rates[1]:,.0f} updates/s"


class ProgressBar(Progress):
    """Shows a bar with place, loss and the time left for the stream, and a line per experience."""

    name = "progress_bar"

    def __init__(self) -> None:
        super().__init__()
        self.bar: Any = None

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Where progress is shown on a terminal."""
        return cls() if context.progress and sys.stderr.isatty() else None

    def moved(self, learner: Learner) -> None:
        """Start a bar for what is done now."""
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
        """Put into the bar where the run is."""
        place, bar, loop = self.place, self.bar, learner.state.loop
        told = []
        if place["phase"] == "learning":
            if loop is not None:
                bar.n, bar.total = loop.taken, loop.planned
                if loop.steps:
                    told.append(f"loss {float(loop.total) / loop.steps:.4f}")
            if self.decisions:
                told.append(self.speed())
        else:
            bar.n, bar.total = place["tasks_done"], place["tasks"]
            if place.get("total"):
                bar.n += min(1.0, place["done"] / place["total"])
        if self.left is not None:
            told.append(f"{duration(self.left)} left")
        bar.set_description_str(printable(self.where()), refresh=False)
        bar.bar_format = "  ".join([_BAR, *told])  # tqdm would put a comma before them
        bar.refresh()

    def where(self) -> str:
        """Which experience it is, and what is done with it."""
        place = self.place
        words = [f"[{place.get('experience', -1) + 1}/{self.total}]"]
        words.append(truncate(str(place.get("name", "before")), _NAME))
        if place["phase"] == "evaluating":
            words.append(f"evaluating {truncate(place['task'], _NAME)}".rstrip())
        elif "epoch" in place:
            epochs = f"/{place['epochs']}" if place.get("epochs") else ""
            words.append(f"epoch {place['epoch'] + 1}{epochs}")
        return " ".join(words)

    def measured(self, learner: Learner, row: str, results: dict[str, dict[str, float]]) -> None:
        """The line takes the bar's place."""
        self.close()
        super().measured(learner, row, results)

    @hookimpl
    def teardown(self) -> None:
        """Take the bar away, whatever happened."""
        self.close()

    def close(self) -> None:
        """Take the bar away if there is one."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
