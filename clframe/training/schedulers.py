"""Learning-rate schedules by name: four of clframe's, and those of ``torch.optim.lr_scheduler``.

clframe's schedules have a length T, that of an experience's budget or of the whole stream. Below, t
is the number of steps (``interval=step``) or epochs (``interval=epoch``) so far and lr the
optimizer's own rate. The last step is taken with t = T - 1. If training lasts longer than T, the
rate stays at its final value.

PyTorch's schedules have PyTorch's own arguments and ignore the budget. They count epochs unless set
otherwise, as in PyTorch's documentation, except ``OneCycleLR`` and ``CyclicLR``, which count
steps. Schedulers that take functions or other schedulers (``LambdaLR``, ``SequentialLR``) are not
available, because a config holds plain values: register your own scheduler instead.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import torch
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry

Rate = Callable[[int, float], float]
"""Maps t and the optimizer's own rate to the rate."""


@dataclass(frozen=True)
class ScheduleSettings:
    """The settings that all schedules share.

    Args:
        interval: Whether the rate changes with every ``step`` or with every ``epoch``.
        span: Whether the schedule starts again with each ``experience``, or runs once over the
            whole ``stream``.
    """

    interval: Literal["step", "epoch"] = "step"
    span: Literal["experience", "stream"] = "experience"


PER_STEP, PER_EPOCH = ScheduleSettings("step"), ScheduleSettings("epoch")


@dataclass(frozen=True)
class Scheduler:
    """Result of a registered scheduler's factory: how to make it, and when it moves.

    Args:
        make: Makes it from an optimizer and its length (0 if it needs none).
        settings: When it moves and when it starts again.
        needs_length: Whether its length must be known.
        total_steps: Length given by the user, in units of ``settings.interval``.
        follows_loss: Whether it uses the mean loss of an epoch; set by :func:`check`.
    """

    make: Callable[[Optimizer, int], LRScheduler]
    settings: ScheduleSettings
    needs_length: bool = False
    total_steps: int | None = None
    follows_loss: bool = False


class Curve(LRScheduler):
    """The rate as a function of t, computed directly each time, so that no rounding adds up.

    Args:
        optimizer: The optimizer.
        rate: The function.
    """

    def __init__(self, optimizer: Optimizer, rate: Rate) -> None:
        self._rate = rate
        super().__init__(optimizer)

    def get_lr(self) -> list[Any]:
        """Return the rate of each group."""
        return [self._rate(self.last_epoch, float(base)) for base in self.base_lrs]


def none() -> None:
    """A constant learning rate."""


def cosine(
    min_lr: float = 0.0, total_steps: int | None = None, schedule: ScheduleSettings = PER_STEP
) -> Scheduler:
    """Half a cosine from the optimizer's rate down to min_lr (Loshchilov & Hutter, 2017).

    ``rate(t) = min_lr + (lr - min_lr) (1 + cos(pi t / T)) / 2``

    Args:
        min_lr: Final rate.
        total_steps: T, in steps or epochs; None takes it from the budget (for a stream only if
            ``max_steps``, or ``max_epochs`` with ``interval=epoch``, determines it).
        schedule: When it moves.
    """
    at_least(min_lr, 0, "scheduler.min_lr")

    def make(optimizer: Optimizer, length: int) -> LRScheduler:
        return Curve(optimizer, lambda t, lr: _cosine(min(t / length, 1.0), lr, min_lr))

    return _of_length(make, schedule, total_steps)


def linear(
    min_lr: float = 0.0, total_steps: int | None = None, schedule: ScheduleSettings = PER_STEP
) -> Scheduler:
    """A straight line from the optimizer's rate down to min_lr.

    ``rate(t) = lr + (min_lr - lr) t / T``

    Args:
        min_lr: Final rate.
        total_steps: T, in steps or epochs; None takes it from the budget (for a stream only if
            ``max_steps``, or ``max_epochs`` with ``interval=epoch``, determines it).
        schedule: When it moves.
    """
    at_least(min_lr, 0, "scheduler.min_lr")

    def make(optimizer: Optimizer, length: int) -> LRScheduler:
        return Curve(optimizer, lambda t, lr: lr + (min_lr - lr) * min(t / length, 1.0))

    return _of_length(make, schedule, total_steps)


def step(
    gamma: float = 0.1,
    step_size: int | None = None,
    total_steps: int | None = None,
    schedule: ScheduleSettings = PER_STEP,
) -> Scheduler:
    """A staircase: the rate is repeatedly multiplied by gamma.

    ``rate(t) = lr gamma^floor(t / step_size)``

    Args:
        gamma: The factor.
        step_size: Steps or epochs between two drops; None drops after one and two thirds of T:
            ``rate(t) = lr gamma^floor(3 t / T)``.
        total_steps: T, in steps or epochs; None takes it from the budget (for a stream only if
            ``max_steps``, or ``max_epochs`` with ``interval=epoch``, determines it).
        schedule: When it moves.
    """
    at_least(gamma, 0, "scheduler.gamma")
    at_least(step_size, 1, "scheduler.step_size")

    def make(optimizer: Optimizer, length: int) -> LRScheduler:
        if step_size is not None:
            return Curve(optimizer, lambda t, lr: lr * _power(gamma, t // step_size))
        return Curve(optimizer, lambda t, lr: lr * _power(gamma, 3 * min(t, length - 1) // length))

    if step_size is not None:
        return Scheduler(make, schedule)
    return _of_length(make, schedule, total_steps)


def warmup_cosine(
    warmup_steps: int | None = None,
    min_lr: float = 0.0,
    total_steps: int | None = None,
    schedule: ScheduleSettings = PER_STEP,
) -> Scheduler:
    """A straight line up to the optimizer's rate, then half a cosine down to min_lr.

    With W = warmup_steps: ``rate(t) = lr (t + 1) / (W + 1)`` for t < W, then
    ``rate(t) = min_lr + (lr - min_lr) (1 + cos(pi (t - W) / (T - W))) / 2``.

    Args:
        warmup_steps: W, in steps or epochs; None is a tenth of T, rounded down.
        min_lr: Final rate.
        total_steps: T, in steps or epochs; None takes it from the budget (for a stream only if
            ``max_steps``, or ``max_epochs`` with ``interval=epoch``, determines it).
        schedule: When it moves.
    """
    at_least(min_lr, 0, "scheduler.min_lr")
    at_least(warmup_steps, 0, "scheduler.warmup_steps")

    def make(optimizer: Optimizer, length: int) -> LRScheduler:
        rising = length // 10 if warmup_steps is None else warmup_steps
        falling = max(length - rising, 1)

        def rate(t: int, lr: float) -> float:
            if t < rising:
                return lr * (t + 1) / (rising + 1)
            return _cosine(min((t - rising) / falling, 1.0), lr, min_lr)

        return Curve(optimizer, rate)

    return _of_length(make, schedule, total_steps)


def _power(gamma: float, exponent: int) -> float:
    """Return a power, infinite where Python raises OverflowError."""
    try:
        return gamma**exponent
    except OverflowError:
        return math.inf


def _cosine(fraction: float, lr: float, min_lr: float) -> float:
    """Return the rate after a fraction of the way."""
    return min_lr + (lr - min_lr) * (1 + math.cos(math.pi * fraction)) / 2


def _of_length(
    make: Callable[[Optimizer, int], LRScheduler], schedule: ScheduleSettings, total: int | None
) -> Scheduler:
    at_least(total, 1, "scheduler.total_steps")
    return Scheduler(make, schedule, needs_length=True, total_steps=total)


# ---------------------------------------------------------------- PyTorch's own

_CALLED_PER_STEP = (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)
_NOT_PLAIN = {"lr_lambda", "schedulers"}
"""Required parameters that no config can hold."""
_LEFT_OUT = {"self", "optimizer", "last_epoch", "verbose", "scale_fn"}
"""Parameters that are not settings: set by core, deprecated, or functions."""


def torch_schedulers() -> dict[str, type[LRScheduler]]:
    """Return the classes of ``torch.optim.lr_scheduler`` that plain values can make."""
    classes = {name: getattr(lr_scheduler, name) for name in lr_scheduler.__all__}
    return {
        name: kind
        for name, kind in classes.items()
        if kind is not LRScheduler and not _NOT_PLAIN & set(inspect.signature(kind).parameters)
    }


def torch_factory(kind: type[LRScheduler]) -> Callable[..., Scheduler]:
    """Return a factory whose settings are a class's own and those that all schedules share."""
    shared = PER_STEP if issubclass(kind, _CALLED_PER_STEP) else PER_EPOCH

    def factory(schedule: ScheduleSettings = shared, **values: Any) -> Scheduler:
        return Scheduler(lambda optimizer, length: kind(optimizer, **values), schedule)

    parameters = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=_annotation(parameter))
        for name, parameter in inspect.signature(kind).parameters.items()
        if name not in _LEFT_OUT
    ]
    last = (
        inspect.signature(factory)
        .parameters["schedule"]
        .replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=ScheduleSettings)
    )
    factory.__signature__ = inspect.Signature([*parameters, last])  # type: ignore[attr-defined]
    factory.__annotations__ = {entry.name: entry.annotation for entry in [*parameters, last]}
    return factory


def _annotation(parameter: inspect.Parameter) -> Any:
    """Return a parameter's type; PyTorch's module has some names only for type checking."""
    if not isinstance(parameter.annotation, str):
        return Any if parameter.annotation is parameter.empty else parameter.annotation
    names = {**vars(typing), **vars(lr_scheduler), "Iterable": list, "Sequence": list}
    try:
        return eval(parameter.annotation, names)
    except (NameError, TypeError, SyntaxError):
        return Any


# ---------------------------------------------------------------- checks before a run


def check(
    scheduler: Scheduler, name: str, make_optimizer: Callable[..., Optimizer], length: int | None
) -> Scheduler:
    """Make the scheduler once, for a dummy parameter, to find mistakes at the start.

    Args:
        scheduler: The scheduler.
        name: Its name, for the message.
        make_optimizer: Makes the run's optimizer.
        length: Length of the whole stream, if the budget determines it.

    Raises:
        SettingError: It cannot be made, or not with this interval, span or optimizer.
    """
    shared = scheduler.settings
    if shared.span == "stream" and scheduler.needs_length and not (scheduler.total_steps or length):
        alternative = "" if shared.interval == "epoch" else ", or scheduler.interval=epoch"
        raise SettingError(
            f"scheduler '{name}' with span=stream needs the length of the whole stream, which "
            "this budget does not determine before all data is loaded: set "
            f"scheduler.total_steps (in {shared.interval}s){alternative}"
        )
    optimizer = make_optimizer([torch.nn.Parameter(torch.zeros(1))])
    made = make_on(scheduler, name, optimizer, length or 1)
    _rehearse(made, name)
    follows_loss = _follows_loss(made)
    if follows_loss and shared.interval != "epoch":
        raise SettingError(
            f"scheduler '{name}' uses the mean loss of an epoch: set scheduler.interval=epoch"
        )
    return dataclasses.replace(scheduler, follows_loss=follows_loss)


def _rehearse(scheduler: LRScheduler, name: str) -> None:
    """Move it a few times, because PyTorch rejects a period of 0 only then."""
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            for _ in range(3):
                scheduler.step(0.0) if _follows_loss(scheduler) else scheduler.step()
    except ValueError:
        return  # OneCycleLR is at its end, which the run may not reach
    except (TypeError, ArithmeticError, LookupError) as error:
        raise SettingError(
            f"scheduler '{name}' cannot move the rate with these settings: {error}"
        ) from error


def _follows_loss(scheduler: LRScheduler) -> TypeGuard[lr_scheduler.ReduceLROnPlateau]:
    return isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)


def make_on(scheduler: Scheduler, name: str, optimizer: Optimizer, length: int) -> LRScheduler:
    """Make the scheduler for an optimizer.

    Raises:
        SettingError: PyTorch rejects its arguments.
    """
    try:
        return scheduler.make(optimizer, max(length, 1))
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise SettingError(f"scheduler '{name}': {str(error).splitlines()[0]}") from error


@hookimpl
def register(registry: Registry) -> None:
    """Register the schedulers."""
    for factory in (none, cosine, linear, step, warmup_cosine):
        registry.add("scheduler", factory.__name__, factory)
    for name, kind in torch_schedulers().items():
        line = (inspect.getdoc(kind) or "").split("\n")[0]
        registry.add("scheduler", name, torch_factory(kind), f"torch's {name}: {line}")
