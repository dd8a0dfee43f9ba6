"""Classes of unequal size: how many samples each has, and which one is recognized least.

Accuracy over all samples says little of a small class. What is here is shown for runs in which the
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
"""Where results.json has the counts, below ``measured``, and the numbers, below ``metrics``."""
UNEQUAL = 2.0
"""The largest class may have this many times the samples of the smallest before that is shown."""
_SHOWN = 6
_LONGEST = 20
"""Letters of a class's name in a line."""


class Measured(Protocol):
    """What is needed of a run's result."""

    seed: int
    measured: dict[str, dict[str, Any]]
    metrics: dict[str, dict[str, Any]]


def class_names(stream: Stream) -> dict[int, str]:
    """Return what outputs are called, as far as the stream says (``info["names"]`` of a task)."""
    found: dict[int, str] = {}
    for task in stream.tasks:
        found |= task.info.get("names", {})
    return found


def training_counts(stream: Stream) -> dict[int, int]:
    """Return the training samples of each output; empty if the stream does not say.

    A stream says it in ``info["counts"]`` of all its experiences, so that nothing is loaded here.
    """
    total: Counter[int] = Counter()
    for experience in stream:
        counts = experience.info.get("counts")
        if not isinstance(counts, Mapping):
            return {}
        total.update(counts)
    return dict(sorted(total.items()))


def is_unequal(counts: Sequence[int]) -> bool:
    """Whether the largest class has more than twice the samples of the smallest.

    >>> is_unequal([10, 20]), is_unequal([10, 21])
    (False, True)
    """
    return len(counts) > 1 and max(counts) > UNEQUAL * min(counts)


class WorstClass(NamedTuple):
    """The class that a run recognizes least, and the accuracy with all classes counted alike.

    Args:
        name: Of the class.
        accuracy: On it.
        right: Test samples of it that are predicted rightly.
        tested: Test samples of it.
        balanced: Mean accuracy over classes.
    """

    name: str
    accuracy: float
    right: int
    tested: int
    balanced: float


def worst_class(result: Measured) -> WorstClass | None:
    """Return the worst class of a run whose classes differ in size, or None for other runs."""
    found = result.measured.get(MEASURED)
    numbers = result.metrics.get(MEASURED)
    if not isinstance(found, Mapping) or not isinstance(numbers, Mapping):
        return None
    try:
        if not is_unequal([int(n) for n in found.get("learned") or found["tested"]]):
            return None
        name = str(numbers["worst_class"])
        place = list(found["names"]).index(name)
        return WorstClass(
            truncate(name, _LONGEST),
            float(numbers["worst_accuracy"]),
            int(found["right"][place]),
            int(found["tested"][place]),
            float(numbers["balanced_accuracy"]),
        )
    except (KeyError, IndexError, TypeError, ValueError):  # made elsewhere, in another form
        return None


def class_line(results: Sequence[Measured]) -> str | None:
    """Say which class is the worst, in runs whose classes differ in size; None for others.

    Args:
        results: One run, or runs that differ in their seed.
    """
    found = [(one, result.seed) for result in results if (one := worst_class(result)) is not None]
    if not found:
        return None
    worst, seed = min(found, key=lambda pair: pair[0].accuracy)
    balanced = sum(one.balanced for one, _ in found) / len(found)
    of_seed = f", seed {seed}" if len(results) > 1 else ""
    return (
        f"worst class: {worst.name} {worst.accuracy:.3f} ({worst.right} of {worst.tested} "
        f"right{of_seed}); balanced accuracy {balanced:.3f}"
    )


def listed_counts(counts: Mapping[int, int], names: Mapping[int, str]) -> str:
    """Return the numbers of samples, the largest first; of many classes the first and last."""
    order = sorted(counts, key=lambda unit: -counts[unit])
    words = [f"{truncate(names.get(u, str(u)), _LONGEST)} {counts[u]:,}" for u in order]
    if len(words) > _SHOWN:
        half = _SHOWN // 2
        words = [*words[:half], f"... ({len(words) - _SHOWN} more)", *words[-half:]]
    return ", ".join(words)
