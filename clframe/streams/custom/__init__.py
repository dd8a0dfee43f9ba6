"""Streams of the user's own images: a folder, a list of files, a Hugging Face dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.custom.hugging_face import hf
    from clframe.streams.custom.stream import file_list, folder

    registry.add("stream", "folder", folder, family="own")
    registry.add("stream", "file_list", file_list, family="own")
    registry.add("stream", "hf", hf, family="own")
