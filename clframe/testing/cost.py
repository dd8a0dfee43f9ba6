"""The cost of a plugin in a step: ratios to a run without it, measured side by side."""

from __future__ import annotations

import copy
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.testing.toy import toy_run, toy_stream

EXPERIENCES = 12
EARLY, LATE = 2, EXPERIENCES - 1
"""The experiences that are compared; in the first ones a plugin may have no past to use."""


class Cost(NamedTuple):
    """Measured ratios.

    Args:
        ratio: Time of a step with the plugin to that without it.
        growth: Ratio of the times of a late and an early step, relative to a run without it.
    """

    ratio: float
    growth: float


class Clock(Plugin):
    """Clock that records the processor time after every step, by experience."""

    name = "clock"
    capabilities = Capabilities(evaluator=True)

    def __init__(self) -> None:
        self.times: list[list[float]] = []

    @hookimpl
    def before_epoch(self) -> None:
        """Begin a row; an experience has one epoch."""
        self.times.append([])

    @hookimpl(trylast=True)
    def after_step(self) -> None:
        """Record the time of this process."""
        self.times[-1].append(time.process_time())

    def steps(self, number: int) -> float:
        """Return the median time of a step in an experience."""
        row = self.times[number]
        return statistics.median(b - a for a, b in itertools.pairwise(row))


def measure(
    plugins: Callable[[], list[Plugin]], others: Sequence[Plugin], scenario: Any, repeats: int = 3
) -> Cost:
    """Run with and without a plugin in turn; the shortest time of each counts.

    Args:
        plugins: Makes the plugins including the measured one.
        others: The plugins without the measured one.
        scenario: Scenario of the toy stream.
        repeats: Pairs of runs.
    """
    stream = toy_stream(scenario, EXPERIENCES, samples=64)

    def times(chosen: list[Plugin]) -> tuple[float, float]:
        clock = Clock()
        toy_run([*chosen, clock], stream, max_epochs=1, batch_size=8, evaluate_every=EXPERIENCES)
        return clock.steps(EARLY), clock.steps(LATE)

    with_it, without = [], []
    for _ in range(repeats):
        without.append(times(list(copy.deepcopy(others))))
        with_it.append(times(plugins()))
    early, late = (min(times_of_run[i] for times_of_run in with_it) for i in (0, 1))
    plain_early, plain_late = (min(times_of_run[i] for times_of_run in without) for i in (0, 1))
    return Cost(late / plain_late, (late / early) / (plain_late / plain_early))
