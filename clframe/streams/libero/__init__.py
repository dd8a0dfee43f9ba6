"""The real LIBERO suites (Liu et al., NeurIPS 2023), using LIBERO's own packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the suites."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.libero.stream import add_streams

    add_streams(registry)
