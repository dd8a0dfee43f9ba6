"""Continual evaluation: metrics of curves that were measured every few training steps.

``A_i(n)`` is the accuracy on task ``i`` at the ``n``-th measurement (``trainer
.evaluate_every_n_steps``). Curves are listed by experience. A task is in them from the
experience on that learns it first, so that it can be forgotten in the later ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clframe.metrics.info import MetricInfo, metric

if TYPE_CHECKING:
    from clframe.core.results import Result

Floats = NDArray[np.float64]
_WINDOWS = (10, 100)


def _of_run(result: Result) -> dict[str, Any] | None:
    """Return the arguments for a run that was measured within training."""
    measured = result.measured.get("continual_evaluation")
    if not measured:
        return None
    curves = list(measured["experiences"].values())
    return {"steps": [c["steps"] for c in curves], "values": [c["tasks"] for c in curves]}


@metric(
    MetricInfo(
        "min_acc", "mean over earlier tasks i of min over n of A_i(n), n after i was learned",
        "the lowest accuracy of each earlier task since it was learned, mean over tasks",
        low=0, high=1, words="lowest accuracy since a task was learned, mean over earlier tasks",
    ),
    MetricInfo(
        "wc_acc", "A_k(end) / k + (1 - 1 / k) min_acc, k tasks",
        "worst-case accuracy: the last task as it is, the others at their lowest", low=0, high=1,
    ),
    MetricInfo(
        "stability_gap",
        "mean over experiences k > 1 and earlier tasks i: min(A_i(start), A_i(end)) - min A_i ≥ 0",
        "what of an earlier task is lost and regained within an experience",
        higher_is_better=False, low=0, high=1,
        words="lost on earlier tasks and regained within an experience",
        paper="clframe, for the phenomenon of De Lange et al., ICLR 2023",
    ),
    MetricInfo(
        "wf_10", "mean over i of max of A_i(m) - A_i(n), m < n within 10 measurements",
        "windowed forgetting: the steepest fall of each task", higher_is_better=False,
        low=0, high=1,
    ),
    MetricInfo(
        "wf_100", "the same within 100 measurements", "windowed forgetting, a wider window",
        higher_is_better=False, low=0, high=1,
    ),
    MetricInfo(
        "wp_10", "mean over i of max of A_i(n) - A_i(m), m < n within 10 measurements",
        "windowed plasticity: the steepest rise of each task", low=0, high=1,
    ),
    MetricInfo(
        "wp_100", "the same within 100 measurements", "windowed plasticity, a wider window",
        low=0, high=1,
    ),
    MetricInfo(
        "auc", "sum over n of (s_n - s_(n-1)) mean over seen i of A_i(n) / s_end, at step s_n",
        "area under the accuracy of the tasks seen so far, over the steps of the run",
        low=0, high=1, paper="Koh et al., i-Blurry (CLIB), ICLR 2022, A_AUC",
        words="accuracy on the tasks seen so far at any time of the run",
    ),
    paper="De Lange et al., ICLR 2023, Eq. 2-5",
    summary="Within training: worst-case accuracy, stability gap, anytime accuracy.",
    per="experience",
    arguments=_of_run,
)  # fmt: skip
def continual(
    steps: Sequence[Sequence[int]], values: Sequence[Mapping[str, Sequence[float]]]
) -> dict[str, Any]:
    """Minimum and worst-case accuracy, the stability gap, windowed changes and anytime accuracy.

    De Lange et al., "Continual evaluation for lifelong learning: Identifying the stability gap",
    ICLR 2023: ``min_acc`` is Eq. 2, ``wc_acc`` Eq. 3, ``wf`` and ``wp`` the windowed forgetting and
    plasticity of their section 3 (a window counts measurements, which equals their definition
    in steps if each step is measured). The paper shows the gap but has no number for it;
    ``stability_gap`` is the part of a fall that the same experience recovers: the lower of the
    values before and after it, minus its lowest one. Koh et al., "Online continual learning on
    class incremental blurry task configuration with anytime inference", ICLR 2022, sum accuracy
    times samples; ``auc`` does so by steps, divides by their number, and weights tasks equally.

    >>> found = continual([[5, 10], [15, 20]], [{"a": [0.5, 1.0]}, {"a": [0.2, 0.8], "b": [0, 1]}])
    >>> [round(found[name], 3) for name in ("min_acc", "wc_acc", "stability_gap", "wf_10", "auc")]
    [0.2, 0.6, 0.6, 0.4, 0.625]

    Args:
        steps: For each experience, the measured steps, counted over the run.
        values: For each experience, the accuracies at these steps, by task.

    Returns:
        The metrics, None if no task is an earlier one; ``stability_gap_k`` is the mean over
        tasks in each experience.
    """
    curves = [
        {task: np.asarray(line, np.float64) for task, line in by_task.items()} for by_task in values
    ]
    whole: dict[str, list[Floats]] = {}
    first: dict[str, int] = {}
    gaps: list[float | None] = []
    for k, by_task in enumerate(curves):
        falls = []
        for task, line in by_task.items():
            if task in whole:
                falls.append(min(whole[task][-1][-1], line[-1]) - line.min())
            else:
                first[task], whole[task] = k, []
            whole[task].append(line)
        # If the lowest value is the end itself, nothing was regained.
        gaps.append(float(np.mean([max(fall, 0.0) for fall in falls])) if falls else None)
    earlier = [t for t in whole if first[t] < len(curves) - 1]
    lowest = _mean(min(line.min() for line in whole[t][1:]) for t in earlier if whole[t][1:])
    last = [float(whole[t][0][-1]) for t in whole if first[t] == len(curves) - 1]
    share = len(last) / len(whole)
    worst = None
    if lowest is not None:
        worst = share * float(np.mean(last)) + (1 - share) * lowest if last else lowest
    lines = [np.concatenate(segments) for segments in whole.values()]
    metrics: dict[str, Any] = {"min_acc": lowest, "wc_acc": worst}
    metrics["stability_gap"] = _mean(gap for gap in gaps if gap is not None)
    for width in _WINDOWS:
        metrics[f"wf_{width}"] = _mean(_steepest(-line, width) for line in lines)
    for width in _WINDOWS:
        metrics[f"wp_{width}"] = _mean(_steepest(line, width) for line in lines)
    metrics["auc"] = _area(steps, curves)
    metrics["stability_gap_k"] = gaps
    return metrics


def _steepest(line: Floats, width: int) -> float:
    """Return the highest rise between points less than ``width`` apart; 0 for none."""
    rise = 0.0
    for distance in range(1, min(width, len(line))):
        rise = max(rise, float((line[distance:] - line[:-distance]).max()))
    return rise


def _area(steps: Sequence[Sequence[int]], curves: Sequence[Mapping[str, Floats]]) -> float | None:
    """Return the mean accuracy over the tasks seen, each point weighted by the steps before it."""
    positions = np.concatenate([np.asarray(points, np.float64) for points in steps])
    heights = np.concatenate([np.mean(list(points.values()), axis=0) for points in curves])
    widths = np.diff(positions, prepend=0.0)
    return float((widths * heights).sum() / positions[-1]) if positions[-1] > 0 else None


def _mean(values: Any) -> float | None:
    numbers = list(values)
    return float(np.mean(numbers)) if numbers else None
