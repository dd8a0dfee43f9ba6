"""BEHAVIOR's efficiency metrics as measures of an episode, absolute and against the planner's."""

from __future__ import annotations

import math
from collections.abc import Mapping

from clframe.metrics.behavior import Episode, efficiency, normalize
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.record import Recorder, replay
from clframe.worlds.behavior.sampling import Instance

METRICS = (
    "simulated_time",
    "kinematic_differential",
    "logical_differential",
    "distance_navigated",
    "hand_displacement_left",
    "hand_displacement_right",
    "hand_displacement",
)
"""Lower is better. Disarrangement is the form that the benchmark's table has; the last one adds up
both hands, as the benchmark does."""
NORMALIZED = tuple(f"{name}_normalized" for name in METRICS)
"""The agent's value over the reference's: 1 is as the reference, below is better."""


def reference_of(instance: Instance) -> dict[str, float]:
    """The metrics of the planner's episode, which stands in for a human's."""
    return of_recorder(replay(instance, plan(instance).steps))


def of_recorder(recorder: Recorder) -> dict[str, float]:
    """The metrics of what was recorded."""
    return efficiency(Episode(**recorder.episode()))


def measures(recorder: Recorder, reference: Mapping[str, float] | None) -> dict[str, float]:
    """All metrics of an episode; not a number where the reference has nothing to compare with."""
    found = of_recorder(recorder)
    against = normalize(found, reference) if reference else {}
    result = {name: float(found[name]) for name in METRICS}
    for name in METRICS:
        share = against[name]["agent_over_human"] if against else None
        result[f"{name}_normalized"] = math.nan if share is None else share
    return result
