"""Streams of LIBERO's suites on the simulated table top (`clframe.worlds.tabletop`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl
from clframe.worlds.tabletop.suites import ORDERS, SUITES, TabletopTask, ordered, task, tasks

if TYPE_CHECKING:
    from clframe.core.registry import Registry

__all__ = ["ORDERS", "SUITES", "TabletopTask", "ordered", "task", "tasks"]


@hookimpl
def register(registry: Registry) -> None:
    """Register the suites as streams."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.tabletop.stream import summaries, tabletop

    for name, summary in summaries().items():
        factory = partial(tabletop, name)
        registry.add("stream", name, factory, summary, family="tabletop")
