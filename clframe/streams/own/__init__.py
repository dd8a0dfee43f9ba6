"""Streams of the user's own pictures: a folder, or a list of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Add the streams."""
    # Here and not above: worker processes import this package and have no use for torch.
    from clframe.streams.own.stream import file_list, folder

    registry.add("stream", "folder", folder, family="own")
    registry.add("stream", "file_list", file_list, family="own")
