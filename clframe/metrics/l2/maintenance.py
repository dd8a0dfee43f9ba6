"""Performance maintenance: is performance kept while other tasks are learned?"""

from __future__ import annotations

from collections.abc import Sequence

from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.l2.regime_metrics import Measured


@metric(
    MetricInfo(
        "perf_maintenance_mrlep",
        "each later evaluation minus the first one after the latest learning of the task",
        "change since the last reference", low=-100, high=100,
    ),
    MetricInfo(
        "perf_maintenance_mrtlp",
        "the same minus the terminal performance (last 10 %) of that learning",
        "change since the end of learning", low=-100, high=100,
    ),
    family="l2",
    paper="New et al., 2022",
)  # fmt: skip
def maintenance(regimes: Sequence[Measured], kind: str) -> list[list[float]]:
    """Return the maintenance values of one task (New et al., 2022, Performance Maintenance).

    The first evaluation after each learning regime is the reference. Every later evaluation gives a
    value: its mean performance minus that of the latest reference (``mrlep``, as in the paper), or
    minus the terminal performance of the latest learning regime (``mrtlp``). Positive is better;
    scale of the preprocessed performance.

    Args:
        regimes: Learning and evaluation regimes of one task in order; ``maintenance`` is filled in.
        kind: ``mrlep`` or ``mrtlp``.

    Returns:
        The values, grouped by the reference they belong to; references without values are left out.
    """
    groups: list[list[float]] = []
    reference: Measured | None = None
    last_learning: Measured | None = None
    fresh = False
    for item in regimes:
        if item.regime.train:
            last_learning, fresh = item, True
        elif fresh:
            reference, fresh = item, False
            groups.append([])
        elif reference is not None and last_learning is not None:
            against = reference if kind == "mrlep" else last_learning
            item.maintenance[kind] = item.term_perf - against.term_perf
            groups[-1].append(item.maintenance[kind])
    return [group for group in groups if group]
