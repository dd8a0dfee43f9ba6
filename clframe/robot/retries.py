"""Demonstrations without the attempts that were given up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from clframe.robot.demonstrations import Demonstration


def without_retries(demos: Iterable[Demonstration]) -> list[Demonstration]:
    """The same demonstrations without the steps of attempts that were given up.

    What is left falls into pieces, since no window of observations may reach across a gap.
    """
    return [piece for demo in demos for piece in _pieces(demo)]


def _pieces(demo: Demonstration) -> list[Demonstration]:
    if demo.retries is None or not demo.retries.any():
        return [demo]
    kept = np.concatenate([[0], ~demo.retries, [0]]).astype(np.int8)
    starts, ends = np.flatnonzero(np.diff(kept) == 1), np.flatnonzero(np.diff(kept) == -1)
    return [_cut(demo, slice(a, b)) for a, b in zip(starts, ends, strict=True)]


def _cut(demo: Demonstration, steps: slice) -> Demonstration:
    """Some steps of a demonstration; it can no longer be started again by its seed."""
    changes: dict[str, Any] = {
        field.name: value[steps]
        for field in fields(demo)
        if isinstance(value := getattr(demo, field.name), np.ndarray) and len(value)
    }
    seen = {name: values[steps] for name, values in demo.observations.items()}
    return replace(demo, observations=seen, seed=None, **changes)
