"""Streams of BEHAVIOR's household activities (`clframe.worlds.behavior`).

A policy chooses a primitive and an object (`choices`, `physics_choices`) from one vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.behavior.stream import add_streams

    add_streams(registry)
