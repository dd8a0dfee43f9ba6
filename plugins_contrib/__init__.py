"""Further methods, written only against clframe's public interface and found by entry point."""

from __future__ import annotations

import sys

from clframe import Registry, hookimpl


@hookimpl
def register(registry: Registry) -> None:
    """Add every method of this package."""
    registry.add_package(sys.modules[__name__], origin="clframe_contrib")
