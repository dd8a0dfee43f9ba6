"""BEHAVIOR's efficiency metrics as measures of an episode, absolute and relative to the planner."""

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
"""Lower is better. Disarrangement is in the form of the benchmark's table; the last one adds up
both hands, as the benchmark does."""
NORMALIZED = tuple(f"{name}_normalized" for name in METRICS)
"""The agent's value over the reference's: 1 equals the reference, lower is better."""


def reference_of(instance: Instance) -> dict[str, float]:
    """Return the metrics of the planner's episode, which replaces a human's."""
    return of_recorder(replay(instance, plan(instance).steps))


def of_recorder(recorder: Recorder) -> dict[str, float]:
    """Return the metrics of a recording."""
    return efficiency(Episode(**recorder.episode()))


def measures(recorder: Recorder, reference: Mapping[str, float] | None) -> dict[str, float]:
    """Return all metrics of an episode; NaN if the reference has no value to compare with."""
    metrics = of_recorder(recorder)
    against = normalize(metrics, reference) if reference else {}
    result = {name: float(metrics[name]) for name in METRICS}
    for name in METRICS:
        share = against[name]["agent_over_human"] if against else None
        result[f"{name}_normalized"] = math.nan if share is None else share
    return result
