"""What a strategy costs: the bytes it keeps and the operations of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from clframe.core.plugin import Plugin
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Result

_BUILT_IN = "clframe.plugins.builtin"
_DEEP = 12
"""Objects within objects that are looked into."""


class Cost(Plugin):
    """Measures the bytes that the strategy's plugins keep and the operations of training steps.

    * ``state_bytes``: tensors and arrays in the plugins' saved state, after each experience. That
      is what must be kept between experiences: buffers, importance, sums.
    * ``held_bytes``: all tensors, arrays and modules that the plugins hold, each once: teachers,
      masks, random projections and caches too; the most of it at the ends of the experience's
      epochs and at its own end. The learner's own model is not counted.
    * ``train_flops``: operations (a product and a sum are two) of matrix products, convolutions and
      attention in the steps of the training loop, forward and backward, with what plugins add to a
      step. torch counts them (``torch.utils.flop_counter``) in the steps 1, 2, 4, 8, ... of each
      experience, and each stands for the steps up to the next. Not counted: elementwise work, the
      optimizer, evaluation, and what is done outside of steps (a Fisher estimate, herding, a pass
      over the data of a method without steps); an experience in which nothing is counted has None.
    """

    name = "cost"
    paper = "Lomonaco & Maltoni, CORe50, 2017; torch.utils.flop_counter"
    only_measures = True
    supports_distributed = False
    state: ClassVar[tuple[str, ...]] = ("values", "flops", "per_step", "steps", "held")

    def __init__(self) -> None:
        self.values: dict[str, list[int | None]] = {
            "state_bytes": [],
            "held_bytes": [],
            "train_flops": [],
        }
        self.flops = 0
        """Of the current experience's steps so far."""
        self.per_step = 0
        self.steps = 0
        self.held = 0
        """Bytes, the most seen in the current experience."""
        self._counter: FlopCounterMode | None = None
        self._counted = 0

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Refuse what torch cannot count."""
        for name in ("compile", "cuda_graphs"):
            if getattr(learner.engine.settings, name):
                raise PluginError(
                    f"plugin 'cost' counts operations one by one, which trainer.{name}=true hides: "
                    f"measure a short run without it"
                )

    @hookimpl
    def before_experience(self) -> None:
        """Begin to count."""
        self.flops = self.per_step = self.steps = self.held = 0

    @hookimpl(tryfirst=True)
    def extra_batches(self) -> None:
        """Here a step begins: look at it, if it is one to be looked at."""
        following = self.steps + 1
        if following & (following - 1) == 0:
            self._counter = FlopCounterMode(display=False)
            self._counter.__enter__()

    @hookimpl
    def after_step(self) -> None:
        """Count the step."""
        if self._counter is not None:
            self._stop()
            self.per_step = self._counted
        self.steps += 1
        self.flops += self.per_step

    @hookimpl(tryfirst=True)
    def teardown(self) -> None:
        """A run that ends within a step leaves no counter behind."""
        self._stop()

    def _stop(self) -> None:
        if self._counter is not None:
            self._counter.__exit__(None, None, None)
            self._counted = self._counter.get_total_flops()
            self._counter = None

    @hookimpl(trylast=True)
    def after_epoch(self, learner: Learner) -> None:
        """Look at what the plugins hold while they learn."""
        self.held = max(self.held, _size(learner, [vars(plugin) for plugin in _counted(learner)]))

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        """Look at what the plugins hold now, and what they would save."""
        states = [plugin.state_dict() for plugin in _counted(learner)]
        held = _size(learner, [vars(plugin) for plugin in _counted(learner)])
        found = {
            "state_bytes": _size(learner, states),
            "held_bytes": max(self.held, held),
            "train_flops": self.flops if self.per_step else None,
        }
        for name, value in found.items():
            self.values[name].append(value)
            if value is not None:
                learner.log(f"{self.name}/{name}", value)

    @hookimpl
    def metrics(self, result: Result) -> None:
        """Hand over the values of each experience."""
        result.measured[self.name] = {"values": self.values}


def _counted(learner: Learner) -> list[Plugin]:
    """The strategy's plugins, without what every run has and what only measures."""
    return [
        plugin
        for plugin in learner.plugins.ordered
        if not type(plugin).__module__.startswith(_BUILT_IN) and not plugin.only_measures
    ]


def _size(learner: Learner, value: Any) -> int:
    """Bytes in a value that are not the learner's own."""
    return size_of(value, {_key(t) for t in (*learner.parameters(), *learner.buffers())})


def size_of(value: Any, known: set[tuple[Any, ...]]) -> int:
    """Bytes of all tensors and arrays in a value, each once.

    >>> one = torch.zeros(10)
    >>> size_of({"a": one, "b": [one, torch.zeros(2, dtype=torch.long)]}, set())
    56

    Args:
        value: Anything; what is in its attributes, entries and modules counts.
        known: Tensors that do not count; those found are added.
    """
    total = 0
    for tensor in _tensors(value, set(), _DEEP):
        key = _key(tensor)
        if key not in known:
            known.add(key)
            total += tensor.nbytes
    return total


def _key(tensor: Tensor | np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Tells tensors in memory apart; views of one part count as one."""
    if isinstance(tensor, np.ndarray):
        return (tensor.ctypes.data, tensor.nbytes)
    return (str(tensor.device), tensor.data_ptr() or id(tensor), tensor.nbytes)


def _tensors(value: Any, visited: set[int], depth: int) -> Iterator[Tensor | np.ndarray[Any, Any]]:
    """Every tensor and array that can be reached from a value without leaving plain objects."""
    if isinstance(value, Tensor | np.ndarray):
        yield value
        return
    if depth == 0 or id(value) in visited or value is None:
        return
    is_code = callable(value) and not isinstance(value, nn.Module)
    if is_code or isinstance(value, str | bytes | int | float):
        return
    visited.add(id(value))
    if isinstance(value, nn.Module):
        inside: list[Any] = [*value.parameters(), *value.buffers()]
    elif isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, list | tuple | set):
        inside = list(value)
    elif isinstance(value, torch.optim.Optimizer):
        inside = [value.state]
    else:
        inside = list(vars(value).values()) if hasattr(value, "__dict__") else []
    for item in inside:
        yield from _tensors(item, visited, depth - 1)
