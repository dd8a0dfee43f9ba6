"""Computes every registered metric from the finished matrix.

The arithmetic is in :mod:`clframe.metrics`; here each family is registered under its name, so that
two definitions of, say, backward transfer never share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from clframe import metrics as formulas
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.results import Result

MetricFunction = Callable[["Result"], "dict[str, Any] | None"]


class Metrics(Plugin):
    """Fills ``metrics`` of results.json, one family per registered metric.

    Args:
        families: Functions of the result, by family name.
    """

    supports_batched_seeds = True

    def __init__(self, families: Mapping[str, MetricFunction]) -> None:
        self.families = dict(families)

    @hookimpl
    def metrics(self, result: Result) -> dict[str, dict[str, Any]]:
        """Each family's numbers; a family that is not defined for this run is left out."""
        found = {name: function(result) for name, function in self.families.items()}
        return {name: values for name, values in found.items() if values}


def openloris(result: Result) -> dict[str, Any]:
    """Accuracy, BWT, FWT and Over-all of OpenLORIS-Object (She et al., 2020)."""
    return dict(formulas.openloris(result.matrix.learned, result.task_of_row))


def gem(result: Result) -> dict[str, Any]:
    """ACC, BWT and FWT of GEM (Lopez-Paz & Ranzato, 2017)."""
    return dict(formulas.gem(result.matrix.learned, result.matrix.before, result.task_of_row))


def forgetting(result: Result) -> dict[str, Any]:
    """Best minus last (Chaudhry et al., 2018) and first minus last, named apart."""
    return formulas.forgetting(result.matrix.learned, result.task_of_row)


def learning_accuracy(result: Result) -> dict[str, Any]:
    """Accuracy on each task right after learning it (Riemer et al., 2019)."""
    return formulas.learning_accuracy(result.matrix.learned, result.task_of_row)


def stability_plasticity(result: Result) -> dict[str, Any]:
    """What is kept of earlier tasks and what is gained of new ones."""
    return dict(formulas.stability_plasticity(result.matrix.learned, result.task_of_row))


def average_over_run(result: Result) -> dict[str, Any]:
    """Mean over rows of the mean accuracy on the tasks seen so far."""
    return formulas.average_over_run(result.matrix.learned, result.task_of_row)


def libero(result: Result) -> dict[str, Any] | None:
    """FWT, NBT and AUC of LIBERO (Liu et al., 2023), where training was evaluated on the way."""
    points = {len(values) for tasks in result.curves.values() for values in tasks.values()}
    learned = result.matrix.learned
    single = all(len(columns) == 1 for columns in result.task_of_row)
    if len(points) != 1 or len(result.curves) != len(learned) or not single:
        return None
    c = np.repeat(learned[:, :, None], points.pop(), axis=2)
    for row, tasks in enumerate(result.curves.values()):
        for task, values in tasks.items():
            c[row, result.matrix.columns.index(task)] = values
    return formulas.libero(c, task_of_row=[columns[0] for columns in result.task_of_row])


@hookimpl
def register(registry: Registry) -> None:
    """Add the families."""
    for family in (
        openloris,
        gem,
        forgetting,
        learning_accuracy,
        stability_plasticity,
        average_over_run,
        libero,
    ):
        registry.add("metric", family.__name__, family)
