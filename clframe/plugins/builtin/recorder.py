"""Write the run's events as they happen, one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.core.results import without_nan
from clframe.hookspecs import hookimpl
from clframe.runs.append_file import AppendOnlyFile
from clframe.runs.reader import EVENTS

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream
    from clframe.data.dataset import Data

_SECONDS = ("train_seconds", "eval_seconds")


class Recorder(Plugin):
    """Record of every epoch, experience and evaluation in ``events.jsonl``.

    Args:
        path: The file.
    """

    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, path: str) -> None:
        self.file = AppendOnlyFile(Path(path))
        self._before: dict[str, float] | None = None
        """Seconds that the run had taken at the last row of the matrix."""
        self._learned: float | None = None
        """Evaluation seconds at the end of the experience."""

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if the run is written to a folder."""
        return None if context.run_dir is None else cls(str(context.run_dir / EVENTS))

    def write(self, event: str, **content: Any) -> None:
        """Append one line."""
        line = json.dumps(without_nan({"event": event, **content}), allow_nan=False)
        self.file.append(line + "\n")

    def state_dict(self) -> dict[str, Any]:
        """Return the length of the file."""
        return {"mark": self.file.mark()}

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return the events file."""
        return {self.file.path.name: self.file.mark()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Drop lines written after the checkpoint, so that no event is there twice."""
        self.file.rollback(state["mark"])

    @hookimpl(trylast=True)
    def after_prepare(self, stream: Stream, seconds: float) -> None:
        """Write the first line, for the data: rendering or recording may have taken minutes."""
        if not self.file.mark()["bytes"]:  # a resumed run already has that line
            self.write("prepare", stream=stream.name, source=stream.source, seconds=seconds)

    @hookimpl(trylast=True)
    def after_epoch(
        self, learner: Learner, experience: Experience, epoch: int, logs: dict[str, Any]
    ) -> None:
        """Write one line per epoch."""
        self.write(
            "epoch",
            experience=experience.index,
            epoch=epoch,
            step=learner.global_steps,
            **{key: value for key, value in logs.items() if key != "steps"},
        )

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner) -> None:
        """Set the start times of a resumed or forked run."""
        self._before = self._before or learner.state.timing.state_dict()
        origin, state = learner.forked, learner.state
        if origin is None or len(state.seen) != origin["at"] or state.checkpointer.replaying:
            return
        self.write("fork", **{key: origin[key] for key in ("run", "at", "experience", "sha256")})

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Write one line per experience, with the seconds of training."""
        taken, before = learner.state.timing.state_dict(), self._before or {}
        self._learned = taken["eval_seconds"]
        self.write(
            "experience",
            experience=experience.index,
            name=experience.name,
            samples=len(data),
            seconds=sum(taken[key] - before.get(key, 0.0) for key in _SECONDS),
        )

    @hookimpl(trylast=True)
    def after_evaluation(
        self, learner: Learner, row: str, results: dict[str, dict[str, float]]
    ) -> None:
        """Write one line per row of the matrix, with the seconds of measuring."""
        self._before = learner.state.timing.state_dict()
        measures = {task: dict(values) for task, values in results.items()}
        first = {task: next(iter(values.values())) for task, values in measures.items()}
        taken = {}
        if self._learned is not None or not learner.seen:  # else resumed within the row
            taken["seconds"] = self._before["eval_seconds"] - (self._learned or 0.0)
        self.write("evaluation", row=row, values=first, measures=measures, **taken)

    @hookimpl(trylast=True)
    def on_metric(self, name: str, step: int, values: dict[str, float]) -> None:
        """Write one line for the values that a plugin measured during training."""
        self.write("measurement", name=name, step=step, values=dict(values))
