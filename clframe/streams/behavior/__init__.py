"""Streams of BEHAVIOR's household activities (`clframe.worlds.behavior`).

A policy chooses among primitives and objects (`choices`, `physics_choices`) by one vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Add the streams."""
    # Here and not above: worker processes import this package and have no use for torch.
    from clframe.streams.behavior.stream import add_streams

    add_streams(registry)
