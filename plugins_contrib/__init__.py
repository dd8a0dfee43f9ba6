"""Further methods, written only with clframe's public interface and found by entry point."""

from __future__ import annotations

import sys

from clframe import Registry, hookimpl


@hookimpl
def register(registry: Registry) -> None:
    """Register every method of this package."""
    registry.add_package(sys.modules[__name__], origin="clframe_contrib")
