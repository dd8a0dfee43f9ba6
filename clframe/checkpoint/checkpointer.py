"""Saves a run while it goes on and takes it up again at the very step.

Two kinds of checkpoint make that exact whatever plugins do:

* *Between* experiences (and between the tasks of an evaluation) a checkpoint is all there is to
  know; the run goes on from it alone.
* *Within* an experience a checkpoint is taken after a step of the training loop. A run is taken up
  there by walking the same way again: from the checkpoint at the experience's start the hooks
  (``before_experience``, ``extra_data``, ``fit_experience``, ...) are called as the first time, so
  teachers, masks and caches come out as they were; where the training loop is entered, its saved
  state is put in place and it goes on at the next step. A plugin that trains more than once in an
  experience (PackNet) enters the loop again; the loops before are not run but replaced by the state
  saved at their end. So a plugin has to name in ``state`` what changes in steps and epochs, and
  nothing that it makes before.

What lies between the end of a loop and the next checkpoint (a Fisher estimate, pruning, the rest of
an evaluation) is computed again from restored generators, which gives the same bits.

A checkpoint is due by time or by steps. By time it also has to be cheap: what a save took, divided
by the time since the last one, stays below ``max_cost``. Where the start of an experience or the
end of a loop is not due it is copied in memory, and written only if a checkpoint that rests on it
is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from clframe.checkpoint import signals, snapshot
from clframe.utils.console import notice
from clframe.utils.settings import at_least

if TYPE_CHECKING:
    from clframe.checkpoint.store import Checkpoints, Point
    from clframe.core.learner import Learner
    from clframe.core.matrix import AccuracyMatrix
    from clframe.core.results import Timing
    from clframe.training.faults import Losses


@dataclass(frozen=True)
class CheckpointSettings:
    """How often a run is saved: the config group ``checkpoint``.

    Args:
        every_seconds: Save after so many seconds; None for never by time.
        every_n_steps: Save after so many optimiser steps, whatever it costs; None for never.
        max_cost: Save by time only if it takes at most this share of the time; 1 for always.
        keep: How many checkpoints to keep.
        signals: Besides SIGINT and SIGTERM, signals on which to save and leave (exit code 130).
    """

    every_seconds: float | None = 60.0
    every_n_steps: int | None = None
    max_cost: float = 0.01
    keep: int = 2
    signals: tuple[str, ...] = ("SIGUSR1",)

    def __post_init__(self) -> None:
        at_least(self.every_seconds, 0, "checkpoint.every_seconds")
        at_least(self.every_n_steps, 1, "checkpoint.every_n_steps")
        at_least(self.max_cost, 1e-6, "checkpoint.max_cost")
        at_least(self.keep, 1, "checkpoint.keep")
        signals.check(self.signals)


class Stopped(KeyboardInterrupt):
    """The run was asked to stop, has been saved and can be continued."""


@dataclass
class Place:
    """How far a call of the training loop has come.

    Args:
        total: Sum of the losses of the current epoch's steps.
        left: Steps left when the current epoch began; None for no limit.
        epochs: Epochs finished in this call.
        steps: Steps taken in the current epoch.
        seconds: Spent in the current epoch.
        done: Whether the call has come to its end.
        started: When the current epoch began, less what it took before the run was taken up.
        losses: Of the last steps, looked at when the run is saved.
    """

    total: Tensor
    left: int | None = None
    epochs: int = 0
    steps: int = 0
    seconds: float = 0.0
    done: bool = False
    started: float = 0.0
    losses: Losses | None = None


_SAVED = ("total", "left", "epochs", "steps", "seconds", "done")


class _Link:
    """The start of the current experience or the end of a loop: on disk, or copied in memory."""

    def __init__(self, number: int | None, state: Any = None, position: Any = None) -> None:
        self.number = number
        self.state = state
        self.position = position


class Keeper:
    """Decides when to save, and brings a saved run back.

    Without checkpoints (a run without a folder) it does nothing.

    Args:
        learner: Whose run it is.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.stop: str | None = None
        """The name of the signal that asked the run to stop."""
        self.taken_up = ""
        """Where a saved run was taken up, in words."""
        self._checkpoints: Checkpoints | None = None
        self._identity: dict[str, Any] = {}
        self._matrix: AccuracyMatrix
        self._timing: Timing
        self._settings = CheckpointSettings()
        self._every = math.inf
        self._steps = 0
        self._cost = 0.0
        self._last = -math.inf
        self._next = math.inf
        self._links: list[_Link] = []
        self._to_take_up: list[int] = []
        self._taken: dict[str, Any] | None = None
        self._evaluated: dict[str, dict[str, float]] = {}

    @property
    def timing(self) -> Timing:
        """Where the time of the run goes."""
        return self._timing

    def open(
        self,
        matrix: AccuracyMatrix,
        timing: Timing,
        checkpoints: Checkpoints | None = None,
        settings: CheckpointSettings | None = None,
        identity: dict[str, Any] | None = None,
    ) -> None:
        """Keep this run from now on.

        Args:
            matrix: Filled by the run.
            timing: Counted by the run.
            checkpoints: Where to save; None for nowhere (no folder, or not the rank that writes).
            settings: How often.
            identity: What the run is made of, put beside every checkpoint.
        """
        self._matrix, self._timing = matrix, timing
        self._checkpoints = checkpoints
        self._settings = settings or CheckpointSettings()
        self._identity = identity or {}
        every = self._settings.every_n_steps
        self._every = math.inf if every is None or checkpoints is None else every

    # ------------------------------------------------------------ taking up

    def take_up(self, point: Point) -> None:
        """Bring back the run as it was at a checkpoint."""
        learner = self.learner
        start = point.needs[0] if point.needs else point.number
        state = self._read(start)
        learner.seen = list(learner.stream.experiences[: state["experiences"]])
        learner.experience = learner.seen[-1] if learner.seen else None
        snapshot.put_back(state, learner, self._matrix, self._timing)
        if len(self._matrix.rows) > len(learner.seen):
            self._links = [_Link(start)]
        else:
            self._evaluated = state["evaluated"]
        self._to_take_up = [*point.needs[1:], point.number] if point.needs else []
        self.taken_up = describe(point.position)
        self._last = time.monotonic()
        self._plan()

    def _read(self, number: int) -> dict[str, Any]:
        """The state of a checkpoint; the rank that can read it hands it to the others."""
        engine, state = self.learner.engine, None
        if self._checkpoints is not None:
            state = self._checkpoints.read(number, engine.device)
        found: dict[str, Any] | None = engine.from_zero(state)
        assert found is not None
        return found

    # ------------------------------------------------------------ between experiences

    def begin_experience(self) -> None:
        """Make sure that checkpoints within the coming experience have a start to rest on."""
        if self._checkpoints is None or self._links:
            return
        self._link(self._between({}))

    def evaluated(self) -> dict[str, dict[str, float]]:
        """What an evaluation that was cut short had measured."""
        found, self._evaluated = self._evaluated, {}
        return found

    def after_task(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Between two tasks of an evaluation, with what has been measured so far."""
        if self._is_due():
            self._save(self._between(results), ())

    def end_experience(self) -> None:
        """An experience has been learned: what comes next no longer rests on its start."""
        self._links = []

    def finish(self) -> None:
        """Save the end of the run, whatever it costs."""
        if self._checkpoints is not None and not self._links:
            self._write(self._between({}), ())

    def _between(self, results: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
        learned = len(self.learner.seen)
        state = snapshot.take(self.learner, self._matrix, self._timing)
        state["experiences"] = learned
        state["evaluated"] = {
            task: {name: _number(value) for name, value in measures.items()}
            for task, measures in results.items()
        }
        state["position"] = {
            "experiences_learned": learned,
            "rows": len(self._matrix.rows),
            "tasks_evaluated": len(results),
        }
        return state

    # ------------------------------------------------------------ within the training loop

    def enter(self, place: Place) -> None:
        """The training loop begins; where a saved run was in it or past it, ``place`` says so."""
        if not self._to_take_up:
            return
        number = self._to_take_up.pop(0)
        state = self._read(number)
        for name, value in state["place"].items():
            setattr(place, name, value)
        self.learner.epoch = state["epoch"]
        if place.done:
            self._links.append(_Link(number))
            self._put_back(state)
        else:
            self._taken = state

    def catch_up(self) -> None:
        """The epoch in which the saved run was has been begun again: put its state in place."""
        if self._taken is not None:
            self._put_back(self._taken)
            self._taken = None

    def _put_back(self, state: dict[str, Any]) -> None:
        snapshot.put_back(state, self.learner, self._matrix, self._timing)
        self._last = time.monotonic()
        self._plan()

    def step(self, place: Place) -> None:
        """After every optimiser step: save if it is time to."""
        self._steps += 1
        if self._steps >= self._every or time.monotonic() >= self._next or self.stop is not None:
            self._save_within(place)

    def leave(self, place: Place) -> None:
        """The training loop has come to its end."""
        if self._checkpoints is None or place.done:
            return
        place.done = True
        self._link(self._within(place))

    def _save_within(self, place: Place) -> None:
        if self._checkpoints is None or not self._links:
            self._next = math.inf
            return
        if place.losses is not None:
            place.losses.check()
        place.seconds = time.perf_counter() - place.started
        self._save(self._within(place), self._links)

    def _within(self, place: Place) -> dict[str, Any]:
        learner = self.learner
        state = snapshot.take(learner, self._matrix, self._timing)
        state["place"] = {name: getattr(place, name) for name in _SAVED}
        state["position"] = {
            "experience": None if learner.experience is None else learner.experience.name,
            "loop": len(self._links) - 1,
            "epoch": learner.epoch,
            "step": place.steps,
            "done": place.done,
        }
        return state

    # ------------------------------------------------------------ saving

    def _is_due(self) -> bool:
        if self._checkpoints is None:
            return False
        return self._steps >= self._every or time.monotonic() >= self._next or self.stop is not None

    def _is_cheap(self) -> bool:
        """Whether saving now would keep within the cost that is allowed."""
        since = time.monotonic() - self._last
        return self._every is not math.inf or since >= self._pause()

    def _pause(self) -> float:
        """Seconds to go on after a save so that it stays cheap, even if the next takes twice."""
        return 2 * self._cost / self._settings.max_cost

    def _link(self, state: dict[str, Any]) -> None:
        """A start or an end that later checkpoints rest on: write it, or copy it for then."""
        if self._is_due() or self._is_cheap():
            self._links.append(_Link(self._save(state, self._links)))
        else:
            self._links.append(_Link(None, snapshot.copied(state)))

    def _save(self, state: dict[str, Any], links: Sequence[_Link]) -> int:
        """Write a checkpoint and, before it, those that it rests on; stop if that was asked for."""
        number = self._write(state, links)
        if self.stop is not None:
            notice(f"{self.stop}: saved {describe(state['position'])}")
            raise Stopped
        return number

    def _write(self, state: dict[str, Any], links: Sequence[_Link]) -> int:
        assert self._checkpoints is not None
        started = time.monotonic()
        needs: list[int] = []
        for link in links:
            if link.number is None:
                link.number = self._put(link.state, needs)
                link.state = None
            needs.append(link.number)
        number = self._put(state, needs)
        self._last = time.monotonic()
        self._cost, self._steps = self._last - started, 0
        self._plan()
        return number

    def _put(self, state: dict[str, Any], needs: list[int]) -> int:
        assert self._checkpoints is not None
        return self._checkpoints.write(state, state["position"], needs, self._identity)

    def _plan(self) -> None:
        """When the next checkpoint is due by time."""
        if self._settings.every_seconds is None or self._checkpoints is None:
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
