"""The experiences of a stream in another order: ``trainer.experience_order``.

Tasks keep their indices, outputs and data in any order, and an experience draws its random
numbers by its position in the order. The state after a position therefore depends only on
the experiences before it. Orders with the same beginning are the same run up to the point where
they differ (``clframe fork``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from clframe.core.stream import Stream
from clframe.errors import SettingError, nearest

_SETTING = "trainer.experience_order"


def in_order(stream: Stream, order: Sequence[Any] | None) -> Stream:
    """Return the stream with its experiences in this order, and columns in the order of learning.

    >>> from clframe.testing import toy_stream
    >>> ordered = in_order(toy_stream(), [2, "exp0", 1])
    >>> [experience.name for experience in ordered], ordered.columns
    (['exp2', 'exp0', 'exp1'], ('task2', 'task0', 'task1'))
    >>> [task.name for task in ordered.tasks]
    ['task0', 'task1', 'task2']

    Args:
        stream: The original stream.
        order: All of its experiences, each by its index from 0 or its name; None for the original
            order.

    Raises:
        SettingError: One of them is unknown, missing or named twice.
    """
    if order is None:
        return stream
    names = [experience.name for experience in stream]
    positions = [_place(entry, names, stream) for entry in order]
    for position in positions:
        if positions.count(position) > 1:
            raise SettingError(f"{_SETTING} has '{names[position]}' twice; each is learned once")
    for position, name in enumerate(names):
        if position not in positions:
            raise SettingError(
                f"{_SETTING} lacks experience {position} ('{name}') of stream '{stream.name}': "
                f"list all {len(names)}"
            )
    experiences = [
        dataclasses.replace(stream.experiences[position], index=index)
        for index, position in enumerate(positions)
    ]
    learned = [task.name for experience in experiences for task in experience.tasks]
    columns = tuple(dict.fromkeys([*learned, *stream.columns]))
    return dataclasses.replace(stream, experiences=experiences, column_order=columns)


def _place(entry: Any, names: Sequence[str], stream: Stream) -> int:
    if isinstance(entry, int) and not isinstance(entry, bool):
        if 0 <= entry < len(names):
            return entry
        raise SettingError(
            f"{_SETTING} has {entry}, but stream '{stream.name}' has experiences 0 to "
            f"{len(names) - 1}"
        )
    if str(entry) not in names:
        raise SettingError(
            f"{_SETTING}: stream '{stream.name}' has no experience '{entry}'; "
            f"{nearest(str(entry), names)}"
        )
    return names.index(str(entry))
