"""Metrics of the forgetting tensor: which is forgotten first, a skill or its robustness?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clframe.errors import SettingError
from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.learned import TaskOfRow, learned_columns

if TYPE_CHECKING:
    from clframe.core.results import Result


def _of_run(result: Result) -> dict[str, Any] | None:
    """Return the arguments for a run whose tasks were measured under perturbations."""
    if not result.tensor:
        return None
    learned = [i for i, row in enumerate(result.matrix.rows) if row != "before"]
    return {
        "R": result.matrix.learned,
        "P": result.tensor.values[learned],
        "axes": result.tensor.axes,
        "task_of_row": result.task_of_row,
    }


@metric(
    MetricInfo(
        "learned", "sum_k P[k,k] / sum_k R[k,k], mean over axes and levels",
        "success under perturbation, relative to that without, right after learning", low=0,
    ),
    MetricInfo(
        "final", "sum_k P[T,k] / sum_k R[T,k], mean over axes and levels",
        "the same after the last experience", low=0,
        words="success under perturbation relative to that without, at the end",
    ),
    MetricInfo(
        "skill_left", "sum_k R[T,k] / sum_k R[k,k], earlier tasks k",
        "the share of the unperturbed success on earlier tasks that remains at the end", low=0,
        words="share of the success on earlier tasks that remains",
    ),
    MetricInfo(
        "robust_left", "sum_k P[T,k] / sum_k P[k,k], earlier tasks k, all axes and levels",
        "the share of the perturbed success on earlier tasks that remains at the end", low=0,
        words="the same under perturbation",
    ),
    MetricInfo(
        "lead", "skill_left - robust_left",
        "positive if robustness is forgotten before the skill, negative the other way",
        higher_is_better=None,
    ),
    paper="clframe; axes of Fei et al., LIBERO-Plus, 2025",
    summary="Skill and robustness: how much of each remains, if tasks were perturbed.",
    arguments=_of_run,
)  # fmt: skip
def robustness(
    R: ArrayLike,
    P: ArrayLike,
    axes: Sequence[str],
    task_of_row: TaskOfRow | None = None,
) -> dict[str, Any]:
    """Compare success under perturbation with success without.

    >>> R, P = [[1.0, 0.0], [0.5, 1.0]], [[[[0.8]], [[0.0]]], [[[0.2]], [[0.8]]]]
    >>> found = robustness(R, P, ["light"])
    >>> found["learned"], round(found["final"], 2), found["skill_left"], found["robust_left"]
    (0.8, 0.67, 0.5, 0.25)

    Sums are over tasks, so that a task which was never learned does not make a ratio undefined.
    Earlier tasks are those not learned in the last row; only they can have been forgotten.

    Args:
        R: Success [row, task], without the row "before".
        P: Success [row, task, axis, level].
        axes: Names of the axes.
        task_of_row: Columns learned at each row; default: row i learns column i.

    Returns:
        ``learned``, ``final``, ``skill_left``, ``robust_left``, ``lead`` and, by axis under
        ``axes``, ``learned``, ``final`` and ``left``, means over levels. None where the divisor
        is zero or a value was not measured.
    """
    plain, hard = np.asarray(R, np.float64), np.asarray(P, np.float64)
    if plain.ndim != 2 or hard.ndim != 4 or hard.shape[:3] != (*plain.shape, len(axes)):
        raise SettingError(
            "P must have the dimensions row, task, axis and level, the first two those of R, but "
            f"R has the shape {plain.shape}, P {hard.shape}, and there are {len(axes)} axes."
        )
    now = learned_columns(plain.shape, task_of_row)
    columns = np.flatnonzero(now.any(axis=0))
    first = now[:, columns].argmax(axis=0)
    earlier = first < len(plain) - 1
    r_then, r_end = plain[first, columns], plain[-1, columns]
    p_then, p_end = hard[first, columns].mean(axis=-1), hard[-1, columns].mean(axis=-1)
    skill_left = _ratio(r_end[earlier].sum(), r_then[earlier].sum())
    robust_left = _ratio(p_end[earlier].sum(), p_then[earlier].sum())
    by_axis = {
        axis: {
            "learned": _ratio(p_then[:, a].sum(), r_then.sum()),
            "final": _ratio(p_end[:, a].sum(), r_end.sum()),
            "left": _ratio(p_end[earlier, a].sum(), p_then[earlier, a].sum()),
        }
        for a, axis in enumerate(axes)
    }
    return {
        "learned": _ratio(p_then.sum() / len(axes), r_then.sum()),
        "final": _ratio(p_end.sum() / len(axes), r_end.sum()),
        "skill_left": skill_left,
        "robust_left": robust_left,
        "lead": None if skill_left is None or robust_left is None else skill_left - robust_left,
        "axes": by_axis,
    }


def _ratio(numerator: float, denominator: float) -> float | None:
    return float(numerator / denominator) if denominator > 0 and not np.isnan(numerator) else None
