"""Observations of any space as one row of numbers.

Light on purpose: worker processes import it and have no use for torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]


class Flattening(NamedTuple):
    """How observations of a space become rows."""

    size: int
    """Numbers of a row."""
    flatten: Callable[[Any], Row]
    left_out: tuple[str, ...]
    """Parts that are no numbers, such as texts."""


def flattening_of(space: Any) -> Flattening:
    """How observations of a space become rows.

    A box is its numbers, a choice its one-hot code, several choices a code each; the parts of a
    dictionary or tuple follow each other in the space's own order. Parts that are none of these
    (texts, MiniGrid's missions, graphs) are left out.

    >>> from gymnasium import spaces
    >>> both = spaces.Dict({"a": spaces.Discrete(3, start=1), "b": spaces.Box(0, 9, (2, 1))})
    >>> made = flattening_of(both)
    >>> made.size, made.flatten({"a": 3, "b": np.array([[4.0], [5.0]])})
    (5, array([0., 0., 1., 4., 5.], dtype=float32))
    """
    parts: list[tuple[int, Callable[[Any], Row]]] = []
    left_out: list[str] = []
    _collect(space, "", lambda seen: seen, parts, left_out)

    def flatten(seen: Any) -> Row:
        return np.concatenate([part(seen) for _, part in parts])

    return Flattening(sum(size for size, _ in parts), flatten, tuple(left_out))


def _collect(
    space: Any,
    name: str,
    get: Callable[[Any], Any],
    parts: list[tuple[int, Callable[[Any], Row]]],
    left_out: list[str],
) -> None:
    """Add the parts of a space, each with the function that takes it from an observation."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner: Any = space.spaces
        for key in inner if isinstance(space, spaces.Dict) else range(len(inner)):
            below = f"{name}.{key}" if name else str(key)
            _collect(
                inner[key],
                below,
                lambda seen, get=get, key=key: get(seen)[key],  # type: ignore[misc]
                parts,
                left_out,
            )
    elif isinstance(space, spaces.Discrete):
        codes, start = np.eye(int(space.n), dtype=np.float32), int(space.start)
        parts.append((len(codes), lambda seen: codes[int(get(seen)) - start]))
    elif isinstance(space, spaces.MultiDiscrete):
        first = np.asarray(space.start).ravel()
        # Each choice has its own numbers, one after the other.
        widths = np.asarray(space.nvec).ravel()
        ends = np.concatenate([[0], np.cumsum(widths)]).astype(int)

        def several(seen: Any) -> Row:
            row = np.zeros(ends[-1], np.float32)
            row[ends[:-1] + np.asarray(get(seen)).ravel() - first] = 1
            return row

        parts.append((int(ends[-1]), several))
    elif isinstance(space, spaces.Box | spaces.MultiBinary):
        size = int(np.prod(space.shape, dtype=int))
        parts.append((size, lambda seen: np.asarray(get(seen), np.float32).ravel()))
    else:
        left_out.append(name or type(space).__name__)
