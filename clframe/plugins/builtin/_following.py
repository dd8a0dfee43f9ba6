"""The common base of progress displays: where a run is, and when it will be done."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.evaluation.schedule import tasks_of_row
from clframe.hookspecs import hookimpl
from clframe.recording.results_file import number
from clframe.runs.reader import EVENTS
from clframe.utils.eta import StreamClock
from clframe.utils.regular import parse_json, read_bytes

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience


class Following(Plugin):
    """Base that follows a run through its hooks; the time left is that of the whole stream."""

    capabilities = Capabilities(batched_seeds=True)

    def __init__(self) -> None:
        self.clock: StreamClock | None = None
        self.place: dict[str, Any] = {"phase": "preparing"}
        """Where the run is, as written to ``status.json``."""

    @property
    def left(self) -> float | None:
        """Seconds until the end of the stream; None while this is unknown."""
        return None if self.clock is None else self.clock.left(time.monotonic())

    def started(self, learner: Learner) -> StreamClock:
        """Return the clock, starting it first; a resumed run's clock continues from its past."""
        if self.clock is None:
            stream, settings = learner.stream, learner.engine.evaluation
            tasks = [len(tasks_of_row(stream, settings, n + 1)) for n in range(len(stream))]
            self.clock = StreamClock(tasks, time.monotonic(), len(learner.seen))
            if learner.seen and learner.state.run_dir is not None:
                _recall(self.clock, learner.state.run_dir / EVENTS, len(learner.seen))
        return self.clock

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Note the experience that begins."""
        self.started(learner)
        self.place = {
            "phase": "learning",
            "experience": experience.index,
            "name": experience.name,
        }
        self.moved(learner)

    @hookimpl(trylast=True)
    def on_progress(
        self, learner: Learner, unit: str, done: int, total: int | None, task: str
    ) -> None:
        """Update the counts of steps, tasks, episodes or a plugin's own unit."""
        clock, place = self.started(learner), self.place
        if unit == "tasks":
            self._evaluate(learner, done, total or 0, task)
            return
        if unit == "steps":
            clock.step(time.monotonic(), done, total)
            loop = learner.state.loop
            if loop is not None and loop.per_epoch:
                place |= {"epoch": learner.state.epoch, "step": loop.steps, "steps": loop.per_epoch}
                place["epochs"] = None if total is None else -(-total // loop.per_epoch)
            for key in ("unit", "done", "total", "task"):
                place.pop(key, None)
        else:
            place |= {"unit": unit, "done": done, "total": total, "task": task}
            if not clock.learning and total and place.get("tasks"):
                clock.evaluating((place["tasks_done"] + done / total) / place["tasks"])
        self.advanced(learner)

    def _evaluate(self, learner: Learner, done: int, total: int, task: str) -> None:
        """Note which row of the matrix and which task of it is measured."""
        self.started(learner).evaluating(done / max(total, 1))
        last = learner.seen[-1] if learner.seen else None
        self.place = {"phase": "evaluating", "tasks": total, "tasks_done": done, "task": task}
        if last is not None:
            self.place |= {"experience": last.index, "name": last.name}
        self.moved(learner)

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        """Record the time that the experience took."""
        self.started(learner).learned(time.monotonic())

    @hookimpl(trylast=True)
    def after_evaluation(
        self, learner: Learner, row: str, results: dict[str, dict[str, float]]
    ) -> None:
        """Record the time that the row took."""
        self.started(learner).evaluated(time.monotonic(), len(results))
        self.measured(learner, row, results)

    # ------------------------------------------------------------ for subclasses

    def moved(self, learner: Learner) -> None:
        """Handle the start of another phase."""

    def advanced(self, learner: Learner) -> None:
        """Handle progress within a phase."""

    def measured(self, learner: Learner, row: str, results: dict[str, dict[str, float]]) -> None:
        """Handle a new row of the matrix."""


def _recall(clock: StreamClock, path: Path, learned: int) -> None:
    """Give the clock of a resumed run the times of its first experiences."""
    try:
        lines = read_bytes(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    steps = last = 0
    for line in lines:
        try:
            event = parse_json(line)
        except ValueError:
            continue
        if not isinstance(event, dict):
            continue
        kind, step = event.get("event"), event.get("step")
        seconds, experience = number(event.get("seconds")), event.get("experience")
        if kind == "epoch" and isinstance(step, int):
            last = step
        elif kind == "experience" and isinstance(experience, int) and experience < learned:
            clock.remember(seconds, last - steps, None)
            steps = last
        elif kind == "evaluation" and seconds is not None:
            values = event.get("values")
            n = len(values) if isinstance(values, dict | list) else 0
            clock.remember(None, 0, seconds / max(n, 1))
