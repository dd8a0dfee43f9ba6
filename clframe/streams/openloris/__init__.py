"""OpenLORIS-Object (She et al., ICRA 2020): real frames from a folder, or rendered ones.

The package itself imports almost nothing, because its worker processes must start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Register the six streams."""
    from clframe.streams.openloris.streams import add_streams

    add_streams(registry)
