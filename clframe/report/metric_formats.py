"""Meanings of metrics: formula, direction, and number format.

The facts of clframe's own metrics are next to the functions that compute them. Those of others are
in their runs' results.json. A metric without facts is shown without a formula and treated as better
when higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clframe.metrics.catalog import CATALOG, FAMILIES
from clframe.metrics.info import MetricInfo

Facts = Mapping[str, Mapping[str, Any]]
"""Facts in a results.json about metrics that do not come with clframe, by full name."""

HEADLINES = tuple(name for name, info in CATALOG.items() if info.headline)
"""Metrics that a comparison shows by default, in this order."""

PER_EXPERIENCE = tuple(f"{family.name}." for family in FAMILIES if family.per == "experience")
"""Families whose lists hold a value per experience; other lists hold one per task."""

CARDS = {
    "gem.acc": "mean {measure} at the end, all tasks",
    "openloris.accuracy": "mean {measure} on tasks seen so far, all along",
    "gem.bwt": "change on earlier tasks since they were learned",
    "forgetting.best_minus_last": "forgetting: best so far minus last",
    "libero.fwt": "mean {measure} while a task is learned",
    "libero.nbt": "{measure} lost while later tasks are learned",
    "libero.auc": "mean {measure} from learning a task to the end",
}
"""Labels of the headline numbers, readable without a paper."""

# A report only explains R[i, j]; the symbols of these formulas need docs/metrics.md.
_OTHER_SYMBOLS = ("continual_world.", "l2.")
_TIMINGS = {
    "train_seconds": "training",
    "eval_seconds": "evaluation",
    "cpu_seconds": "processor time",
    "eval_share": "share of evaluation",
}
_NOTHING = 1e-12  # Rounding errors of differences of zero.
_COSTS = ("_seconds", "_bytes", "seconds")


def info_of(metric: str, facts: Facts | None = None) -> MetricInfo | None:
    """Return the facts about a metric, or None.

    Args:
        metric: Its full name.
        facts: The facts in the results of its run.
    """
    if metric in CATALOG:
        return CATALOG[metric]
    return MetricInfo.from_json(metric, facts[metric]) if facts and metric in facts else None


def formula(metric: str, facts: Facts | None = None) -> str:
    """Return the formula of a metric; empty if none can be read without explanation."""
    info = info_of(metric, facts)
    return "" if info is None or metric.startswith(_OTHER_SYMBOLS) else info.formula


def card_words(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the available headline numbers with their labels, at most six."""
    for name, words in CARDS.items():
        # If LIBERO's NBT is known, it says the same about robots.
        if name in metrics and not (name.startswith("forgetting.") and "libero.nbt" in metrics):
            yield name, words


def direction(metric: str, facts: Facts | None = None) -> str:
    """Return which way is better: "higher", "lower" or "neither".

    Args:
        metric: Its full name.
        facts: The facts in the results of its run.
    """
    return {True: "higher", False: "lower", None: "neither"}[higher_is_better(metric, facts)]


def meaning(metric: str, facts: Facts | None = None) -> str:
    """Return the meaning of a metric as text; empty if unknown."""
    info = info_of(metric, facts)
    return "" if info is None else info.words or info.meaning


def unit(metric: str, facts: Facts | None = None) -> str:
    """Return the unit of a metric; empty for a fraction or a plain number."""
    info = info_of(metric, facts)
    return "" if info is None else info.unit


def higher_is_better(metric: str, facts: Facts | None = None) -> bool | None:
    """Return the direction of a metric by its full name; None if neither is better.

    >>> [higher_is_better(name) for name in ("gem.bwt", "libero.nbt", "timing.train_seconds")]
    [True, False, False]

    Args:
        metric: Its full name.
        facts: The facts in the results of its run about metrics that do not come with clframe.
    """
    if metric.startswith("timing."):
        return "_per_" in metric or not metric.endswith(_COSTS)
    if metric.startswith("memory."):
        return False
    # Lists such as forgetting.best_minus_last_k have the direction of their metric.
    info = info_of(metric, facts) or info_of(metric.removesuffix("_k"), facts)
    return True if info is None else info.higher_is_better


def sort_metrics(names: Iterable[str]) -> list[str]:
    """Sort headline metrics first, in their usual order, then the others in the given order."""
    unique = list(dict.fromkeys(names))
    first = [name for name in HEADLINES if name in unique]
    return first + [name for name in unique if name not in first]


def format_value(value: float | None, digits: int = 4) -> str:
    """Return a metric as text; large and tiny numbers keep their significant digits.

    >>> [format_value(x) for x in (0.97236, -0.0, 12345.678, None)]
    ['0.9724', '0.0000', '12346', '-']
    """
    if value is None:
        return "-"
    if abs(value) < _NOTHING:
        value = 0.0
    if abs(value) >= 10_000:
        return f"{value:.0f}" if abs(value) < 1e12 else f"{value:.3g}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if value != 0 and abs(value) < 10**-digits:
        return f"{value:.2g}"
    return f"{value + 0.0:.{digits}f}"  # + 0.0 turns -0.0 into 0.0.


def timing_words(name: str) -> str:
    """Return the name of a timing without its unit, which its value has.

    >>> timing_words("train_seconds"), timing_words("own_seconds")
    ('training', 'own')
    """
    plain = name.removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")
    return _TIMINGS.get(name, plain)


def format_timing(name: str, value: float | None) -> str:
    """Return a timing with the unit in its name, in a readable size.

    >>> format_timing("peak_memory_bytes", 3 * 2**20), format_timing("train_seconds", 75.0)
    ('3.0 MiB', '1 min 15 s')
    """
    if value is None:
        return "-"
    if name.endswith("_bytes"):
        size = value
        for unit in ("B", "KiB", "MiB", "GiB"):
            if abs(size) < 1024:
                return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
            size /= 1024
        return f"{size:.1f} TiB"
    if name.endswith("_share"):
        return f"{100 * value:.1f} %"
    if "_per_" in name:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if name.endswith("seconds"):
        if value >= 3600:
            return f"{value // 3600:.0f} h {value % 3600 // 60:.0f} min"
        if value >= 60:
            return f"{value // 60:.0f} min {value % 60:.0f} s"
        return f"{value:.2f} s"
    return f"{value:g}"
