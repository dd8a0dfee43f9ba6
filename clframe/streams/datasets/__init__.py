"""Published datasets in their published layouts, in a folder of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from clframe.core.registry import Registry
    from clframe.core.stream import Stream


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.datasets.clear import clear10
    from clframe.streams.datasets.core50 import core50
    from clframe.streams.datasets.cub200 import cub200
    from clframe.streams.datasets.domainnet import domainnet
    from clframe.streams.datasets.imagenet_r import imagenet_r
    from clframe.streams.datasets.tiny_imagenet import tiny_imagenet

    factories: tuple[Callable[..., Stream], ...] = (
        *(clear10, core50, cub200),
        *(domainnet, imagenet_r, tiny_imagenet),
    )
    for factory in factories:
        registry.add("stream", factory.__name__, factory, family="own")
