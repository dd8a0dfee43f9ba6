"""The learning rate of a run: a scheduler that follows the training loop and any optimizer.

Rules:

* ``span=experience``: every call of the training loop restarts the schedule, from the
  optimizer's own rate and over the call's own budget. A plugin that trains more than once in an
  experience (PackNet's retraining) has a schedule for each call.
* ``span=stream``: one schedule over all calls of the loop; each step counts, whoever trains.
* A new optimizer (``trainer.reset_optimizer``, ``engine.renew_optimizer``) in a running schedule
  takes over the rate of the old one, and its momentum if the schedule moves that.
* The schedule overrides a rate that a plugin sets before an epoch.
* A step that 16-mixed precision skips counts.

The plugins' own optimizers (a generator's) keep their rates.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from torch.optim.lr_scheduler import LRScheduler

from clframe.errors import PluginError, SettingError
from clframe.training.loop import samples_of_epoch
from clframe.training.optimizers import bare_optimizer
from clframe.training.schedulers import Scheduler, make_on
from clframe.utils.serialization import plain_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.optim import Optimizer

    from clframe.core.learner import Learner
    from clframe.core.trainer import Budget

_MOVED = (
    *("lr", "initial_lr", "max_lr", "min_lr"),
    *("momentum", "base_momentum", "max_momentum", "betas"),
)
"""Keys that schedulers set in an optimizer's groups."""


class Schedule:
    """Scheduler of one learner's learning rate, called by the loop.

    Args:
        learner: The learner.
        scheduler: The scheduler.
        record: Its name and settings, as in ``config.yaml``.
    """

    def __init__(self, learner: Learner, scheduler: Scheduler, record: Mapping[str, Any]) -> None:
        self.learner = learner
        self.spec = scheduler
        self.record = dict(record)
        self.follows_loss = scheduler.follows_loss
        self.lr = 0.0
        self.scheduler: LRScheduler | None = None
        self.optimizer: Optimizer | None = None
        """The optimizer that the schedule moves; a plugin may have replaced the learner's since."""
        self._own: list[dict[str, Any]] = []
        """The optimizer's own values, from before the schedule."""
        self._values: list[dict[str, Any]] = []
        """The values that the schedule has set."""
        self._saved: dict[str, Any] | None = None
        """The state of a schedule over the stream that was restored before its loop began."""

    # ------------------------------------------------------------ called by the loop

    def begin(self, n: int, budget: Budget) -> None:
        """Start the schedule, or continue it if it runs over the whole stream."""
        optimizer = self._follow()
        if self.scheduler is not None and self.spec.settings.span == "stream":
            self._hold()
            return
        for group, own in zip(optimizer.param_groups, self._own, strict=True):
            _put(group, own)
        name, length = self.record["name"], self._length(n, budget)
        self.scheduler = make_on(self.spec, name, optimizer, length)
        if self._saved is not None:
            _load(self.scheduler, self._saved)
            self._saved = None
            self._hold()
        else:
            self._values = [_moved(group) for group in optimizer.param_groups]

    def _length(self, n: int, budget: Budget) -> int:
        if self.spec.total_steps is not None or not self.spec.needs_length:
            return self.spec.total_steps or 0
        settings = self.spec.settings
        if settings.span == "experience":
            return loop_length(n, budget, settings.interval)
        whole = self.learner.engine.settings.budget
        return stream_length(whole, len(self.learner.stream), settings.interval) or 0

    def begin_epoch(self) -> None:
        """Replace any other rate with the schedule's."""
        self._follow()
        self._hold()

    def after_step(self) -> None:
        """Note the step's rate, and move it unless the schedule counts epochs."""
        assert self.optimizer is not None
        self.lr = self.optimizer.param_groups[0]["lr"]
        if self.spec.settings.interval == "step":
            self._move()

    def after_epoch(self, loss: float) -> None:
        """Move the rate if the schedule counts epochs."""
        if self.spec.settings.interval == "epoch":
            # All processes must make the same decision.
            self._move(self.learner.engine.broadcast(loss) if self.follows_loss else None)

    def _move(self, metric: float | None = None) -> None:
        optimizer, scheduler = self._follow(), cast(Any, self.scheduler)
        self._hold()
        quiet: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if scheduler.last_epoch <= 0:
            # PyTorch checks at the first step whether this optimizer object has taken one. It has
            # not if it is new, if its step was skipped, or if seeds are batched.
            quiet = warnings.catch_warnings(action="ignore", category=UserWarning)
        try:
            with quiet:
                scheduler.step() if metric is None else scheduler.step(metric)
        except (ValueError, ArithmeticError) as error:
            # OneCycleLR raises an error after its end, and a rate may overflow.
            raise SettingError(
                f"scheduler '{self.record['name']}': {str(error).splitlines()[0]}"
            ) from error
        self._values = [_moved(group) for group in optimizer.param_groups]

    def _follow(self) -> Optimizer:
        """Switch to the learner's optimizer, if a plugin has replaced it."""
        optimizer = bare_optimizer(self.learner)
        if optimizer is not self.optimizer:
            self.optimizer = optimizer
            self._own = [_moved(group) for group in optimizer.param_groups]
            if self.scheduler is not None:
                self.scheduler.optimizer = optimizer
        return optimizer

    def _hold(self) -> None:
        """Set the schedule's values in the optimizer."""
        assert self.optimizer is not None
        for group, values in zip(self.optimizer.param_groups, self._values, strict=True):
            group.update(values)

    # ------------------------------------------------------------ saved with the run

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule, and the optimizer's own values."""
        return {
            "record": self.record,
            "lr": self.lr,
            "own": plain_value(self._own),
            "values": plain_value(self._values),
            "scheduler": self._saved if self.scheduler is None else _state(self.scheduler),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the schedule; one with other settings (``resume.allow``) begins here."""
        self.optimizer = bare_optimizer(self.learner)
        if state["own"]:
            self._own = copy.deepcopy(state["own"])
        else:
            self._own = [_moved(group) for group in self.optimizer.param_groups]
        self.lr = state["lr"]
        if state["record"] != self.record or state["scheduler"] is None:
            return
        if self.scheduler is not None:
            _load(self.scheduler, state["scheduler"])
        else:
            # A schedule of one experience begins with the next loop; the stream's continues there.
            self._saved = state["scheduler"] if self.spec.settings.span == "stream" else None
        self._values = copy.deepcopy(state["values"])


def loop_length(n: int, budget: Budget, interval: str) -> int:
    """Return how many steps or epochs a call of the training loop takes on ``n`` samples.

    >>> from clframe.core.trainer import Budget
    >>> loop_length(100, Budget(epochs=3, batch_size=30), "step")
    12
    >>> loop_length(100, Budget(epochs=3, steps=5, batch_size=30), "epoch")
    2
    """
    if not n:
        return 0
    per_epoch = -(-samples_of_epoch(n, budget, None) // budget.batch_size)
    limits = [] if budget.steps is None else [budget.steps]
    limits += [] if budget.epochs is None else [budget.epochs * per_epoch]
    steps = min(limits, default=0)
    return steps if interval == "step" else -(-steps // per_epoch)


def stream_length(budget: Budget, n_experiences: int, interval: str) -> int | None:
    """Return a stream's steps or epochs, if the budget of an experience determines them."""
    limit, other = budget.steps, budget.epochs
    if interval == "epoch":
        limit, other = other, limit
    return None if limit is None or other is not None else limit * n_experiences


def _moved(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: group[key] for key in _MOVED if key in group}


def _put(group: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Set those values of a group that schedulers set, and no others."""
    for key in _MOVED:
        group.pop(key, None)
    group.update(values)


def _state(scheduler: LRScheduler) -> dict[str, Any]:
    """Return a scheduler's state without its functions, which are made with it again."""
    state = {}
    for key, value in scheduler.state_dict().items():
        with contextlib.suppress(PluginError):
            state[key] = plain_value(value)
    return state


def _load(scheduler: LRScheduler, saved: Mapping[str, Any]) -> None:
    state = copy.deepcopy(dict(saved))
    for key, value in vars(scheduler).items():
        if isinstance(value, Counter) and key in state:  # the milestones of MultiStepLR
            state[key] = Counter(state[key])
    scheduler.load_state_dict(state)
