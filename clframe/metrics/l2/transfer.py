"""Forward and backward transfer between tasks.

A target task is evaluated before (p) and after (q) a source task is learned: contrast
(q - p) / (q + p), in -1..1 for positive performance, or ratio q / p; above 0, or above 1, learning
the source helped. It is forward while the target has not been learned itself, backward afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.l2.regime_metrics import Measured

# kind of transfer -> source -> target -> values in time
Transfer = dict[str, dict[str, dict[str, list[float]]]]

DIRECTIONS = ("forward", "backward")


@metric(
    MetricInfo(
        "forward_transfer_contrast",
        "(q - p) / (q + p) around the learning of another task, target not yet learned",
        "help to tasks not yet learned", low=-1, high=1,
    ),
    MetricInfo(
        "backward_transfer_contrast", "the same for a target learned before",
        "help to tasks learned before", low=-1, high=1,
    ),
    MetricInfo(
        "forward_transfer_ratio", "q / p, target not yet learned; 1 = no transfer",
        "the same as after / before", low=0,
    ),
    MetricInfo(
        "backward_transfer_ratio", "q / p, target learned before; 1 = no transfer",
        "the same as after / before", low=0,
    ),
    family="l2",
    paper="New et al., 2022",
)  # fmt: skip
def transfer(
    regimes: Sequence[Measured], tasks: Sequence[str], kinds: Sequence[str], reference: bool
) -> tuple[Transfer, list[str]]:
    """Return the transfer values of all pairs of tasks.

    If the target itself was learned between two evaluations, they measure learning, not
    transfer, and are left out. If several sources were learned between them, the value counts for
    each. The profile `reference` keeps the former and attributes the latter to the source that
    appears last in the lifetime's order of tasks.

    Args:
        regimes: Learning regimes and those evaluation regimes that count, in order.
        tasks: All tasks in order of first appearance.
        kinds: ``ratio``, ``contrast`` or both.
        reference: Whether to reproduce the reference program.

    Returns:
        The values, under names such as ``forward_transfer_ratio``, and remarks.
    """
    values: Transfer = {
        f"{direction}_transfer_{kind}": {source: {} for source in tasks}
        for kind in kinds
        for direction in DIRECTIONS
    }
    notes: list[str] = []
    learning = [item for item in regimes if item.regime.train]
    numbers = [item.regime.number for item in learning]
    rank = {task: i for i, task in enumerate(tasks)}
    evaluated: dict[str, list[Measured]] = {task: [] for task in tasks}
    first_learned: dict[str, int] = {}
    for item in regimes:
        if item.regime.train:
            first_learned.setdefault(item.regime.task, item.regime.number)
        else:
            evaluated[item.regime.task].append(item)
    for target, evaluations in evaluated.items():
        first = first_learned.get(target)
        for x, y in pairwise(evaluations):
            between = learning[
                bisect_right(numbers, x.regime.number) : bisect_left(numbers, y.regime.number)
            ]
            relearned = any(r.regime.task == target for r in between)
            sources = {
                direction: _sources(between, target, first, direction, rank)
                for direction in DIRECTIONS
            }
            if relearned and not reference:
                if sources["forward"] or sources["backward"]:
                    notes.append(
                        f"{target} was itself learned between its evaluations in blocks "
                        f"{x.regime.block_num} and {y.regime.block_num}, so these give no transfer."
                    )
                continue
            for direction in DIRECTIONS:
                names = sources[direction]
                if len(names) > 1:
                    notes.append(
                        f"{', '.join(names)} were all learned between the evaluations of {target} "
                        f"in blocks {x.regime.block_num} and {y.regime.block_num}: the transfer "
                        + (f"is given to {names[-1]} only." if reference else "is joint.")
                    )
                for source in names[-1:] if reference else names:
                    for kind in kinds:
                        value = _value(kind, x.term_perf, y.term_perf)
                        if value is not None:
                            pairs = values[f"{direction}_transfer_{kind}"][source]
                            pairs.setdefault(target, []).append(value)
    return values, notes


def _sources(
    between: Sequence[Measured],
    target: str,
    first: int | None,
    direction: str,
    rank: dict[str, int],
) -> list[str]:
    """Return the other tasks learned, in order of first appearance in the lifetime."""
    names = {
        r.regime.task
        for r in between
        if r.regime.task != target
        and (first is None or r.regime.number < first) == (direction == "forward")
    }
    return sorted(names, key=rank.__getitem__)


def _value(kind: str, p: float, q: float) -> float | None:
    if kind == "ratio":
        return q / p if p != 0 else None
    return (q - p) / (q + p) if q + p != 0 else None
