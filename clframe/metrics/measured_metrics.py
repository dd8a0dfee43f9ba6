"""Metrics of measurements besides the matrix: one family for each measuring plugin.

The plugins (``strategy=er+plasticity+predictions``) measure after each experience and store
their values by experience; this module declares them and their better direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clframe.metrics.info import Arguments, MetricInfo, metric

if TYPE_CHECKING:
    from clframe.core.results import Result

Values = Mapping[str, Sequence[float | None]]


def _of(plugin: str) -> Arguments:
    """Return a function that reads a plugin's measurements as the argument of its family."""

    def arguments(result: Result) -> dict[str, Any] | None:
        measured = result.measured.get(plugin)
        return {"values": measured["values"]} if measured else None

    return arguments


def _reduced(
    values: Values, reduce: Callable[[Sequence[float | None]], float | None]
) -> dict[str, Any]:
    """Return one number of each list, and the list itself under ``NAME_k``."""
    numbers = {name: reduce(line) for name, line in values.items()}
    return {**numbers, **{f"{name}_k": list(line) for name, line in values.items()}}


def _last(line: Sequence[float | None]) -> float | None:
    return line[-1] if line else None


def _sum(line: Sequence[float | None]) -> float | None:
    numbers = [value for value in line if value is not None]
    return sum(numbers) if numbers else None


@metric(
    MetricInfo(
        "accuracy", "correct predictions / samples, of batches before they are learned",
        "prequential accuracy: each sample of an experience once, before its first step",
        low=0, high=1, words="accuracy on each batch before it is learned",
    ),
    paper="Gama et al., On evaluating stream learning algorithms, 2013",
    summary="Online (prequential) accuracy (strategy=...+online).",
    per="experience",
    arguments=lambda result: result.measured.get("online"),
)  # fmt: skip
def online(right: Sequence[int], taken: Sequence[int]) -> dict[str, Any]:
    """Return the accuracy on incoming samples, each predicted before it is learned.

    Args:
        right: Correctly predicted samples of each experience.
        taken: Samples of each experience.

    Example:
        >>> online(right=[60, 90], taken=[100, 100])["accuracy"]
        0.75
    """
    each = [hits / n if n else None for hits, n in zip(right, taken, strict=True)]
    return {"accuracy": sum(right) / sum(taken) if sum(taken) else None, "accuracy_k": each}


@metric(
    MetricInfo(
        "balanced_accuracy", "mean over classes of (correct predictions / samples of the class)",
        "accuracy at the end, with equal weight for every class",
        low=0, high=1, paper="Brodersen et al., ICPR 2010",
    ),
    MetricInfo(
        "worst_accuracy", "min over classes of (correct predictions / samples of the class)",
        "accuracy at the end on the class with the lowest one", low=0, high=1, paper="clframe",
    ),
    summary="Accuracy by class at the end of a run.",
    arguments=lambda result: result.measured.get("classes"),
)  # fmt: skip
def classes(
    names: Sequence[str], right: Sequence[int], tested: Sequence[int], **more: Any
) -> dict[str, Any]:
    """Return the accuracy of each class on all tasks together, after the last experience.

    Args:
        names: Names of the classes.
        right: Correctly predicted test samples of each class.
        tested: Test samples of each class, at least one.
        **more: Other recorded values.

    Example:
        >>> classes(["cup", "drill"], right=[90, 0], tested=[90, 10])
        {'balanced_accuracy': 0.5, 'worst_accuracy': 0.0, 'worst_class': 'drill'}
    """
    shares = [hits / n for hits, n in zip(right, tested, strict=True)]
    worst = min(range(len(shares)), key=lambda index: shares[index])
    return {
        "balanced_accuracy": sum(shares) / len(shares),
        "worst_accuracy": shares[worst],
        "worst_class": names[worst],
    }


@metric(
    MetricInfo(
        "dormant", "share of units with a / (mean of a over the layer) ≤ tau, a = mean of abs(h)",
        "share of dormant units", higher_is_better=False, low=0, high=1,
        words="share of dormant units", paper="Sokar et al., ICML 2023, Definition 3.1",
    ),
    MetricInfo(
        "srank", "least k with (sum of the k largest s) / (sum of all) ≥ 1 - delta",
        "effective rank of the features, Kumar's definition", low=0,
        paper="Kumar et al., ICLR 2021, section 3",
    ),
    MetricInfo(
        "effective_rank", "exp(- sum p log p), p = s / sum s",
        "effective rank of the features, Roy and Vetterli's definition", low=0,
        paper="Roy and Vetterli, EUSIPCO 2007",
    ),
    MetricInfo(
        "stable_rank", "sum s² / max s²", "stable rank of the features", low=0,
        paper="Rudelson and Vershynin, 2007",
    ),
    MetricInfo(
        "weight_norm", "sqrt(sum w²), all parameters that are trained",
        "norm of the weights", higher_is_better=None, low=0, paper="Dohare et al., Nature 2024",
    ),
    paper="Sokar et al., ICML 2023",
    summary="Signs of lost plasticity after each experience (strategy=...+plasticity).",
    per="experience",
    arguments=_of("plasticity"),
)  # fmt: skip
def plasticity(values: Values) -> dict[str, Any]:
    """Return dormant units, ranks of the features (s: singular values) and the weights' norm.

    Each number is the value after the last experience.

    Args:
        values: By name, a value per experience.

    Example:
        >>> plasticity({"dormant": [0.0, 0.25]})["dormant"]
        0.25
    """
    return _reduced(values, _last)


@metric(
    MetricInfo(
        "ece", "sum over 15 bins b of n_b / n abs(acc(b) - conf(b))",
        "expected calibration error on the tasks learned so far", higher_is_better=False,
        low=0, high=1, words="expected calibration error",
        paper="Guo et al., ICML 2017, Eq. 3 (Naeini et al., AAAI 2015)",
    ),
    MetricInfo(
        "top_k", "share of samples whose class is among the k highest scores",
        "top-k accuracy on the tasks learned so far", low=0, high=1,
        paper="Russakovsky et al., ImageNet, 2015",
    ),
    MetricInfo(
        "class_mean", "mean over classes of the share predicted correctly",
        "accuracy of each class learned so far, mean over classes", low=0, high=1,
        paper="Brodersen et al., ICPR 2010 (balanced accuracy)",
    ),
    MetricInfo(
        "class_worst", "min over classes of the share predicted correctly",
        "accuracy of the worst class learned so far", low=0, high=1,
        paper="clframe",
    ),
    paper="Guo et al., ICML 2017",
    summary="Calibration, top-k and classes after each experience (strategy=...+predictions).",
    per="experience",
    arguments=_of("predictions"),
)  # fmt: skip
def predictions(values: Values) -> dict[str, Any]:
    """Return calibration and accuracy by class, over all tasks learned so far together.

    Each number is the value after the last experience.

    Args:
        values: By name, a value per experience.

    Example:
        >>> predictions({"ece": [0.1, 0.05]})["ece"]
        0.05
    """
    return _reduced(values, _last)


@metric(
    MetricInfo(
        "state_bytes", "bytes of the tensors in the strategy's saved state",
        "what the method must keep between experiences: buffers, importance, sums",
        higher_is_better=False, low=0, unit="bytes", paper="clframe",
        words="bytes that the strategy keeps",
    ),
    MetricInfo(
        "held_bytes", "bytes of all tensors that the strategy's plugins hold",
        "the same with teachers, masks and caches", higher_is_better=False, low=0, unit="bytes",
        paper="clframe",
    ),
    MetricInfo(
        "train_flops", "sum over steps of the operations of matrix products and convolutions",
        "operations of training steps, forward and backward, including those of plugins",
        higher_is_better=False, low=0, unit="flop", paper="torch.utils.flop_counter",
    ),
    paper="clframe",
    summary="Memory and operations of a strategy (strategy=...+cost).",
    per="experience",
    arguments=_of("cost"),
)  # fmt: skip
def cost(values: Values) -> dict[str, Any]:
    """Return the bytes kept after the last experience, and the operations of all experiences.

    Args:
        values: By name, a value per experience.

    Example:
        >>> cost({"state_bytes": [10, 20], "held_bytes": [10, 30], "train_flops": [5, 7]})[
        ...     "train_flops"
        ... ]
        12
    """
    last = _reduced(values, _last)
    return {**last, "train_flops": _sum(values["train_flops"])}
