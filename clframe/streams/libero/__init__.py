"""The real LIBERO suites (Liu et al., NeurIPS 2023) through the packages that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Add the streams."""
    # Here and not above: worker processes import this package and have no use for torch.
    from clframe.streams.libero.stream import add_streams

    add_streams(registry)
