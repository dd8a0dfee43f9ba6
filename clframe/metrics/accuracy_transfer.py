"""Metrics of the train-test matrix: OpenLORIS, GEM, forgetting and related ones.

Everywhere ``R[i, j]`` is the performance on task ``j`` after learning experience ``i`` (the row of
the untrained model is not part of ``R``), and NaN means "not measured". A metric that needs a cell
that was not measured is ``None``: a mean over fewer cells would be another metric.

Tasks may recur and an experience may have several tasks. Then ``task_of_row`` names the column, or
the columns, learned at each row; without it, row ``i`` learns column ``i``. Tasks that no row
learns count as future tasks.

>>> R = [[0.9, 0.5, 0.2], [0.7, 0.8, 0.3], [0.6, 0.7, 1.0]]
>>> {name: round(value, 4) for name, value in openloris(R).items()}
{'accuracy': 0.7833, 'bwt': 0.6667, 'fwt': 0.3333, 'overall': 0.6333}
>>> {name: round(value, 4) for name, value in gem(R, [0.1, 0.1, 0.1]).items()}
{'acc': 0.7667, 'bwt': -0.2, 'fwt': 0.3}
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from clframe.metrics.info import MetricInfo, families_in, metric
from clframe.metrics.learned import (
    Table,
    TaskOfRow,
    Vector,
    learned_matrix,
    mean,
    mean_of_known,
    plain,
    vector_of,
)

if TYPE_CHECKING:
    from clframe.core.results import Result


def _of_run(result: Result) -> dict[str, Any]:
    """Return the arguments of most families for a run."""
    return {"R": result.matrix.learned, "task_of_row": result.task_of_row}


def _with_before(result: Result) -> dict[str, Any]:
    return {**_of_run(result), "b": result.matrix.before}


@metric(
    MetricInfo(
        "accuracy", "mean of R[i, j] over i ≥ j", "mean over tasks learned so far, after every row",
        low=0, high=1, headline=True, words="mean over tasks seen so far, all rows",
    ),
    MetricInfo(
        "bwt", "mean of R[i, j] over i > j (a level, not a difference)",
        "mean over tasks learned earlier, a plain average", low=0, high=1, headline=True,
    ),
    MetricInfo(
        "fwt", "mean of R[i, j] over i < j (a level, not a difference)",
        "mean over tasks still to come, a plain average", low=0, high=1, headline=True,
        words="mean over tasks not seen yet, all rows",
    ),
    MetricInfo(
        "overall", "mean of all R[i, j]", "mean of the whole matrix", low=0, high=1, headline=True
    ),
    paper="She et al., ICRA 2020, Section III",
    summary="Accuracy, BWT, FWT and Over-all of OpenLORIS-Object (She et al., 2020).",
    arguments=_of_run,
)  # fmt: skip
def openloris(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, float | None]:
    """Return Accuracy, BWT, FWT and Over-all of OpenLORIS-Object (She et al., ICRA 2020, Sec. III).

    Plain averages of parts of the matrix, not differences: ``accuracy`` over the cells of tasks
    learned so far (i >= j), ``bwt`` over tasks learned earlier (i > j), ``fwt`` over tasks still to
    come (i < j), ``overall`` over all cells. Higher is better, range that of the measure (0..1).
    For N tasks learned once each, overall = ((N + 1) accuracy + (N - 1) fwt) / 2N.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> round(openloris(R)["accuracy"], 3)
        0.8
    """
    m = learned_matrix(R, task_of_row)
    return {
        "accuracy": mean(m.values[m.seen]),
        "bwt": mean(m.values[m.seen & ~m.now]),
        "fwt": mean(m.values[~m.seen]),
        "overall": mean(m.values.ravel()),
    }


@metric(
    MetricInfo(
        "acc", "mean over j of R[T, j]", "mean over tasks after the last row",
        low=0, high=1, headline=True, words="mean accuracy over all tasks at the end",
    ),
    MetricInfo(
        "bwt", "mean over j < T of R[T, j] - R[j, j]", "final value minus value when learned",
        low=-1, high=1, headline=True,
        words="change on earlier tasks since they were learned (below 0: forgetting)",
    ),
    MetricInfo(
        "fwt", "mean over j > 1 of R[j - 1, j] - b[j]",
        "value just before learning minus untrained value", low=-1, high=1, headline=True,
    ),
    paper="Lopez-Paz and Ranzato, NeurIPS 2017, Eq. 2-4",
    summary="ACC, BWT and FWT of GEM (Lopez-Paz & Ranzato, 2017).",
    arguments=_with_before,
)  # fmt: skip
def gem(
    R: Table, b: Vector | None = None, task_of_row: TaskOfRow | None = None
) -> dict[str, float | None]:
    """Return ACC, BWT and FWT of GEM (Lopez-Paz and Ranzato, NeurIPS 2017, Eq. 2-4).

    acc = mean over learned tasks of R[T, j]; bwt = mean over tasks learned before the last row of
    R[T, j] - R[j, j]; fwt = mean over tasks not learned first of R[j - 1, j] - b[j]. Higher is
    better; acc has the range of the measure, bwt and fwt are in -1..1 for a measure in 0..1.

    For a recurring task, bwt uses the row that learned it last, and fwt the row before it was
    learned first.

    Args:
        R: Matrix of performances, rows in order of learning.
        b: Performance of the untrained model on each task; without it fwt is None.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> {name: round(value, 3) for name, value in gem(R, b=[0.5, 0.5]).items()}
        {'acc': 0.75, 'bwt': -0.2, 'fwt': 0.0}
    """
    m = learned_matrix(R, task_of_row)
    columns = np.arange(m.values.shape[1])
    bwt = m.values[-1] - m.values[m.last, columns]
    fwt = None
    if b is not None:
        later = m.ever & (m.first > 0)
        untrained = vector_of(b, m.values.shape[1], "b (the performance of the untrained model)")
        fwt = mean((m.values[m.first - 1, columns] - untrained)[later])
    return {"acc": mean(m.values[-1][m.ever]), "bwt": mean(bwt[m.old]), "fwt": fwt}


@metric(
    MetricInfo(
        "best_minus_last", "mean over j < T of max over i < T of R[i, j], minus R[T, j]",
        "best earlier value minus final", higher_is_better=False, low=-1, high=1,
    ),
    MetricInfo(
        "first_minus_last", "mean over j < T of R[j, j] - R[T, j]",
        "value when learned minus final", higher_is_better=False, low=-1, high=1,
    ),
    paper="Chaudhry et al., ECCV 2018, Eq. 3",
    summary="Best minus last (Chaudhry et al., 2018) and first minus last, named apart.",
    arguments=_of_run,
)  # fmt: skip
def forgetting(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, Any]:
    """Return forgetting in its two meanings, each named for what it subtracts.

    ``best_minus_last``: Chaudhry et al., ECCV 2018, Eq. 3: f_j = max over rows l, from the one that
    learned j first to the last but one, of R[l, j], minus R[T, j]. ``first_minus_last``: the value
    when first learned minus the final one, R[j, j] - R[T, j] (minus GEM's bwt when no task recurs).
    Means over the tasks that the final row does not learn; lower is better, range -1..1. The lists
    ``*_k`` have one value per column, None for a column without a value.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> round(forgetting(R)["best_minus_last"], 3)
        0.2
    """
    m = learned_matrix(R, task_of_row)
    columns = np.arange(m.values.shape[1])
    # Rows before a task is learned do not measure what was learned and may be unmeasured.
    after = np.where(m.seen, m.values, -np.inf)[:-1]
    best = after.max(axis=0, initial=-np.inf)
    unused = ~m.old
    best_k = np.where(unused, np.nan, np.where(unused, 0.0, best) - m.values[-1])
    first_k = np.where(unused, np.nan, m.values[m.first, columns] - m.values[-1])
    return {
        "best_minus_last": mean(best_k[m.old]),
        "first_minus_last": mean(first_k[m.old]),
        "best_minus_last_k": plain(best_k),
        "first_minus_last_k": plain(first_k),
    }


@metric(
    MetricInfo("learning_accuracy", "mean of R[j, j]", "value when just learned", low=0, high=1),
    paper="Riemer et al., ICLR 2019",
    summary="Accuracy on each task right after learning it (Riemer et al., 2019).",
    per="experience",
    arguments=_of_run,
)
def learning_accuracy(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, Any]:
    """Return learning accuracy (Riemer et al., ICLR 2019): mean performance on new tasks.

    learning_accuracy = mean over rows i of R[i, i]; higher is better, range of the measure. The
    list ``learning_accuracy_k`` has one value per row.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> round(learning_accuracy(R)["learning_accuracy"], 3)
        0.85
    """
    m = learned_matrix(R, task_of_row)
    return {
        "learning_accuracy": mean(m.values[m.now]),
        "learning_accuracy_k": [mean(v[now]) for v, now in zip(m.values, m.now, strict=True)],
    }


@metric(
    MetricInfo(
        "intransigence", "mean of joint reference - R[j, j]", "joint reference minus value learned",
        higher_is_better=False, low=-1, high=1,
    ),
    paper="Chaudhry et al., ECCV 2018, Eq. 5",
    per="experience",
)  # fmt: skip
def intransigence(
    R: Table, joint: Vector | None = None, task_of_row: TaskOfRow | None = None
) -> dict[str, Any]:
    """Return intransigence (Chaudhry et al., ECCV 2018, Eq. 5): inability to learn the new task.

    I_i = joint[i] - R[i, i], where joint[i] is the performance on the task of row i of a reference
    model trained on all data up to row i. Lower is better, range -1..1; negative if sequential
    learning was better than joint learning.

    Args:
        R: Matrix of performances, rows in order of learning.
        joint: Performance of the joint reference, one value per row; without it the result is None.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> round(intransigence(R, joint=[0.95, 0.9])["intransigence"], 3)
        0.075
    """
    m = learned_matrix(R, task_of_row)
    rows = len(m.values)
    if joint is None:
        return {"intransigence": None, "intransigence_k": [None] * rows}
    reference = vector_of(joint, rows, "joint (the performance of the joint reference)", of="row")
    accuracies = learning_accuracy(R, task_of_row)["learning_accuracy_k"]
    gaps = [
        None if value is None or np.isnan(best) else float(best - value)
        for best, value in zip(reference, accuracies, strict=True)
    ]
    return {"intransigence": mean_of_known(gaps), "intransigence_k": gaps}


@metric(
    MetricInfo(
        "stability", "S: mean of R[T, j] over j < T", "final value of earlier tasks", low=0, high=1
    ),
    MetricInfo("plasticity", "P: mean of R[j, j]", "value when just learned", low=0, high=1),
    MetricInfo("tradeoff", "2SP / (S + P)", "harmonic mean of the two", low=0, high=1),
    paper="Sarfraz et al., CoLLAs 2022",
    summary="How much of earlier tasks is kept, and how well new ones are learned.",
    arguments=_of_run,
)
def stability_plasticity(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, float | None]:
    """Return stability, plasticity and their trade-off (as in Sarfraz et al., CoLLAs 2022).

    stability S = mean of R[T, j] over the tasks learned before the final row; plasticity P = mean
    of R[i, i] over rows; tradeoff = their harmonic mean 2SP / (S + P), 0 if both are 0. Higher is
    better, range 0..1 for a measure in 0..1.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> sorted(stability_plasticity(R))
        ['plasticity', 'stability', 'tradeoff']
    """
    m = learned_matrix(R, task_of_row)
    stability = mean(m.values[-1][m.old])
    plasticity = mean(m.values[m.now])
    tradeoff = None
    if stability is not None and plasticity is not None:
        total = stability + plasticity
        tradeoff = 2 * stability * plasticity / total if total > 0 else 0.0
    return {"stability": stability, "plasticity": plasticity, "tradeoff": tradeoff}


@metric(
    MetricInfo(
        "average_over_run", "mean over i of the mean of R[i, j] over j ≤ i",
        "mean over rows of tasks so far", low=0, high=1,
    ),
    paper="Rebuffi et al., iCaRL, CVPR 2017, Section 4.1",
    summary="Mean over rows of the mean accuracy on the tasks seen so far.",
    per="experience",
    arguments=_of_run,
)  # fmt: skip
def average_over_run(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, Any]:
    """Return average incremental accuracy (Rebuffi et al., iCaRL, CVPR 2017, Section 4.1).

    Mean over rows i of A_i = mean over the tasks learned so far of R[i, j]; higher is better, range
    of the measure. Here rows have equal weight; in ``openloris`` cells do. ``average_over_run_k``
    lists A_i.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> round(average_over_run(R)["average_over_run"], 3)
        0.825
    """
    m = learned_matrix(R, task_of_row)
    per_row = [mean(v[seen]) for v, seen in zip(m.values, m.seen, strict=True) if seen.any()]
    return {"average_over_run": mean_of_known(per_row), "average_over_run_k": per_row}


def matrix_metrics(
    R: Table,
    b: Vector | None = None,
    joint: Vector | None = None,
    task_of_row: TaskOfRow | None = None,
) -> dict[str, dict[str, Any]]:
    """Return every metric of this file, each family under its own name.

    Args:
        R: Matrix of performances, rows in order of learning.
        b: Performance of the untrained model on each task, for ``gem.fwt``.
        joint: Performance of a joint reference at each row, for ``intransigence``.
        task_of_row: Column or columns learned at each row; default: row i learns column i.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # task j after experience i
        >>> sorted(matrix_metrics(R))[:3]
        ['average_over_run', 'forgetting', 'gem']
    """
    arguments = {"R": R, "b": b, "joint": joint, "task_of_row": task_of_row}
    families: dict[str, dict[str, Any]] = {}
    for family in families_in(sys.modules[__name__]):
        parameters = inspect.signature(family.function).parameters
        families[family.name] = dict(
            family.function(**{name: arguments[name] for name in parameters})
        )
    return families
