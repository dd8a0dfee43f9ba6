"""The functions of a worker process that steps environments; they do not import torch."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clframe.rl.environment import CheckedEnvironment, Moment

Make: TypeAlias = "Callable[[], CheckedEnvironment]"
Key: TypeAlias = "tuple[int, int, int]"
"""Owner, number and task of an environment."""

_kept: collections.OrderedDict[Key, CheckedEnvironment] = collections.OrderedDict()


def begin(
    key: Key, make: Make, most: int, seed: int, actions: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Begin an episode and do these actions in it; return all states."""
    if key not in _kept:
        while len(_kept) >= most:
            _kept.popitem(last=False)[1].close()
        _kept[key] = make()
    _kept.move_to_end(key)
    environment = _kept[key]
    return np.stack([environment.reset(seed), *(environment.step(a).state for a in actions)])


def step(key: Key, action: NDArray[np.float32]) -> Moment:
    """Do one action."""
    _kept.move_to_end(key)
    return _kept[key].step(action)


def forget(owner: int) -> None:
    """Close an owner's environments in this process."""
    for key in [key for key in _kept if key[0] == owner]:
        _kept.pop(key).close()
