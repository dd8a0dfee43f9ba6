"""Log values during a run with ``learner.log``, as in a LightningModule.

Values stay on the device and are read together (at the end of an epoch, before a checkpoint, every
few hundred values), so that logging in a step does not make the step wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from clframe.errors import PluginError, nearest
from clframe.recording.media import kind_of
from clframe.utils.serialization import plain_value

if TYPE_CHECKING:
    from clframe.core.engine import Engine
    from clframe.core.state import RunState

Value = Tensor | float
Sink = Callable[[dict[str, float], int], None]
MediaSink = Callable[[str, Any, str, int], None]
"""Takes a name, a kind, a caption and the step."""

_HELD = 256
"""Maximum number of values held before they are read."""
_REDUCTIONS = ("mean", "sum", "min", "max")
_OF_LIGHTNING = {
    "prog_bar": "the progress bar shows the loss alone",
    "enable_graph": "a logged value is detached from the loss",
    "sync_dist_group": "there is one group of processes",
    "metric_attribute": "log the number that metric.compute() gives",
}
"""Arguments of Lightning's that have no effect here, and why."""
_WITHOUT_EFFECT = ("add_dataloader_idx", "rank_zero_only")
"""Arguments of Lightning's that ask for the default behavior."""


class StepLog:
    """Logged values that have not been sent yet, each with its step."""

    def __init__(self) -> None:
        self.sink: Sink | None = None
        """Function that sends values; None drops them, because the run has no logger."""
        self.media_sink: MediaSink | None = None
        """Function that sends media; None drops them, because the run has no logger."""
        self.takes_media = False
        """Whether a logger accepts media, so that making them is worth the effort."""
        self._points: list[tuple[int, str, Value]] = []
        self._of_epoch: dict[str, dict[str, Any]] = {}

    def connect(self, sink: Sink, media_sink: MediaSink, takes_media: bool) -> None:
        """Send values and media to these functions from now on."""
        self.sink, self.media_sink, self.takes_media = sink, media_sink, takes_media

    def add(self, step: int, name: str, value: Value) -> None:
        """Hold a value of a training step until it is sent."""
        if self.sink is not None:
            # Only between two steps, because the values of one step form one row.
            if len(self._points) >= _HELD and self._points[-1][0] != step:
                self.flush()
            self._points.append((step, name, _own(value)))

    def send(self, step: int, name: str, value: Value) -> None:
        """Send a value that belongs to no training step."""
        if self.sink is not None:
            self.flush()
            self.sink({name: float(value)}, step)

    def add_to_epoch(self, name: str, value: Value, reduction: str, weight: float) -> None:
        """Add a value to the number of its epoch."""
        if self.sink is None:
            return
        before = self._of_epoch.get(name)
        if reduction == "mean" and not (weight == 1 and _is_float(value)):
            value = value * weight
        if before is None:
            own = {"value": _own(value), "weight": weight, "reduction": reduction}
            self._of_epoch[name] = own
            return
        if reduction not in ("mean", "sum"):
            before["value"] = _extreme(before["value"], value, reduction)
        elif _is_float(value) and _is_float(before["value"]):
            before["value"] += value  # In place; it is our own tensor.
        else:
            before["value"] = before["value"] + value
        before["weight"] += weight

    def flush(self) -> None:
        """Send the held values, one row per step."""
        points, self._points = self._points, []
        if not points or self.sink is None:
            return
        rows: dict[int, dict[str, float]] = {}
        for (step, name, _), number in zip(points, _read([p[2] for p in points]), strict=True):
            rows.setdefault(step, {})[name] = number
        for step, numbers in rows.items():
            self.sink(numbers, step)

    def end_epoch(self) -> dict[str, float]:
        """Return the numbers of the epoch that has ended."""
        numbers = {}
        for name, entry in self._of_epoch.items():
            divisor = entry["weight"] if entry["reduction"] == "mean" else 1
            numbers[name] = float(entry["value"]) / divisor
        self._of_epoch = {}
        return numbers

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch's numbers so far; everything else has been sent."""
        self.flush()
        return {
            name: plain_value({**entry, "value": _own(entry["value"])})
            for name, entry in self._of_epoch.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the epoch's numbers so far."""
        self._points = []
        self._of_epoch = {name: dict(entry) for name, entry in state.items()}


def _read(values: list[Value]) -> list[float]:
    """Return the numbers of values, with one read per kind of tensor."""
    numbers: list[Any] = list(values)
    kinds: dict[Any, list[int]] = {}
    for index, value in enumerate(values):
        if isinstance(value, Tensor):
            kinds.setdefault((value.device, value.dtype), []).append(index)
    for indices in kinds.values():
        read = torch.stack([numbers[index] for index in indices]).tolist()
        for index, number in zip(indices, read, strict=True):
            numbers[index] = number
    return [float(number) for number in numbers]


def _own(value: Value) -> Value:
    """Return a copy of a value that nobody changes later."""
    return value.clone() if isinstance(value, Tensor) else value


def _is_float(value: Value) -> bool:
    """Return whether a sum of such values has the same type."""
    return not isinstance(value, Tensor) or value.dtype == torch.float32


def _extreme(first: Value, second: Value, reduction: str) -> Value:
    """Return the lower or the higher of two values, on any device."""
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        pair = torch.as_tensor(first), torch.as_tensor(second)
        return torch.minimum(*pair) if reduction == "min" else torch.maximum(*pair)
    return min(first, second) if reduction == "min" else max(first, second)


class Logs(Protocol):
    """A learner, as far as logging is concerned."""

    step_log: StepLog
    state: RunState
    engine: Engine

    @property
    def global_step(self) -> int:
        """Number of optimizer steps so far."""


def log(learner: Logs, name: str, value: Any, arguments: Mapping[str, Any]) -> None:
    """Log a value for ``learner.log``; ``arguments`` are the passed arguments of Lightning's."""
    options = _check(learner, name, arguments)
    number = _single(name, value)
    step_log, state = learner.step_log, learner.state
    if state.loop is None:
        if state.checkpointer.replaying:
            return  # It was logged before the run was interrupted.
        step_log.send(state.global_steps, name, number)
        return
    on_step, on_epoch = options["on_step"], options["on_epoch"]
    step = learner.global_step + 1
    every = learner.engine.logging.log_every_n_steps or 1
    if on_step and step % every == 0:
        step_log.add(step, f"{name}_step" if on_epoch else name, number)
    if on_epoch:
        weight = options["batch_size"]
        of_epoch = f"{name}_epoch" if on_step else name
        step_log.add_to_epoch(of_epoch, number, options["reduce_fx"], weight)


def log_media(learner: Logs, name: str, value: Any, caption: str) -> None:
    """Log a medium for ``learner.log_media``."""
    kind_of(name, value)  # Refuse other values even if nothing would be sent.
    step_log, state = learner.step_log, learner.state
    if step_log.media_sink is None or (state.loop is None and state.checkpointer.replaying):
        return
    step_log.flush()  # so that steps come in their order
    step = state.global_steps if state.loop is None else learner.global_step + 1
    step_log.media_sink(name, value, caption, step)


def _check(learner: Logs, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse unsupported arguments; return the remaining options."""
    whole = f"learner.log('{name}', ...)"
    options = {"on_step": True, "on_epoch": False, "reduce_fx": "mean", "batch_size": 1}
    if arguments.keys() <= {"on_step", "on_epoch"} and any(arguments.values()):
        return {
            **options,
            **{name: value for name, value in arguments.items() if value is not None},
        }
    names = (*options, *_OF_LIGHTNING, *_WITHOUT_EFFECT, "logger", "sync_dist")
    for argument, value in arguments.items():
        if argument not in names:
            raise PluginError(f"{whole} has no argument '{argument}'; {nearest(argument, names)}")
        if argument in _OF_LIGHTNING and value:
            why = _OF_LIGHTNING[argument]
            raise PluginError(
                f"{whole}: {argument}={value!r} is not supported: {why}; leave it out"
            )
        if argument in options and value is not None:
            options[argument] = value
    if arguments.get("logger") is False:
        raise PluginError(f"{whole}: logger=False has nowhere to log to; leave the call out")
    if arguments.get("sync_dist") and learner.engine.world_size > 1:
        raise PluginError(
            f"{whole}: sync_dist=True is not supported, because only the main process logs: add "
            "the value up with learner.engine.sum first"
        )
    if options["reduce_fx"] not in _REDUCTIONS:
        raise PluginError(
            f"{whole}: reduce_fx={options['reduce_fx']!r} must be one of {', '.join(_REDUCTIONS)}"
        )
    if not (options["on_step"] or options["on_epoch"]):
        raise PluginError(f"{whole}: on_step=False and on_epoch=False leave nothing to log")
    return options


def _single(name: str, value: Any) -> Value:
    """Return one number, as a tensor (which its owner may change later) or a float."""
    if isinstance(value, Tensor) and value.numel() == 1:
        number = value.detach()
        return number if number.dim() == 0 else number.reshape(())
    if isinstance(value, bool | int | float):
        return float(value)
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        return float(value.item())
    shape = getattr(value, "shape", None)
    got = f"a {type(value).__name__}" + ("" if shape is None else f" of shape {tuple(shape)}")
    hint = "use log_dict" if isinstance(value, Mapping) else "log a mean, or its parts by name"
    raise PluginError(f"learner.log('{name}', ...) takes one number, got {got}: {hint}")
