"""Split, permuted and rotated image datasets: MNIST, Fashion-MNIST, CIFAR-10, CIFAR-100."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.images.stream import add_streams

    add_streams(registry)
