"""Saves a run while it runs, and resumes it at the exact step.

Two kinds of checkpoint make that exact whatever plugins do:

* *Between* experiences (and between the tasks of an evaluation) a checkpoint is all there is to
  know; the run continues from it alone.
* *Within* an experience a checkpoint is taken after a step of the training loop. A run is resumed
  there by walking the same way again: from the checkpoint at the experience's start the hooks
  (``before_experience``, ``extra_data``, ``fit_experience``, ...) are called as the first time, so
  teachers, masks and caches come out as they were; where the training loop is entered, its saved
  state is restored and it continues at the next step. A plugin that trains more than once in an
  experience (PackNet) enters the loop again; the loops before are not run but replaced by the state
  saved at their end. So a plugin has to name in ``state`` what changes in steps and epochs, and
  nothing that it makes before.

What happens between the end of a loop and the next checkpoint (a Fisher estimate, pruning, the rest
of an evaluation) is computed again from restored generators, which gives the same bits.

A checkpoint is due by time or by steps. By time it also has to be cheap: what a save took, divided
by the time since the last one, stays below ``max_cost``. Where the start of an experience or the
end of a loop is not due it is cloned in memory, and written only if a checkpoint that depends on it
is.
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
"""What of the loop's progress is saved."""


class Stopped(KeyboardInterrupt):
    """The run was asked to stop, has been saved and can be resumed."""


class _Parent:
    """The start of the current experience or the end of a loop: on disk, or cloned in memory."""

    def __init__(self, number: int | None, state: Any = None) -> None:
        self.number = number
        self.state = state


class Checkpointer:
    """Decides when to save, and restores a saved run.

    Args:
        learner: Whose run it is.
        state: The state of the run.
        store: Where to save; None for nowhere (no folder, or not the main process).
        settings: How often.
        identity: What the run is made of, put beside every checkpoint.
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
        """Where a saved run was resumed, in words."""
        self.notes: list[str] = []
        """What of another run's state could not be taken over, where the run begins with one."""
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
        """Make the run what it was at a checkpoint."""
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
        """Where the checkpoints are."""
        return None if self._store is None else self._store.folder

    @property
    def replaying(self) -> bool:
        """Whether hooks are called again on the way to where a resumed run was."""
        return bool(self._to_restore) or self._epoch_state is not None

    def _read(self, number: int) -> dict[str, Any]:
        """The state of a checkpoint; the process that can read it hands it to the others."""
        engine, saved = self.learner.engine, None
        if self._store is not None:
            saved = self._store.read(number, engine.device)
        state: dict[str, Any] | None = engine.broadcast(saved)
        assert state is not None
        return state

    # ------------------------------------------------------------ between experiences

    def begin_experience(self) -> None:
        """Make sure that checkpoints within the coming experience have a start to depend on."""
        if self._store is None or self._parents:
            return
        self._add_parent(self._between({}))

    def evaluated(self) -> dict[str, dict[str, float]]:
        """What an interrupted evaluation had measured."""
        results, self._evaluated = self._evaluated, {}
        return results

    def after_task(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Between two tasks of an evaluation, with what has been measured so far."""
        if self._is_due():
            self._save(self._between(results), ())

    def end_experience(self) -> None:
        """An experience has been learned: what comes next no longer depends on its start."""
        self._parents = []

    def finish(self) -> None:
        """Save the end of the run, whatever it costs."""
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
        """The loop begins; where a resumed run was in it or past it, ``progress`` says so."""
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
        """The epoch in which the resumed run was has begun again: restore its state."""
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
        """After every optimizer step: save if it is time to."""
        self._steps += 1
        stop = self.stop.signal is not None
        if stop or self._steps >= self._every or time.monotonic() >= self._next:
            self._save_within(progress)

    def on_loop_end(self, progress: LoopProgress) -> None:
        """The loop has come to its end."""
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
        """Whether saving now would keep within the cost that is allowed."""
        since = time.monotonic() - self._last
        return self._every is not math.inf or since >= self._pause()

    def _pause(self) -> float:
        """Seconds to train after a save so that it stays cheap, even if the next takes twice."""
        if self._settings.max_cost >= 1:
            return 0.0  # always
        return 2 * self._cost / self._settings.max_cost

    def _add_parent(self, saved: dict[str, Any]) -> None:
        """A start or an end that later checkpoints depend on: write it, or clone it for then."""
        assert self._store is not None
        always = "experiences" in saved and self._store.room > 0 and not self._store.full
        if always or self._is_due() or self._is_cheap():
            self._parents.append(_Parent(self._save(saved, self._parents)))
        else:
            self._parents.append(_Parent(None, snapshot.clone(saved)))

    def _save(self, saved: dict[str, Any], parents: Sequence[_Parent]) -> int:
        """Write a checkpoint and, before it, its parents; stop if that was asked for."""
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
                "not kept for clframe fork and verify; a larger checkpoint.max_bytes keeps more"
            )
        return number

    def _plan(self) -> None:
        """When the next checkpoint is due by time."""
        if self._settings.every_seconds is None or self._store is None:
            self._next = math.inf
            return
        self._next = self._last + max(self._settings.every_seconds, self._pause())


def describe(position: Mapping[str, Any]) -> str:
    """Where in a run a checkpoint is, in words.

    >>> describe({"experience": "exp2", "loop": 0, "epoch": 1, "step": 37, "done": False})
    'in experience exp2, epoch 2, after step 37'
    >>> describe({"experiences_learned": 3, "rows": 4, "tasks_evaluated": 0})
    'after 3 experiences'
    """
    if "experience" not in position:
        learned = position["experiences_learned"]
        words = f"after {learned} experience{'' if learned == 1 else 's'}"
        if position["rows"] > learned:
            return words
        return f"{words}, with {position['tasks_evaluated']} tasks evaluated"
    again = f", loop {position['loop'] + 1}" if position["loop"] else ""
    if position["done"]:
        return f"at the end of learning {position['experience']}{again}"
    return (
        f"in experience {position['experience']}{again}, epoch {position['epoch'] + 1}, "
        f"after step {position['step']}"
    )


def _number(value: float) -> float:
    """A measure as a plain number, whatever library it comes from."""
    return value if type(value) in (int, float, bool) else float(value)
