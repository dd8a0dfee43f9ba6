"""Demonstrations without the attempts that were given up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from clframe.robot.demonstrations import Demonstration


def without_retries(demos: Iterable[Demonstration]) -> list[Demonstration]:
    """Remove the steps of attempts that were given up.

    A demonstration then splits into pieces, so that no window spans a gap.
    """
    return [piece for demo in demos for piece in _pieces(demo)]


def _pieces(demo: Demonstration) -> list[Demonstration]:
    if demo.retries is None or not demo.retries.any():
        return [demo]
    kept = np.concatenate([[0], ~demo.retries, [0]]).astype(np.int8)
    starts, ends = np.flatnonzero(np.diff(kept) == 1), np.flatnonzero(np.diff(kept) == -1)
    return [_cut(demo, slice(a, b)) for a, b in zip(starts, ends, strict=True)]


def _cut(demo: Demonstration, steps: slice) -> Demonstration:
    """Return some steps of a demonstration; its seed can no longer replay it."""
    changes: dict[str, Any] = {
        field.name: value[steps]
        for field in fields(demo)
        if isinstance(value := getattr(demo, field.name), np.ndarray) and len(value)
    }
    observations = {name: values[steps] for name, values in demo.observations.items()}
    return replace(demo, observations=observations, seed=None, **changes)
