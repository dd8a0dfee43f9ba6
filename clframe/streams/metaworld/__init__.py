"""Meta-World's tasks (Yu et al., CoRL 2019) by imitation, and Continual World's sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.metaworld.stream import add_streams

    add_streams(registry)
