"""What a command says of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clframe.metrics.catalog import CATALOG
from clframe.utils.console import wrap

_FIRST = ("gem", "openloris", "libero")
"""The families most people look for first; others follow in the order of the catalogue."""


def headline(metrics: Mapping[str, Mapping[str, Any]], measure: str = "accuracy") -> str:
    """The metrics most people look at first, each under its full name.

    Args:
        metrics: By family and name.
        measure: What the matrix holds; what robots reach is called success.
    """
    shown = [(name.partition("."), info.words) for name, info in CATALOG.items() if info.words]
    shown.sort(key=lambda item: _FIRST.index(item[0][0]) if item[0][0] in _FIRST else len(_FIRST))
    lines = []
    for (family, _, key), words in shown:
        value = metrics.get(family, {}).get(key)
        if isinstance(value, int | float):
            words = words.replace("accuracy", measure)
            lines += wrap(words, 30, f"{family + '.' + key:<20}{value:>8.3f}  ")
    return "\n".join(lines)
