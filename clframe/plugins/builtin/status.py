"""Write the run's current status into the run folder, for ``clframe watch``."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from clframe.core.results import without_nan
from clframe.hookspecs import hookimpl
from clframe.plugins.builtin._following import Following
from clframe.runs.status import FORMAT, STATUS
from clframe.utils.files import write_volatile

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream

_EVERY = 1.0
"""Seconds between two writes within a phase; the loss is read only then."""


class Status(Following):
    """Status file ``status.json``, kept up to date: position in the stream, loss and time left.

    Args:
        path: The file.
        strategy: The strategy's name.
    """

    def __init__(self, path: str, strategy: str = "") -> None:
        super().__init__()
        self.path = Path(path)
        self.strategy = strategy
        self._facts: str | None = None
        """The beginning of the file, which is the same each time."""
        self._next = 0.0

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if the run is written to a folder."""
        if context.run_dir is None:
            return None
        return cls(str(context.run_dir / STATUS), context.strategy)

    @hookimpl(trylast=True)
    def after_prepare(self, learner: Learner, stream: Stream) -> None:
        """Write to the folder from now on; a run opened only for reading writes nothing."""
        facts = {
            "format": FORMAT,
            "stream": stream.name,
            "strategy": self.strategy,
            "scenario": stream.scenario,
            "seed": learner.seed,
            "source": stream.source,
            "rows": [experience.name for experience in stream.experiences],
            "experiences": len(stream),
            "columns": [task.name for task in stream.tasks],
            "started": time.time(),
        }
        self._facts = _text(facts)[:-1]
        self.write(learner, "running")

    def moved(self, learner: Learner) -> None:
        """Write at once, because the next phase may take long without progress."""
        self.write(learner, "running")

    def advanced(self, learner: Learner) -> None:
        """Write if the last write is long enough ago."""
        if time.monotonic() >= self._next:
            self.write(learner, "running")

    @hookimpl
    def teardown(self, learner: Learner, error: BaseException | None) -> None:
        """Remove the status of a finished run, or write how the run ended."""
        if self._facts is None or not self.path.exists():  # it never began
            return
        if error is None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        elif isinstance(error, KeyboardInterrupt):
            self.write(learner, "stopped")
        else:
            why = " ".join(str(error).split()) or type(error).__name__
            self.write(learner, "failed", why[:500])

    def write(self, learner: Learner, state: str, why: str = "") -> None:
        """Replace the file; ignore a failure, which does not affect the run."""
        if self._facts is None:
            return
        self._next = time.monotonic() + _EVERY
        timing = learner.state.timing.state_dict()
        content = {
            **self.place,
            "state": state,
            "why": why,
            "at": time.time(),
            "seconds": timing["train_seconds"] + timing["eval_seconds"],
            "left": self.left,
        }
        loop = learner.state.loop
        if state == "running" and loop is not None and loop.steps:
            content["loss"] = float(loop.total) / loop.steps
        with contextlib.suppress(OSError):
            write_volatile(self.path, f"{self._facts}, {_text(content)[1:]}\n")


def _text(content: dict[str, Any]) -> str:
    return json.dumps(without_nan(content), allow_nan=False)
