"""Save a run while it runs, and resume it at the exact step.

Two kinds of checkpoint make resuming exact, regardless of what plugins do:

* A checkpoint *between* experiences (or between the tasks of an evaluation) is complete: the run
continues from it alone. * A checkpoint *within* an experience is taken after a step of the training
loop. To resume there, the run starts from the checkpoint at the experience's start and calls the
hooks (``before_experience``, ``extra_data``, ``fit_experience``, ...) again, so teachers, masks and
caches are made again as they were. When it enters the training loop, it restores the loop's saved
state and continues at the next step. A plugin that trains more than once in an experience (PackNet)
enters the loop again; completed loops are not run again but replaced by the state at their end. So
``state`` must name what a plugin changes in steps and epochs, but not what it makes before.
  nothing that it makes before.

Work between the end of a loop and the next checkpoint (a Fisher estimate, pruning, the rest of an
evaluation) is done again with restored generators, which gives the same bits.

A checkpoint is due by time or by steps. By time it also has to be cheap: the cost of a save divided
by the time since the last one stays below ``max_cost``. The start of an experience or the end of a
loop that is not due is cloned in memory, and written only if a checkpoint that depends on it is
written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.checkpoint import snapshot
from clframe.checkpoint.adapt import adapt
from clframe.checkpoint.foreign import checked
from clframe.checkpoint.settings import CheckpointSettings
from clframe.checkpoint.signals import StopRequest
from clframe.checkpoint.unsaved import Unsaved
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.checkpoint.store import CheckpointInfo, CheckpointStore
    from clframe.core.learner import Learner
    from clframe.core.state import LoopProgress, RunState

_SAVED = ("total", "left", "epochs", "steps", "seconds", "done")
"""Entries of the loop's progress that are saved."""


class Stopped(KeyboardInterrupt):
    """The run was asked to stop, has been saved and can be resumed."""


class _Parent:
    """The start of the current experience or the end of a loop: on disk, or cloned in memory."""

    def __init__(self, number: int | None, state: Any = None) -> None:
        self.number = number
        self.state = state


class Checkpointer:
    """Checkpointer of a run: saves it when a checkpoint is due, and restores it.

    Args:
        learner: Learner of the run.
        state: The state of the run.
        store: Where to save; None for nowhere (no folder, or not the main process).
        settings: How often to save.
        identity: The run's identity, stored next to every checkpoint.
    """

    def __init__(
        self,
        learner: Learner,
        state: RunState,
        store: CheckpointStore | None = None,
        settings: CheckpointSettings | None = None,
        identity: dict[str, Any] | None = None,
    ) -> None:
        self.learner = learner
        self.state = state
        self.stop = StopRequest()
        """Set by a signal that asks the run to save and stop."""
        self.resumed_from = ""
        """Position at which a saved run was resumed, as text."""
        self.notes: list[str] = []
        """Notes about state of another run that could not be taken over, if any."""
        self._store = store
        self._unsaved: Unsaved | None = None
        self._settings = settings or CheckpointSettings()
        self._identity = identity or {}
        if store is not None:
            store.room = self._settings.room(len(learner.stream))
            self._unsaved = Unsaved(learner)
        every = self._settings.every_n_steps
        self._every = math.inf if every is None or store is None else every
        self._steps = 0
        self._cost = 0.0
        self._last = -math.inf
        self._next = math.inf
        self._parents: list[_Parent] = []
        self._to_restore: list[int] = []
        self._epoch_state: dict[str, Any] | None = None
        self._evaluated: dict[str, dict[str, float]] = {}

    # ------------------------------------------------------------ resuming

    @checked
    def restore(self, info: CheckpointInfo) -> None:
        """Restore the run to a checkpoint."""
        state = self.state
        start = info.parents[0] if info.parents else info.number
        saved = self._read(start)
        forked = self.learner.forked
        if forked is not None and saved["experiences"] == forked["at"]:
            saved, notes = adapt(saved, self.learner, forked)
            self.notes = [] if info.parents else notes
        state.seen = list(self.learner.stream.experiences[: saved["experiences"]])
        state.experience = state.seen[-1] if state.seen else None
        snapshot.restore(saved, self.learner, state)
        if len(state.matrix.rows) > len(state.seen):
            self._parents = [_Parent(start)]
        else:
            self._evaluated = saved["evaluated"]
        if self._unsaved is not None:
            self._unsaved.resumed(saved)
        self._to_restore = [*info.parents[1:], info.number] if info.parents else []
        self.resumed_from = describe(info.position)
        self._last = time.monotonic()
        self._plan()

    @property
    def states(self) -> Path | None:
        """The folder of the checkpoints."""
        return None if self._store is None else self._store.folder

    @property
    def replaying(self) -> bool:
        """Whether hooks are called again on the way to the step of a resumed run."""
        return bool(self._to_restore) or self._epoch_state is not None

    def _read(self, number: int) -> dict[str, Any]:
        """Return the state of a checkpoint; the process that can read it sends it to the others."""
        engine, saved = self.learner.engine, None
        if self._store is not None:
            saved = self._store.read(number, engine.device)
        state: dict[str, Any] | None = engine.broadcast(saved)
        assert state is not None
        return state

    # ------------------------------------------------------------ between experiences

    def begin_experience(self) -> None:
        """Prepare the start of the coming experience for checkpoints that depend on it."""
        if self._store is None or self._parents:
            return
        self._add_parent(self._between({}))

    def evaluated(self) -> dict[str, dict[str, float]]:
        """Return the results of an interrupted evaluation."""
        results, self._evaluated = self._evaluated, {}
        return results

    def after_task(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Save between two tasks of an evaluation, with the results so far."""
        if self._is_due():
            self._save(self._between(results), ())

    def end_experience(self) -> None:
        """End an experience: later checkpoints no longer depend on its start."""
        self._parents = []

    def finish(self) -> None:
        """Save the end of the run, at any cost."""
        if self._store is not None and not self._parents:
            self._write(self._between({}), ())

    def _between(self, results: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
        learned = len(self.state.seen)
        saved = snapshot.capture(self.learner, self.state)
        saved["unsaved"] = {} if self._unsaved is None else self._unsaved.between()
        saved["experiences"] = learned
        saved["evaluated"] = {
            task: {name: _number(value) for name, value in measures.items()}
            for task, measures in results.items()
        }
        saved["position"] = {
            "experiences_learned": learned,
            "rows": len(self.state.matrix.rows),
            "tasks_evaluated": len(results),
        }
        return saved

    # ------------------------------------------------------------ within the training loop

    @checked
    def on_loop_start(self, progress: LoopProgress) -> None:
        """Start the loop; for a resumed run in or past it, update ``progress``."""
        if not self._to_restore:
            return
        number = self._to_restore.pop(0)
        saved = self._read(number)
        for name, value in saved["progress"].items():
            setattr(progress, name, value)
        self.state.epoch = saved["epoch"]
        if progress.done:
            self._parents.append(_Parent(number))
            self._restore(saved)
        else:
            self._epoch_state = saved

    @checked
    def restore_epoch(self) -> None:
        """Restore the epoch of a resumed run, which has started again."""
        if self._unsaved is not None:
            self._unsaved.begin_epoch(self._epoch_state)
        if self._epoch_state is not None:
            self._restore(self._epoch_state)
            self._epoch_state = None

    def _restore(self, saved: dict[str, Any]) -> None:
        snapshot.restore(saved, self.learner, self.state)
        self._last = time.monotonic()
        self._plan()

    def after_step(self, progress: LoopProgress) -> None:
        """Save after an optimizer step if it is time to."""
        self._steps += 1
        stop = self.stop.signal is not None
        if stop or self._steps >= self._every or time.monotonic() >= self._next:
            self._save_within(progress)

    def on_loop_end(self, progress: LoopProgress) -> None:
        """End the loop."""
        if self._store is None or progress.done:
            return
        progress.done = True
        self._add_parent(self._within(progress))

    def _save_within(self, progress: LoopProgress) -> None:
        if self._store is None or not self._parents:
            self._next = math.inf
            return
        if progress.before_save is not None:
            progress.before_save()
        progress.seconds = time.perf_counter() - progress.started
        self._save(self._within(progress), self._parents)

    def _within(self, progress: LoopProgress) -> dict[str, Any]:
        experience = self.state.experience
        saved = snapshot.capture(self.learner, self.state)
        if self._unsaved is not None and not progress.done:
            saved["unsaved"] = self._unsaved.within()
        saved["progress"] = {name: getattr(progress, name) for name in _SAVED}
        saved["position"] = {
            "experience": None if experience is None else experience.name,
            "loop": len(self._parents) - 1,
            "epoch": self.state.epoch,
            "step": progress.steps,
            "done": progress.done,
        }
        return saved

    # ------------------------------------------------------------ saving

    def _is_due(self) -> bool:
        if self._store is None:
            return False
        return self._steps >= self._every or time.monotonic() >= self._next or bool(self.stop)

    def _is_cheap(self) -> bool:
        """Return whether saving now stays within the allowed cost."""
        since = time.monotonic() - self._last
        return self._every is not math.inf or since >= self._pause()

    def _pause(self) -> float:
        """Return the seconds to train until the next save, which stays cheap at twice the cost."""
        if self._settings.max_cost >= 1:
            return 0.0  # always
        return 2 * self._cost / self._settings.max_cost

    def _add_parent(self, saved: dict[str, Any]) -> None:
        """Write or clone a start or an end that later checkpoints depend on."""
        assert self._store is not None
        always = "experiences" in saved and self._store.room > 0 and not self._store.full
        if always or self._is_due() or self._is_cheap():
            self._parents.append(_Parent(self._save(saved, self._parents)))
        else:
            self._parents.append(_Parent(None, snapshot.clone(saved)))

    def _save(self, saved: dict[str, Any], parents: Sequence[_Parent]) -> int:
        """Write a checkpoint and, before it, its parents; stop if the run was asked to."""
        number = self._write(saved, parents)
        if self.stop:
            warn_user(f"{self.stop.signal}: saved {describe(saved['position'])}")
            raise Stopped
        return number

    def _write(self, saved: dict[str, Any], parents: Sequence[_Parent]) -> int:
        started = time.monotonic()
        numbers: list[int] = []
        for parent in parents:
            if parent.number is None:
                parent.number = self._put(parent.state, numbers)
                parent.state = None
            numbers.append(parent.number)
        number = self._put(saved, numbers)
        self._last = time.monotonic()
        self._cost, self._steps = self._last - started, 0
        self._plan()
        return number

    def _put(self, saved: dict[str, Any], parents: list[int]) -> int:
        assert self._store is not None
        position, files = saved["position"], saved["files"]
        was_full = self._store.full
        number = self._store.write(saved, position, parents, self._identity, files)
        if self._store.full and not was_full:
            size = self._settings.max_bytes / 1e6
            warn_user(
                f"the states after each experience take more than {size:g} MB, so later ones are "
                "not kept for clframe fork and verify; raise checkpoint.max_bytes to keep more"
            )
        return number

    def _plan(self) -> None:
        """Set the time of the next checkpoint."""
        if self._settings.every_seconds is None or self._store is None:
            self._next = math.inf
            return
        self._next = self._last + max(self._settings.every_seconds, self._pause())


def describe(position: Mapping[str, Any]) -> str:
    """Describe the position of a checkpoint in a run.

    >>> describe({"experience": "exp2", "loop": 0, "epoch": 1, "step": 37, "done": False})
    'in experience exp2, epoch 2, after step 37'
    >>> describe({"experiences_learned": 3, "rows": 4, "tasks_evaluated": 0})
    'after 3 experiences'
    """
    if "experience" not in position:
        learned = position["experiences_learned"]
        text = f"after {learned} experience{'' if learned == 1 else 's'}"
        if position["rows"] > learned:
            return text
        return f"{text}, with {position['tasks_evaluated']} tasks evaluated"
    again = f", loop {position['loop'] + 1}" if position["loop"] else ""
    if position["done"]:
        return f"at the end of learning {position['experience']}{again}"
    return (
        f"in experience {position['experience']}{again}, epoch {position['epoch'] + 1}, "
        f"after step {position['step']}"
    )


def _number(value: float) -> float:
    """Return a measure as a plain number, regardless of the library it comes from."""
    return value if type(value) in (int, float, bool) else float(value)
