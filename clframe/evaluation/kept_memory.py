"""Measure what a strategy keeps of the past, in samples and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from clframe.data.buffer import Buffer
from clframe.data.inputs import tensors_of

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.plugin import Plugin
    from clframe.data.dataset import Data

_BUILT_IN = "clframe.plugins.builtin"
_DEEP = 12
"""Largest depth of nested objects to search."""


def methods_of(learner: Learner) -> list[Plugin]:
    """Return the strategy's plugins, without built-in ones and evaluators."""
    return [
        plugin
        for plugin in learner.plugins.ordered
        if not type(plugin).__module__.startswith(_BUILT_IN) and not plugin.capabilities.evaluator
    ]


def kept_memory(learner: Learner) -> dict[str, int]:
    """Return the samples and bytes that a run's strategy keeps between experiences.

    Bytes count the tensors in the plugins' saved state: buffers, importances, sums. A method that
    revisits the data of earlier experiences keeps all of it (``Plugin.revisited_data``). The result
    is empty if several processes share the memory.
    """
    if learner.engine.world_size > 1:
        return {}
    samples = size = 0
    for plugin in methods_of(learner):
        past = plugin.revisited_data(learner.stream, learner.seen)
        samples += _samples_in(vars(plugin), set(), _DEEP) + sum(len(data) for data in past)
        size += size_of(learner, plugin.state_dict()) + _data_bytes(past)
    return {"samples": samples, "bytes": size}


def _samples_in(value: Any, visited: set[int], depth: int) -> int:
    """Count the samples of all buffers reachable from a value."""
    if isinstance(value, Buffer):
        counted = id(value) in visited
        visited.add(id(value))
        return 0 if counted else len(value)
    return sum(_samples_in(item, visited, depth - 1) for item in _inside(value, visited, depth))


def _data_bytes(parts: Iterable[Data]) -> int:
    """Return the bytes of stored data, from the size of one sample."""
    total = 0
    for data in parts:
        if len(data) and data.repeatable:  # otherwise samples are created on request
            sample = tensors_of(data.gather(torch.tensor([0], device=data.labels.device)))
            total += len(data) * (sum(tensor.nbytes for tensor in sample) + 8)
    return total


def size_of(learner: Learner, value: Any) -> int:
    """Return the bytes in a value that are not the learner's own."""
    return bytes_in(value, {_key(t) for t in (*learner.parameters(), *learner.buffers())})


def bytes_in(value: Any, known: set[tuple[Any, ...]]) -> int:
    """Return the bytes of all tensors and arrays in a value, each counted once.

    >>> one = torch.zeros(10)
    >>> bytes_in({"a": one, "b": [one, torch.zeros(2, dtype=torch.long)]}, set())
    56

    Args:
        value: Any object; its attributes, entries and modules count.
        known: Tensors that do not count; new ones are added.
    """
    total = 0
    for tensor in _tensors(value, set(), _DEEP):
        key = _key(tensor)
        if key not in known:
            known.add(key)
            total += tensor.nbytes
    return total


def _key(tensor: Tensor | np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return a key that identifies a tensor in memory; views of one part count as one."""
    if isinstance(tensor, np.ndarray):
        return (tensor.ctypes.data, tensor.nbytes)
    return (str(tensor.device), tensor.data_ptr() or id(tensor), tensor.nbytes)


def _tensors(value: Any, visited: set[int], depth: int) -> Iterator[Tensor | np.ndarray[Any, Any]]:
    """Yield every tensor and array reachable from a value through plain objects."""
    if isinstance(value, Tensor | np.ndarray):
        yield value
        return
    for item in _inside(value, visited, depth):
        yield from _tensors(item, visited, depth - 1)


def _inside(value: Any, visited: set[int], depth: int) -> list[Any]:
    """Return an object's attributes, entries or modules at the first visit."""
    if depth == 0 or id(value) in visited or value is None:
        return []
    is_code = callable(value) and not isinstance(value, nn.Module)
    if is_code or isinstance(value, str | bytes | int | float | Tensor | np.ndarray):
        return []
    visited.add(id(value))
    if isinstance(value, nn.Module):
        return [*value.parameters(), *value.buffers()]
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, torch.optim.Optimizer):
        return [value.state]
    return list(vars(value).values()) if hasattr(value, "__dict__") else []
