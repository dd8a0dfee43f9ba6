"""Compute every registered metric from the finished matrix.

The arithmetic and the facts are in :mod:`clframe.metrics`. Here each family is registered under its
own name, so that two definitions of, say, backward transfer never share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from clframe.core.capabilities import Capabilities
from clframe.core.hook_results import ANSWERS, describe
from clframe.core.plugin import Plugin
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl
from clframe.metrics.catalog import FAMILIES
from clframe.metrics.info import family_of
from clframe.robot.evaluation import Evaluation

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.registry import Registry
    from clframe.core.results import Result
    from clframe.core.stream import Task

MetricFunction = Callable[["Result"], "dict[str, Any] | None"]


class Metrics(Plugin):
    """The ``metrics`` of results.json, one family per registered metric.

    Args:
        families: Functions of the result, by family name.
        tasks: The measured tasks.
    """

    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, families: Mapping[str, MetricFunction], tasks: Sequence[Task] = ()) -> None:
        self.families = dict(families)
        self.tasks = tasks

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin with every registered family."""
        return cls(context.metrics, context.stream.tasks)

    @hookimpl
    def metrics(self, result: Result) -> dict[str, dict[str, Any]]:
        """Return each family's numbers, without families that are not defined for this run."""
        samples = {task.name: count for task in self.tasks if (count := _samples(task))}
        if samples:  # the uncertainty of an accuracy depends on them
            result.measured["evaluation"] = {"samples": samples}
        families: dict[str, dict[str, Any]] = {}
        for name, function in self.families.items():
            values = function(result)
            if values is not None and not ANSWERS["metrics"].fits({name: values}):
                raise PluginError(
                    f"metric '{name}' returned {describe(values)}; return a dict from name to "
                    "number, list of numbers or None, or return None if it is not defined"
                )
            if values:
                families[name] = values
                # A report made elsewhere cannot ask a user's function which direction is better.
                family = family_of(function)
                facts = {} if family is None else family.catalog(name)
                result.metric_facts |= {key: info.to_json() for key, info in facts.items()}
        return families


def _samples(task: Task) -> int:
    """Return the samples or episodes that a task is measured on; 0 if unknown."""
    evaluation = task.evaluation
    if isinstance(evaluation, Evaluation):
        return evaluation.episodes
    return 0 if task.load is None else len(task.data)


@hookimpl
def register(registry: Registry) -> None:
    """Register the families that can be computed for a run."""
    for family in FAMILIES:
        if family.arguments is not None:
            registry.add("metric", family.name, family, family.summary)
