"""FWT, NBT and AUC of LIBERO (Liu et al., NeurIPS 2023, Section 5.1, Eq. 3).

``c[i, j, e]`` is the success rate on task ``j`` after ``e`` evaluation points (epochs 0, 5, ..., 50
in the paper) of learning task ``i``. The learner is treated as if it stopped at its best point: the
EARLIEST one that reaches the maximum (footnote 5), so its curve is held there.

>>> c = [[[0.0, 0.6, 0.4], [0.9, 0.9, 0.9]], [[0.5, 0.4, 0.3], [0.0, 0.0, 1.0]]]
>>> result = libero(c)
>>> round(result["fwt"], 4), round(result["nbt"], 4), round(result["auc"], 4)
(0.3667, 0.15, 0.3417)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clframe.errors import SettingError
from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.learned import Floats, learned_columns

if TYPE_CHECKING:
    from clframe.core.results import Result

VARIANTS = ("paper", "notebook")


def _of_run(result: Result) -> dict[str, Any] | None:
    """Return the arguments for a run that was evaluated during training, task after task."""
    points = {len(values) for tasks in result.curves.values() for values in tasks.values()}
    learned = result.matrix.learned
    single = all(len(columns) == 1 for columns in result.task_of_row)
    if len(points) != 1 or len(result.curves) != len(learned) or not single:
        return None
    c = np.repeat(learned[:, :, None], points.pop(), axis=2)
    for row, tasks in enumerate(result.curves.values()):
        for task, values in tasks.items():
            c[row, result.matrix.columns.index(task)] = values
    return {"c": c, "task_of_row": [columns[0] for columns in result.task_of_row]}


@metric(
    MetricInfo(
        "fwt", "mean over tasks of the mean success while learning the task",
        "area under the held learning curve", low=0, high=1, headline=True,
        words="mean success while a task is learned, held at its best",
    ),
    MetricInfo(
        "nbt", "mean loss of success on a task while later ones are learned",
        "success lost while learning later tasks", higher_is_better=False, low=-1, high=1,
        headline=True, words="best success on a task minus that after later ones (forgetting)",
    ),
    MetricInfo(
        "auc", "mean area under the success curve, from learning a task to the end",
        "success over learning and all later tasks", low=0, high=1, headline=True,
        words="mean success on a task, from its learning to the end",
    ),
    paper="Liu et al., NeurIPS 2023, Eq. 3",
    summary=(
        "FWT, NBT and AUC of LIBERO (Liu et al., 2023), if evaluated during training."
    ),
    arguments=_of_run,
)  # fmt: skip
def libero(
    c: ArrayLike,
    variant: str = "paper",
    confusion: ArrayLike | None = None,
    task_of_row: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return forward transfer, negative backward transfer and area under the success curve.

    With c_kk the maximum of task k's own curve, e*_k its earliest place, c_tk = c[t, k, e*_t]::

        FWT_k = mean over e of the curve of task k, held at c_kk from e*_k on
        NBT_k = mean over later tasks t of (c_kk - c_tk)
        AUC_k = (FWT_k + sum over later tasks t of c_tk) / (1 + number of later tasks)

    ``fwt``, ``nbt``, ``auc`` are means over all K tasks. The last task, which has nothing after it,
    counts as 0 in ``nbt`` (as Eq. 3 divides by K) and is None in ``nbt_k``. FWT and AUC: higher is
    better, range 0..1. NBT: lower is better, range -1..1, negative if later learning helped.

    Variant ``notebook`` takes c_tk, including c_kk, from ``confusion``: success rates measured
    again after each task with the best checkpoint, as in the analysis notebook published with
    LIBERO.

    Values for tasks not yet learned are never read. A recurring task counts from the row that
    learned it first, and rows that learn it again are not "later tasks".

    Args:
        c: Success rates, rows and columns as in a train-test matrix, evaluation points last.
        variant: ``paper`` (Eq. 3) or ``notebook``.
        confusion: Newly measured success rates [row, task] for the variant ``notebook``.
        task_of_row: Column learned at each row; default: row i learns column i.

    Returns:
        ``fwt, nbt, auc``; the same per learned task, in order of learning, as ``fwt_k, nbt_k,
        auc_k``; ``e_star`` per row and the ``matrix`` of c_tk (None above the diagonal and wherever
        a value was not measured).

    Example:
        >>> import numpy as np
        >>> c = np.array([[[0.0, 0.9], [0.0, 0.0]], [[0.7, 0.7], [0.0, 0.8]]])
        >>> scores = libero(c)  # two tasks, two evaluation points
        >>> [round(scores[name], 4) for name in ("fwt", "nbt", "auc")]
        [0.425, 0.1, 0.4875]
    """
    curves = _curves(c)
    rows, columns, _ = curves.shape
    now = learned_columns(curves.shape, task_of_row)
    if not (now.sum(axis=1) == 1).all():
        raise SettingError("LIBERO's metrics need exactly one task per row in task_of_row.")
    learned = now.argmax(axis=1)
    fresh = _fresh(variant, confusion, (rows, columns))

    e_star: list[int | None] = []
    matrix = np.full((rows, columns), np.nan)
    held_mean = np.full(rows, np.nan)
    for row in range(rows):
        curve = curves[row, learned[row]]
        if np.isnan(curve).any():
            e_star.append(None)
            continue
        best = int(curve.argmax())  # argmax is the earliest maximum
        e_star.append(best)
        held_mean[row] = (curve[:best].sum() + (curve.size - best) * curve[best]) / curve.size
        seen = learned[: row + 1]
        matrix[row, seen] = curves[row, seen, best]
    if fresh is not None:
        matrix = np.where(np.logical_or.accumulate(now, axis=0), fresh, np.nan)

    fwt_k, nbt_k, auc_k = [], [], []
    for task in dict.fromkeys(learned.tolist()):
        start = int(now[:, task].argmax())
        later = matrix[start + 1 :, task][learned[start + 1 :] != task]
        fwt_k.append(held_mean[start])
        nbt_k.append((matrix[start, task] - later).mean() if later.size else np.nan)
        auc_k.append((held_mean[start] + later.sum()) / (1 + later.size))
    # The last task may lack NBT by definition; any other gap makes the mean undefined.
    nbt_terms = [0.0 if k == len(nbt_k) - 1 else value for k, value in enumerate(nbt_k)]
    return {
        "fwt": _finite_or_none(np.mean(fwt_k)),
        "nbt": _finite_or_none(np.mean(nbt_terms)) if len(nbt_k) > 1 else None,
        "auc": _finite_or_none(np.mean(auc_k)),
        "fwt_k": [_finite_or_none(value) for value in fwt_k],
        "nbt_k": [_finite_or_none(value) for value in nbt_k],
        "auc_k": [_finite_or_none(value) for value in auc_k],
        "e_star": e_star,
        "matrix": [[_finite_or_none(value) for value in line] for line in matrix],
    }


def _curves(c: ArrayLike) -> Floats:
    try:
        curves = np.asarray(c, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(
            "c must be numbers c[i, j, e]: learned task, evaluated task, evaluation point."
        ) from None
    if curves.ndim != 3 or 0 in curves.shape:
        raise SettingError(
            "c must have three dimensions (learned task, evaluated task, evaluation point), "
            f"but its shape is {curves.shape}."
        )
    if np.isinf(curves).any():
        raise SettingError("c must be finite, or NaN where not measured, but it contains infinity.")
    return curves


def _fresh(variant: str, confusion: ArrayLike | None, shape: tuple[int, int]) -> Floats | None:
    if variant not in VARIANTS:
        raise SettingError(f"variant is {variant!r}, but it must be one of {', '.join(VARIANTS)}.")
    if variant == "paper":
        if confusion is not None:
            raise SettingError("confusion is only used by the variant 'notebook'.")
        return None
    if confusion is None:
        raise SettingError(
            "The variant 'notebook' needs confusion: the success rates [row, task] measured again "
            "after each task."
        )
    fresh = np.asarray(confusion, dtype=np.float64)
    if fresh.shape != shape:
        raise SettingError(
            f"confusion has the shape {fresh.shape}, but it must be {shape}, like c."
        )
    return fresh


def _finite_or_none(value: float | np.floating[Any]) -> float | None:
    return None if np.isnan(value) else float(value)
