"""Compare two saved states tensor by tensor, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Deviation(NamedTuple):
    """An entry in which two states differ.

    Args:
        place: Its path, such as ``learner.model.head.weight``.
        words: The difference as text.
        size: Size of the difference: for floating-point numbers relative to the saved values,
            infinite for anything that cannot differ slightly.
    """

    place: str
    words: str
    size: float


def deviations(saved: Any, fresh: Any, place: str = "") -> Iterator[Deviation]:
    """Yield all entries in which a recomputed state differs from the saved one.

    >>> list(deviations({"a": 1, "b": [2.0]}, {"a": 1, "b": [2.5]}))
    [Deviation(place='b.0', words='2.0 was saved, 2.5 came out', size=0.25)]
    """
    if isinstance(saved, Tensor) and isinstance(fresh, Tensor):
        yield from _of_tensors(saved, fresh, place)
    elif isinstance(saved, dict) and isinstance(fresh, dict):
        for key in dict.fromkeys((*saved, *fresh)):
            where = f"{place}.{key}" if place else str(key)
            if key not in saved or key not in fresh:
                difference = "was saved and did not come out" if key in saved else "was not saved"
                yield Deviation(where, difference, float("inf"))
            else:
                yield from deviations(saved[key], fresh[key], where)
    elif isinstance(saved, list | tuple) and isinstance(fresh, list | tuple):
        if len(saved) != len(fresh):
            difference = f"{len(saved)} entries were saved, {len(fresh)} came out"
            yield Deviation(place, difference, float("inf"))
            return
        for number, (item, fresh_item) in enumerate(zip(saved, fresh, strict=True)):
            yield from deviations(item, fresh_item, f"{place}.{number}")
    elif not _same(saved, fresh):
        yield Deviation(
            place, f"{_short(saved)} was saved, {_short(fresh)} came out", _size(saved, fresh)
        )


def count_tensors(state: Any) -> int:
    """Return the number of tensors in a state."""
    if isinstance(state, Tensor):
        return 1
    if isinstance(state, dict):
        return sum(count_tensors(value) for value in state.values())
    if isinstance(state, list | tuple):
        return sum(count_tensors(value) for value in state)
    return 0


def _of_tensors(saved: Tensor, fresh: Tensor, place: str) -> Iterator[Deviation]:
    fresh = fresh.detach().cpu()
    saved = saved.detach().cpu()
    if saved.shape != fresh.shape or saved.dtype != fresh.dtype:
        difference = (
            f"{saved.dtype} of shape {list(saved.shape)} was saved, {fresh.dtype} of shape "
            f"{list(fresh.shape)} came out"
        )
        yield Deviation(place, difference, float("inf"))
        return
    if torch.equal(_bits(saved), _bits(fresh)):
        return
    other = (_bits(saved) != _bits(fresh)).view(saved.numel(), -1).any(1)
    difference = f"{int(other.sum())} of {saved.numel()} numbers differ"
    if not saved.is_floating_point():
        yield Deviation(place, difference, float("inf"))
        return
    apart = (saved.double() - fresh.double()).abs().nan_to_num(float("inf")).max()
    scale = saved.double().abs().nan_to_num(0.0, 0.0, 0.0).max().clamp(min=1e-12)
    yield Deviation(place, f"{difference}, at most by {float(apart):.3g}", float(apart / scale))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _same(saved: Any, fresh: Any) -> bool:
    both_nan = saved != saved and fresh != fresh
    return bool(both_nan or (type(saved) is type(fresh) and saved == fresh))


def _size(saved: Any, fresh: Any) -> float:
    if isinstance(saved, float) and isinstance(fresh, float):
        return abs(saved - fresh) / max(abs(saved), 1e-12)
    return float("inf")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
