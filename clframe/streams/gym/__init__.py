"""Any Gymnasium environment as a task: streams for learning by reward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.gym.stream import franka_kitchen, gym

    registry.add("stream", "gym", gym, family="gym")
    registry.add("stream", "franka_kitchen", franka_kitchen, family="gym")
