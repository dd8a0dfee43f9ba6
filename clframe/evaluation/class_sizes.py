"""Classes of unequal size: the samples of each, and the class with the lowest accuracy.

Accuracy over all samples hides small classes. These numbers are shown for runs in which the
largest class has more than twice the training samples of the smallest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from clframe.utils.console import truncate

if TYPE_CHECKING:
    from clframe.core.stream import Stream

MEASURED = "classes"
"""The key of the counts below ``measured`` in results.json, and of numbers below ``metrics``."""
UNEQUAL = 2.0
"""Ratio of the largest to the smallest class above which the numbers are shown."""
_SHOWN = 6
_LONGEST = 20
"""Characters of a class's name in a line."""


class Measured(Protocol):
    """The parts of a run's result that are needed here."""

    seed: int
    measured: dict[str, dict[str, Any]]
    metrics: dict[str, dict[str, Any]]


def class_names(stream: Stream) -> dict[int, str]:
    """Return the outputs' names, if the stream has them (``info["names"]`` of a task)."""
    names: dict[int, str] = {}
    for task in stream.tasks:
        names |= task.info.get("names", {})
    return names


def training_counts(stream: Stream) -> dict[int, int]:
    """Return the training samples of each output; empty if the stream has no counts.

    The counts are in ``info["counts"]`` of all experiences, so that nothing is loaded here.
    """
    total: Counter[int] = Counter()
    for experience in stream:
        counts = experience.info.get("counts")
        if not isinstance(counts, Mapping):
            return {}
        total.update(counts)
    return dict(sorted(total.items()))


def is_unequal(counts: Sequence[int]) -> bool:
    """Return whether the largest class has more than twice the samples of the smallest.

    >>> is_unequal([10, 20]), is_unequal([10, 21])
    (False, True)
    """
    return len(counts) > 1 and max(counts) > UNEQUAL * min(counts)


class WorstClass(NamedTuple):
    """The class with the lowest accuracy, and the mean accuracy over classes.

    Args:
        name: The class's name.
        accuracy: The accuracy on the class.
        right: Its test samples with a correct prediction.
        tested: Its test samples.
        balanced: Mean accuracy over classes.
    """

    name: str
    accuracy: float
    right: int
    tested: int
    balanced: float


def worst_class(result: Measured) -> WorstClass | None:
    """Return the worst class of a run whose classes differ in size, or None for other runs."""
    counts = result.measured.get(MEASURED)
    numbers = result.metrics.get(MEASURED)
    if not isinstance(counts, Mapping) or not isinstance(numbers, Mapping):
        return None
    try:
        if not is_unequal([int(n) for n in counts.get("learned") or counts["tested"]]):
            return None
        name = str(numbers["worst_class"])
        position = list(counts["names"]).index(name)
        return WorstClass(
            truncate(name, _LONGEST),
            float(numbers["worst_accuracy"]),
            int(counts["right"][position]),
            int(counts["tested"][position]),
            float(numbers["balanced_accuracy"]),
        )
    except (KeyError, IndexError, TypeError, ValueError):  # written elsewhere, in another form
        return None


def class_line(results: Sequence[Measured]) -> str | None:
    """Describe the worst class of runs whose classes differ in size; None for others.

    Args:
        results: One run, or runs that differ in their seed.
    """
    worst_classes = [
        (worst_of_run, result.seed)
        for result in results
        if (worst_of_run := worst_class(result)) is not None
    ]
    if not worst_classes:
        return None
    worst, seed = min(worst_classes, key=lambda pair: pair[0].accuracy)
    balanced = sum(worst_of_run.balanced for worst_of_run, _ in worst_classes) / len(worst_classes)
    of_seed = f", seed {seed}" if len(results) > 1 else ""
    return (
        f"worst class: {worst.name} {worst.accuracy:.3f} ({worst.right} of {worst.tested} "
        f"right{of_seed}); balanced accuracy {balanced:.3f}"
    )


def listed_counts(counts: Mapping[int, int], names: Mapping[int, str]) -> str:
    """Return the numbers of samples, the largest first; abbreviate many classes."""
    order = sorted(counts, key=lambda unit: -counts[unit])
    labels = [f"{truncate(names.get(u, str(u)), _LONGEST)} {counts[u]:,}" for u in order]
    if len(labels) > _SHOWN:
        half = _SHOWN // 2
        labels = [*labels[:half], f"... ({len(labels) - _SHOWN} more)", *labels[-half:]]
    return ", ".join(labels)
