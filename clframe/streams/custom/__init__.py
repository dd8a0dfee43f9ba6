"""Streams of the user's own images: a folder, a list of files, a Hugging Face data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Add the streams."""
    # Here and not above: worker processes import this package and have no use for torch.
    from clframe.streams.custom.hugging_face import hf
    from clframe.streams.custom.stream import file_list, folder

    registry.add("stream", "folder", folder, family="own")
    registry.add("stream", "file_list", file_list, family="own")
    registry.add("stream", "hf", hf, family="own")
