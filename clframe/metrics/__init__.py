"""Metrics of continual and lifelong learning as plain functions of arrays.

Definitions clash under common names (three meanings of BWT and of FWT). Every family therefore has
its own function, and reports print the family first: ``openloris.bwt``, ``gem.bwt``. See
docs/metrics.md.

The packages ``l2`` and ``behavior`` are imported when first used.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from clframe.metrics.accuracy_transfer import (
    average_over_run,
    forgetting,
    gem,
    intransigence,
    learning_accuracy,
    matrix_metrics,
    openloris,
    stability_plasticity,
)
from clframe.metrics.continual_metrics import continual
from clframe.metrics.continual_world_metrics import continual_world
from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.libero_metrics import libero
from clframe.metrics.measured_metrics import classes, cost, online, plasticity, predictions
from clframe.metrics.robustness_metrics import robustness

__all__ = [
    "MetricInfo",
    "average_over_run",
    "classes",
    "continual",
    "continual_world",
    "cost",
    "forgetting",
    "gem",
    "intransigence",
    "learning_accuracy",
    "libero",
    "matrix_metrics",
    "metric",
    "online",
    "openloris",
    "plasticity",
    "predictions",
    "robustness",
    "stability_plasticity",
]

_LAZY = ("behavior", "l2")


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])
