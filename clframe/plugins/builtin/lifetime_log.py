"""Write the run as a lifetime in l2logger's format, for `clframe l2` and other L2 tools.

Blocks: an evaluation of all tasks before the first learning block and after each; one learning
block per experience. An evaluation block has one row per task, the value of the matrix. In a
learning block one learning experience is one optimizer step, its value the accuracy of the
current batch before the step, on samples of the experience's own tasks. If training outputs do
not give the measure of the matrix (a policy's success), a learning block has the values measured
during training (``evaluation.check_val_every_n_epoch``) or, without those, the one measured after
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.errors import DataError
from clframe.hookspecs import hookimpl
from clframe.metrics.l2.log_writer import L2LogWriter, check_position
from clframe.runs.reader import LOG

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.step import Step
    from clframe.core.stream import Experience, Stream, Task

PLAIN = "plain"
"""The variant of a task that has only one."""

_FOLD = 256
"""Steps whose predictions are kept on the device before they are counted."""


class LifetimeLog(Plugin):
    """Lifetime log: learning and evaluation blocks in ``log/``, in l2logger's format.

    Args:
        path: The log's folder.
        resume: Whether an existing log may be continued or restarted.
        clock: Source of time stamps.
    """

    capabilities = Capabilities(batched_seeds=True)
    name = "lifetime_log"
    state = ("measure", "position", "rows", "counts")

    def __init__(
        self, path: str, resume: bool = False, clock: Callable[[], datetime] = datetime.now
    ) -> None:
        self.path = Path(path)
        self.resume = resume
        self.clock = clock
        self.in_folder = False
        """Whether this is the log of the run folder; another log may be anywhere."""
        self.measure = ""
        self.position: dict[str, Any] | None = None
        self._writer: L2LogWriter | None = None
        self._column = ""
        self._names: dict[str, tuple[str, dict[str, Any]]] = {}
        self._scenario: dict[str, Any] = {}
        self._experience: Experience | None = None
        self.rows = 0
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []
        self.counts: list[Tensor] = []

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if the run is written to a folder."""
        if context.run_dir is None:
            return None
        log = cls(str(context.run_dir / LOG), resume=context.resumed)
        log.in_folder = True
        return log

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the log on disk, and the counts of the current epoch."""
        self._fold()
        if self._writer is not None:
            self.position = self._writer.state_dict()
        return super().state_dict()

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return the log if it is the run folder's own."""
        marks = {} if self.position is None or not self.in_folder else self.position["files"]
        return {f"{self.path.name}/{name}": mark for name, mark in marks.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the saved run; the next write truncates the log."""
        super().load_state_dict(state)
        if self.position is not None:
            check_position(self.position)
        self._writer, self._steps = None, []

    def open(self) -> L2LogWriter:
        """Return the writer; its first use truncates the log to the restored state.

        Not earlier: ``clframe eval`` must not change the log of a run.
        """
        if self._writer is None:
            self._column = re.sub(r"[^0-9A-Za-z_.-]+", "-", self.measure)
            self._writer = L2LogWriter(
                self.path, [self._column], self._scenario, resume=True, clock=self.clock
            )
            if self.position is None:
                self._writer.truncate(0)
            else:
                self._writer.load_state_dict(self.position)
        return self._writer

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Name the tasks as L2 tools do."""
        if not self.resume and self.path.is_dir() and any(self.path.iterdir()):
            raise DataError(f"'{self.path}' already holds a log: choose another run_dir")
        self._names = {task.name: (log_name(task), parameters(task)) for task in stream.tasks}
        self._scenario = describe(stream, learner.seed)

    @hookimpl
    def before_experience(self, experience: Experience) -> None:
        """Begin a learning block, which is written with its first row."""
        self._experience, self.rows, self._steps, self.counts = experience, 0, [], []

    @hookimpl
    def after_step(self, step: Step) -> None:
        """Keep the predictions without reading from the device."""
        outputs, batch = step.outputs[0], step.batch
        if self.measure == "accuracy" and _classifies(outputs, batch.y):
            self._steps.append((outputs.detach().argmax(1), batch.y, batch.task))
            if len(self._steps) >= _FOLD:
                self._fold()

    def _fold(self) -> None:
        """Count correct and all predictions, by own task and step."""
        if not self._steps or self._experience is None:
            return
        predicted, labels, tasks = (
            torch.cat(list(part)) for part in zip(*self._steps, strict=True)
        )
        sizes = torch.tensor([len(labels) for _, labels, _ in self._steps])
        step = torch.arange(len(sizes)).repeat_interleave(sizes).to(tasks.device)
        right = predicted == labels
        counts = torch.zeros(
            2, len(self._experience.tasks), len(sizes), dtype=torch.long, device=tasks.device
        )
        for number, task in enumerate(self._experience.tasks):
            mine = tasks == task.index
            counts[0, number].index_add_(0, step, (mine & right).long())
            counts[1, number].index_add_(0, step, mine.long())
        self.counts.append(counts)
        self._steps = []

    @hookimpl
    def after_epoch(self) -> None:
        """Write the epoch's learning experiences, with one read from the device."""
        self._fold()
        if not self.counts or self._experience is None:
            return
        right, seen = torch.cat(self.counts, dim=2).tolist()
        self.counts = []
        for step in range(len(seen[0])):
            for number, task in enumerate(self._experience.tasks):
                if seen[number][step]:
                    share = right[number][step] / seen[number][step]
                    self._record("train", task.name, share)

    @hookimpl
    def after_evaluation(self, learner: Learner, results: dict[str, dict[str, float]]) -> None:
        """End the learning block and write the evaluation block."""
        self.measure = self.measure or next(iter(next(iter(results.values()))))
        writer = self.open()
        # Not the experience of before_experience: a run can be resumed between the two.
        learned = learner.experience
        if learned is not None and not self.rows:
            curves = learner.curves.get(learned.name, {})
            for task in learned.tasks:
                # A curve begins with the value before learning, which is no learning experience.
                measured: list[float | None] = [*curves.get(task.name, [])[1:]]
                for value in measured or [results[task.name].get(self.measure)]:
                    self._record("train", task.name, value)
        self._experience = None
        for name, measures in results.items():
            self._record("test", name, measures.get(self.measure))
        writer.end_block()

    @hookimpl
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return the lifetime's L2 metrics (profile ``paper``, without experts), from the log."""
        from clframe.metrics import l2

        self.open().flush()
        return {"l2": dict(l2.evaluate(self.path).lifetime)}

    @hookimpl
    def after_run(self) -> None:
        """Truncate the log to the run's state."""
        self.open().close()

    def _record(self, kind: str, task: str, value: float | None) -> None:
        name, params = self._names[task]
        writer = self.open()
        if writer.kind != kind:
            writer.begin_block(kind)
        writer.record(name, {self._column: value}, params)
        self.rows += 1


def log_name(task: Task) -> str:
    """Return a task's name for L2 tools, ``<task>_<variant>``.

    >>> from clframe.core.stream import Task
    >>> log_name(Task(0, "open_drawer", (0, 1)))
    'open-drawer_plain'
    >>> log_name(Task(0, "task0_dark", (0, 1), info={"variant": "dark"}))
    'task0_dark'
    """
    if "variant" in task.info:
        return task.name
    return f"{re.sub(r'[^0-9A-Za-z]+', '-', task.name)}_{PLAIN}"


def parameters(task: Task) -> dict[str, Any]:
    """Return a task's parameters: those of its regime, or its info, if JSON can hold them.

    >>> from clframe.core.stream import Task
    >>> parameters(Task(0, "a", (0,), info={"level": 2, "scene": object()}))
    {'level': 2}
    """
    values: Mapping[str, Any] = task.info.get("params", task.info)
    return {str(key): value for key, value in values.items() if _is_json(value)}


def describe(stream: Stream, seed: int) -> dict[str, Any]:
    """Return the content of scenario_info.json, with learning blocks as in l2logger's examples."""
    first = stream.experiences[0].info
    taught = [task.name for experience in stream for task in experience.tasks]
    once = len(set(taught)) == len(taught)
    blocks = [
        {
            "type": "train",
            "regimes": [
                {
                    "task": log_name(task),
                    **({"count": e.info["count"]} if "count" in e.info else {}),
                    **({"params": parameters(task)} if "params" in task.info else {}),
                }
                for task in e.tasks
            ],
        }
        for e in stream
    ]
    return {
        "scenario_type": first.get("scenario_type", "condensed" if once else "custom"),
        **{key: first[key] for key in ("complexity", "difficulty") if key in first},
        "stream": stream.name,
        "scenario": stream.scenario,
        "seed": seed,
        "evaluation": "all tasks, before the first learning block and after each",
        "input_file": {"scenario": blocks},
    }


def _classifies(outputs: Any, labels: Any) -> bool:
    """Return whether outputs are class scores and labels are classes."""
    return (
        isinstance(outputs, Tensor)
        and isinstance(labels, Tensor)
        and outputs.dim() == 2
        and labels.dim() == 1
        and not labels.is_floating_point()
    )


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
