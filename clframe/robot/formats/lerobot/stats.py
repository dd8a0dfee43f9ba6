"""Statistics of features, as LeRobot stores them for episodes and for whole datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
Stats = dict[str, NDArray[Any]]


def of_numbers(values: NDArray[Any]) -> Stats:
    """Return the statistics of each column of ``[rows, numbers]``."""
    values = values.astype(np.float64)
    quantiles = np.quantile(values, list(QUANTILES.values()), axis=0)
    return {
        "min": values.min(0),
        "max": values.max(0),
        "mean": values.mean(0),
        "std": values.std(0),
        "count": np.array([len(values)]),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def of_images(images: NDArray[np.uint8]) -> Stats:
    """Return the statistics of each channel of ``[rows, height, width, 3]``, scaled to 0..1."""
    n = images[..., 0].size
    levels = np.arange(256)
    columns: list[Stats] = []
    for channel in range(images.shape[-1]):
        counts = np.bincount(images[..., channel].ravel(), minlength=256)
        present = np.flatnonzero(counts)
        mean = counts @ levels / n
        # The smallest level that this share of the pixels does not exceed.
        ranks = np.ceil(np.array(list(QUANTILES.values())) * n).clip(1)
        quantiles = np.searchsorted(counts.cumsum(), ranks)
        columns.append(
            {
                "min": present[0],
                "max": present[-1],
                "mean": mean,
                "std": np.sqrt(counts @ (levels - mean) ** 2 / n),
                **dict(zip(QUANTILES, quantiles, strict=True)),
            }
        )
    stats = {
        name: np.array([column[name] for column in columns], float).reshape(-1, 1, 1) / 255.0
        for name in columns[0]
    }
    return {**stats, "count": np.array([len(images)])}


def of_depth(images: NDArray[Any]) -> Stats:
    """Return the statistics of depth images ``[rows, height, width]``, in their own unit."""
    stats = of_numbers(images.reshape(-1, 1))
    shaped = {name: values.reshape(1, 1, 1) for name, values in stats.items() if name != "count"}
    return {**shaped, "count": np.array([len(images)])}


def together(parts: Sequence[Stats]) -> Stats:
    """Combine the statistics of several episodes.

    The result is exact except for quantiles, which are averaged over episodes weighted by their
    lengths, as LeRobot does.
    """
    counts = np.array([part["count"][0] for part in parts], np.float64)
    share = counts / counts.sum()

    def mean(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.tensordot(share, np.stack(values), 1)

    center = mean([part["mean"] for part in parts])
    spread = mean([part["std"] ** 2 + (part["mean"] - center) ** 2 for part in parts])
    return {
        "min": np.min([part["min"] for part in parts], 0),
        "max": np.max([part["max"] for part in parts], 0),
        "mean": center,
        "std": np.sqrt(spread),
        "count": np.array([int(counts.sum())]),
        **{name: mean([part[name] for part in parts]) for name in QUANTILES},
    }


def as_lists(stats: Mapping[str, Stats]) -> dict[str, dict[str, Any]]:
    """Convert statistics to lists for JSON."""
    return {
        feature: {name: values.tolist() for name, values in feature_stats.items()}
        for feature, feature_stats in stats.items()
    }
