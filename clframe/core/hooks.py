"""One typed function per hook whose results core combines; the rest of core calls these.

pluggy returns ``Any`` and calls even empty hooks; here results get their types and a hook that no
plugin has is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clframe.data.dataset import Batch, Data
from clframe.data.joined import join
from clframe.errors import PluginError

if TYPE_CHECKING:
    from torch import Tensor

    from clframe.core.learner import Learner, Step, Term
    from clframe.core.results import Result
    from clframe.core.stream import Experience, Task
    from clframe.training.loop import Budget


def training_data(learner: Learner, experience: Experience, own: Data) -> Data:
    """The experience's own data joined with what plugins add."""
    extra = learner.plugins.hook.extra_data(learner=learner, experience=experience)
    return join([own, *(data for data in extra if data is not None)])


def fit_experience(learner: Learner, experience: Experience, data: Data, budget: Budget) -> None:
    """Let the first plugin that can learn the experience do it; core's loop comes last."""
    done = learner.plugins.hook.fit_experience(
        learner=learner, experience=experience, data=data, budget=budget
    )
    if not done:
        raise PluginError(f"no plugin learned experience '{experience.name}'; add 'loop'")


def extra_batches(learner: Learner, batch: Batch) -> list[Batch]:
    """The current batch followed by what plugins add to the step."""
    plugins = learner.plugins
    if not plugins.implements("extra_batches"):
        return [batch]
    parts = [batch]
    for result in plugins.hook.extra_batches(learner=learner, batch=batch):
        if isinstance(result, Batch):
            parts.append(result)
        elif result is not None:
            parts.extend(result)
    return parts


def penalties(learner: Learner, step: Step) -> tuple[list[Term], list[Tensor]]:
    """The plugins' loss terms: those that join the weighted mean, and those that are added."""
    plugins = learner.plugins
    if not plugins.implements("penalty"):
        return [], []
    terms: list[Term] = []
    added: list[Tensor] = []
    for result in plugins.hook.penalty(learner=learner, step=step):
        if isinstance(result, tuple):
            terms.append(result)  # type: ignore[arg-type]
            step.terms.append(result[0].detach())
        elif result is not None:
            added.append(result)
            step.terms.append(result.detach())
    return terms, added


def evaluate_tasks(learner: Learner, tasks: Sequence[Task]) -> dict[str, dict[str, float]]:
    """What was measured in one go; empty where tasks have to be measured one by one."""
    found: dict[str, dict[str, float]] | None = learner.plugins.hook.evaluate_tasks(
        learner=learner, tasks=tasks
    )
    return found or {}


def evaluate_task(learner: Learner, task: Task) -> dict[str, float]:
    """What the first evaluator that can measure this task says."""
    measures: dict[str, float] | None = learner.plugins.hook.evaluate_task(
        learner=learner, task=task
    )
    if not measures:
        raise PluginError(f"no evaluator plugin could measure task '{task.name}'")
    return measures


def predict(learner: Learner, x: Any, task: Task) -> Tensor:
    """Scores of the first plugin that predicts; core's evaluator comes last."""
    scores: Tensor = learner.plugins.hook.predict(learner=learner, x=x, task=task)
    return scores


def metrics(learner: Learner, result: Result) -> dict[str, dict[str, Any]]:
    """All metrics of a finished run, by family."""
    families: dict[str, dict[str, Any]] = {}
    for found in learner.plugins.hook.metrics(result=result):
        for family, values in (found or {}).items():
            families.setdefault(family, {}).update(values)
    return families
