"""What the known metrics mean: formula, direction, and how numbers are written.

`R[i, j]` is the measure on task j after experience i, T the last experience, b the row "before".
A metric that is not listed here is shown without a formula and taken as better when higher.
"""

from __future__ import annotations

from collections.abc import Iterable

from clframe.metrics.catalog import CATALOG

FORMULAS = {
    "openloris.accuracy": "mean of R[i, j] over i ≥ j",
    "openloris.bwt": "mean of R[i, j] over i > j (a level, not a difference)",
    "openloris.fwt": "mean of R[i, j] over i < j (a level, not a difference)",
    "openloris.overall": "mean of all R[i, j]",
    "gem.acc": "mean over j of R[T, j]",
    "gem.bwt": "mean over j < T of R[T, j] - R[j, j]",
    "gem.fwt": "mean over j > 1 of R[j - 1, j] - b[j]",
    "forgetting.best_minus_last": "mean over j < T of max over i < T of R[i, j], minus R[T, j]",
    "forgetting.first_minus_last": "mean over j < T of R[j, j] - R[T, j]",
    "learning_accuracy.learning_accuracy": "mean of R[j, j]",
    "intransigence.intransigence": "mean of joint reference - R[j, j]",
    "stability_plasticity.stability": "S: mean of R[T, j] over j < T",
    "stability_plasticity.plasticity": "P: mean of R[j, j]",
    "stability_plasticity.tradeoff": "2SP / (S + P)",
    "average_over_run.average_over_run": "mean over i of the mean of R[i, j] over j ≤ i",
    "libero.fwt": "mean over tasks of the mean success while learning the task",
    "libero.nbt": "mean loss of success on a task while later ones are learned",
    "libero.auc": "mean area under the success curve, from learning a task to the end",
}

HEADLINES = (
    *(f"openloris.{name}" for name in ("accuracy", "bwt", "fwt", "overall")),
    *(f"gem.{name}" for name in ("acc", "bwt", "fwt")),
    *(f"libero.{name}" for name in ("fwt", "nbt", "auc")),
)
"""What a comparison shows unless told otherwise, in this order."""

PER_EXPERIENCE = ("average_over_run.", "learning_accuracy.", "intransigence.")
"""Families whose lists hold a value per experience; the lists of others hold one per task."""

_COSTS = ("_seconds", "_bytes", "seconds")


def higher_is_better(metric: str) -> bool:
    """Direction of a metric by its full name.

    >>> [higher_is_better(name) for name in ("gem.bwt", "libero.nbt", "timing.train_seconds")]
    [True, False, False]
    """
    if metric.startswith("timing."):
        return "_per_" in metric or not metric.endswith(_COSTS)
    # Lists such as forgetting.best_minus_last_k go the way of what they are the parts of.
    known = CATALOG.get(metric) or CATALOG.get(metric.removesuffix("_k"))
    return known is None or known.higher_is_better is not False


def sort_metrics(names: Iterable[str]) -> list[str]:
    """Headline metrics first, in their usual order, then the others as they come."""
    given = list(dict.fromkeys(names))
    first = [name for name in HEADLINES if name in given]
    return first + [name for name in given if name not in first]


def format_value(value: float | None, digits: int = 4) -> str:
    """A metric as text; large and tiny numbers keep their significant digits.

    >>> [format_value(x) for x in (0.97236, -0.0, 12345.678, None)]
    ['0.9724', '0.0000', '12346', '-']
    """
    if value is None:
        return "-"
    if abs(value) >= 10_000:
        return f"{value:.0f}" if abs(value) < 1e12 else f"{value:.3g}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if value != 0 and abs(value) < 10**-digits:
        return f"{value:.2g}"
    return f"{value + 0.0:.{digits}f}"  # + 0.0 turns -0.0 into 0.0


def format_timing(name: str, value: float | None) -> str:
    """A timing in the unit its name says, in a size a person can read.

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
    if "_per_" in name:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if name.endswith("seconds"):
        if value >= 3600:
            return f"{value // 3600:.0f} h {value % 3600 // 60:.0f} min"
        if value >= 60:
            return f"{value // 60:.0f} min {value % 60:.0f} s"
        return f"{value:.2f} s"
    return f"{value:g}"
