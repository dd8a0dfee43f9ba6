"""One typed function for each hook whose results core combines.

pluggy returns ``Any`` and also calls hooks that no plugin implements. These functions add types
and skip such hooks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from clframe.core.hook_results import ANSWERS, refuse
from clframe.core.plugin import Plugins
from clframe.core.step import Term
from clframe.data.concat import join
from clframe.data.dataset import Batch, Data
from clframe.data.inputs import tensors_of
from clframe.errors import PluginError, nearest
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from torch import Tensor

    from clframe.core.results import Result
    from clframe.core.step import Step
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget


class HasPlugins(Protocol):
    """The part of a learner that hooks need."""

    plugins: Plugins
    stream: Stream

    @property
    def classifies(self) -> bool:
        """Whether outputs are a logit for each class."""

    def predict(self, x: Any, task: Task) -> Tensor:
        """Return core's own answer to the hook ``predict``."""


def _all(learner: HasPlugins, hook: str, /, **arguments: Any) -> list[Any]:
    """Return every plugin's answer to a hook, without None."""
    return [answer for _, answer in _named(learner, hook, **arguments)]


def _named(
    learner: HasPlugins, hook: str, of: Collection[str] | None = None, /, **arguments: Any
) -> list[tuple[str, Any]]:
    """Return every plugin's answer with the plugin's name, without None."""
    answers = learner.plugins.named_results(hook, of, **arguments)
    fits = ANSWERS[hook].fits
    for _, answer in answers:
        if not fits(answer):
            refuse(learner.plugins.manager, hook, answer, arguments)
    return answers


def _checked(learner: HasPlugins, hook: str, answer: Any, arguments: dict[str, Any]) -> Any:
    """Return the first answer to a hook, or None; raise an error if its type is wrong."""
    if answer is not None and not ANSWERS[hook].fits(answer):
        refuse(learner.plugins.manager, hook, answer, arguments)
    return answer


class TaskContext(NamedTuple):
    """A context in which a task is evaluated; see the hook ``task_context``.

    Args:
        key: Tasks with equal keys can be evaluated in one pass.
        enter: Makes the context manager.

    Example:
        >>> import contextlib
        >>> context = TaskContext(
        ...     "shared", contextlib.nullcontext
        ... )  # tasks with one key share a pass
        >>> with context.enter():
        ...     pass
    """

    key: Hashable
    enter: Callable[[], contextlib.AbstractContextManager[Any]]


def training_data(learner: HasPlugins, experience: Experience, data: Data) -> Data:
    """Return the experience's own data together with the data that plugins add."""
    extra = _all(learner, "extra_data", learner=learner, experience=experience)
    return join([data, *extra])


def fit_experience(learner: HasPlugins, experience: Experience, data: Data, budget: Budget) -> None:
    """Let the first plugin that can learn the experience do it; core's loop is asked last."""
    arguments = {"learner": learner, "experience": experience, "data": data, "budget": budget}
    done = learner.plugins.hook.fit_experience(**arguments)
    if not _checked(learner, "fit_experience", done, arguments):
        raise PluginError(f"no plugin learned experience '{experience.name}'; add 'loop'")


def extra_batches(learner: HasPlugins, batch: Batch) -> list[Batch]:
    """Return the current batch followed by the batches that plugins add to the step."""
    plugins = learner.plugins
    if not plugins.implements("extra_batches"):
        return [batch]
    parts = [batch]
    for name, result in _named(learner, "extra_batches", learner=learner, batch=batch):
        for part in [result] if isinstance(result, Batch) else result:
            part.source = name
            parts.append(part)
    return parts


def penalties(
    learner: HasPlugins, step: Step, of: Collection[str] | None = None
) -> tuple[list[Term], list[Tensor]]:
    """Return the plugins' loss terms: those in the weighted mean, and those that are added to it.

    Args:
        learner: The learner with its plugins.
        step: The step after its forward pass.
        of: Names of the plugins to ask; None for all.
    """
    plugins = learner.plugins
    if not plugins.implements("penalty"):
        return [], []
    terms: list[Term] = []
    added: list[Tensor] = []
    for name, result in _named(learner, "penalty", of, learner=learner, step=step):
        if isinstance(result, tuple):
            terms.append(Term(*result))
            step.terms.append(result[0].detach())
        else:
            added.append(result)
            step.terms.append(result.detach())
        step.term_names.append(name)
    return terms, added


# ---------------------------------------------------------------- evaluation


def task_contexts(learner: HasPlugins, task: Task) -> list[TaskContext]:
    """Return the contexts that plugins need while this task is evaluated."""
    plugins = learner.plugins
    if not plugins.implements("task_context"):
        return []
    contexts: list[TaskContext] = []
    for number, call in enumerate(plugins.calls("task_context")):
        for answer in call(learner=learner, task=task):
            if not ANSWERS["task_context"].fits(answer):
                refuse(plugins.manager, "task_context", answer, {"learner": learner, "task": task})
            key, enter = answer
            # Two plugins may use the same key, and either may have no context for a task.
            contexts.append(TaskContext((number, key), enter))
    return contexts


@contextlib.contextmanager
def in_task(learner: HasPlugins, task: Task) -> Iterator[None]:
    """Enter the contexts that plugins need while this task is evaluated."""
    with contextlib.ExitStack() as around:
        for context in task_contexts(learner, task):
            around.enter_context(context.enter())
        yield


def evaluate_tasks(learner: HasPlugins, tasks: Sequence[Task]) -> dict[str, dict[str, float]]:
    """Evaluate groups of tasks in one pass each; return nothing if tasks go one by one."""
    groups: dict[tuple[Hashable, ...], list[Task]] = {}
    for task in tasks:
        key = tuple(context.key for context in task_contexts(learner, task))
        groups.setdefault(key, []).append(task)
    results: dict[str, dict[str, float]] = {}
    for group in groups.values():
        arguments = {"learner": learner, "tasks": group}
        with in_task(learner, group[0]):
            answer = learner.plugins.hook.evaluate_tasks(**arguments)
            results |= _checked(learner, "evaluate_tasks", answer, arguments) or {}
    return results


def evaluate_task(learner: HasPlugins, task: Task) -> dict[str, float]:
    """Return the measures of the first evaluator that can evaluate this task."""
    arguments = {"learner": learner, "task": task}
    with in_task(learner, task):
        answer = learner.plugins.hook.evaluate_task(**arguments)
        measures: dict[str, float] | None = _checked(learner, "evaluate_task", answer, arguments)
    if not measures:
        raise PluginError(f"no evaluator plugin can evaluate task '{task.name}'")
    return measures


def on_progress(
    learner: HasPlugins, unit: str, done: int, total: int | None, task: str = ""
) -> None:
    """Report progress to the plugins that show it."""
    if learner.plugins.implements("on_progress"):
        learner.plugins.hook.on_progress(
            learner=learner, unit=unit, done=done, total=total, task=task
        )


def predict(learner: HasPlugins, x: Any, task: Task) -> Tensor:
    """Return the scores of the first plugin that predicts, or the learner's own."""
    if not learner.plugins.implements("predict"):
        return learner.predict(x, task)
    arguments = {"learner": learner, "x": x, "task": task}
    scores: Tensor | None = learner.plugins.hook.predict(**arguments)
    if scores is None:
        return learner.predict(x, task)
    if learner.classifies:  # Outputs of a policy can have any form.
        right = (len(tensors_of(x)[0]), learner.stream.n_outputs)
        if not ANSWERS["predict"].fits(scores) or tuple(scores.shape) != right:
            refuse(learner.plugins.manager, "predict", scores, arguments)
    return scores


# ---------------------------------------------------------------- end


def metrics(learner: HasPlugins, result: Result) -> dict[str, dict[str, Any]]:
    """Return all metrics of a finished run by family; store plugins' metric facts in it."""
    families: dict[str, dict[str, Any]] = {}
    for answer in _all(learner, "metrics", result=result):
        for family, values in answer.items():
            families.setdefault(family, {}).update(values)
    for plugin in learner.plugins.ordered:
        for info in plugin.metric_info:
            family, _, name = info.name.partition(".")
            if name in families.get(family, {}):
                result.metric_facts[info.name] = info.to_json()
            elif family in families:
                warn_user(
                    f"plugin '{plugin.name}' gives a direction for metric '{info.name}', "
                    f"which does not exist; {nearest(name, families[family])}"
                )
    return families


def teardown(learner: HasPlugins, error: BaseException | None) -> None:
    """Let every plugin clean up, even if another one fails.

    Raises:
        Exception: The first plugin's error, if the run itself did not fail.
    """
    first: Exception | None = None
    for call in learner.plugins.calls("teardown"):
        try:
            call(learner=learner, error=error)
        except Exception as problem:
            first = first or problem
    if first is not None and error is None:
        raise first
