"""BEHAVIOR's household activities, without physics.

An activity (`corpus`, `clframe.worlds.bddl`) becomes a household of slots with abilities (`household`,
`categories`, `supplies`) in a scene (`scene`), at a start in which its initial conditions hold
(`sampling`). Primitives (`verbs`: `moving`, `handling`, `matter`) change its `state`, while `heat`
lets time pass; `facts` says which literals hold and `tracker` scores them. `env` is the Gymnasium
environment, `planner` the solver, `record` what the metrics need.
Streams (`stream`) choose among primitives and things (`choices`, `layout`) by one vector
(`features`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry


@hookimpl
def register(registry: Registry) -> None:
    """Add the streams."""
    # Here and not above: worker processes import this package and have no use for torch.
    from clframe.streams.behavior.stream import add_streams

    add_streams(registry)
