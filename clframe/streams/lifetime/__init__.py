"""Lifelong-learning scenarios over another stream's tasks: blocks, recurrence, regimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.lifetime.stream import add_streams

    add_streams(registry)
