"""One typed function per hook whose results core combines; the rest of core calls these.

pluggy returns ``Any`` and calls even empty hooks; here results get their types and a hook that no
plugin has is skipped.
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
    """A learner, as far as hooks are concerned."""

    plugins: Plugins
    stream: Stream

    def predict(self, x: Any, task: Task) -> Tensor:
        """Core's own answer to the hook ``predict``."""


def _all(learner: HasPlugins, hook: str, /, **arguments: Any) -> list[Any]:
    """Every plugin's answer to a hook that is not None."""
    return [answer for _, answer in _named(learner, hook, **arguments)]


def _named(
    learner: HasPlugins, hook: str, of: Collection[str] | None = None, /, **arguments: Any
) -> list[tuple[str, Any]]:
    """Every plugin's answer that is not None, with the plugin's name."""
    answers = learner.plugins.answers(hook, of, **arguments)
    fits = ANSWERS[hook].fits
    for _, answer in answers:
        if not fits(answer):
            refuse(learner.plugins.manager, hook, answer, arguments)
    return answers


def _checked(learner: HasPlugins, hook: str, answer: Any, arguments: dict[str, Any]) -> Any:
    """Return the first answer to a hook, None if there is none; refuse one of another type."""
    if answer is not None and not ANSWERS[hook].fits(answer):
        refuse(learner.plugins.manager, hook, answer, arguments)
    return answer


class TaskContext(NamedTuple):
    """What has to hold while a task is measured; see the hook ``task_context``.

    Args:
        key: Tasks with equal keys can be measured in one pass.
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
    """The experience's own data joined with what plugins add."""
    extra = _all(learner, "extra_data", learner=learner, experience=experience)
    return join([data, *extra])


def fit_experience(learner: HasPlugins, experience: Experience, data: Data, budget: Budget) -> None:
    """Let the first plugin that can learn the experience do it; core's loop comes last."""
    arguments = {"learner": learner, "experience": experience, "data": data, "budget": budget}
    done = learner.plugins.hook.fit_experience(**arguments)
    if not _checked(learner, "fit_experience", done, arguments):
        raise PluginError(f"no plugin learned experience '{experience.name}'; add 'loop'")


def extra_batches(learner: HasPlugins, batch: Batch) -> list[Batch]:
    """The current batch followed by what plugins add to the step."""
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
    """The plugins' loss terms: those that join the weighted mean, and those that are added.

    Args:
        learner: With the plugins.
        step: After its forward pass.
        of: The names of the plugins that are asked; None for all.
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
    """What plugins ask for while this task is measured."""
    plugins = learner.plugins
    if not plugins.implements("task_context"):
        return []
    contexts: list[TaskContext] = []
    for number, call in enumerate(plugins.calls("task_context")):
        for answer in call(learner=learner, task=task):
            if not ANSWERS["task_context"].fits(answer):
                refuse(plugins.manager, "task_context", answer, {"learner": learner, "task": task})
            key, enter = answer
            # Two plugins may have equal keys, and either may have none for a task.
            contexts.append(TaskContext((number, key), enter))
    return contexts


@contextlib.contextmanager
def in_task(learner: HasPlugins, task: Task) -> Iterator[None]:
    """Hold what plugins ask for while this task is measured."""
    with contextlib.ExitStack() as around:
        for context in task_contexts(learner, task):
            around.enter_context(context.enter())
        yield


def evaluate_tasks(learner: HasPlugins, tasks: Sequence[Task]) -> dict[str, dict[str, float]]:
    """What was measured in one pass per group of tasks; empty where tasks go one by one."""
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
    """What the first evaluator that can measure this task says."""
    arguments = {"learner": learner, "task": task}
    with in_task(learner, task):
        answer = learner.plugins.hook.evaluate_task(**arguments)
        measures: dict[str, float] | None = _checked(learner, "evaluate_task", answer, arguments)
    if not measures:
        raise PluginError(f"no evaluator plugin could measure task '{task.name}'")
    return measures


def on_progress(
    learner: HasPlugins, unit: str, done: int, total: int | None, task: str = ""
) -> None:
    """Tell whoever shows it how far the work at hand is."""
    if learner.plugins.implements("on_progress"):
        learner.plugins.hook.on_progress(
            learner=learner, unit=unit, done=done, total=total, task=task
        )


def predict(learner: HasPlugins, x: Any, task: Task) -> Tensor:
    """Scores of the first plugin that predicts; else the learner's own."""
    if not learner.plugins.implements("predict"):
        return learner.predict(x, task)
    arguments = {"learner": learner, "x": x, "task": task}
    scores: Tensor | None = learner.plugins.hook.predict(**arguments)
    if scores is None:
        return learner.predict(x, task)
    if getattr(learner, "classifies", False):  # what a policy's outputs are is its own affair
        right = (len(tensors_of(x)[0]), learner.stream.n_outputs)
        if not ANSWERS["predict"].fits(scores) or tuple(scores.shape) != right:
            refuse(learner.plugins.manager, "predict", scores, arguments)
    return scores


# ---------------------------------------------------------------- end


def metrics(learner: HasPlugins, result: Result) -> dict[str, dict[str, Any]]:
    """All metrics of a finished run, by family, and in the result what plugins say of theirs."""
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
                    f"plugin '{plugin.name}' says which direction of metric '{info.name}' is "
                    f"better, but there is none of that name; {nearest(name, families[family])}"
                )
    return families


def teardown(learner: HasPlugins, error: BaseException | None) -> None:
    """Let every plugin clean up, even where another one fails to.

    Raises:
        Exception: The first one's that failed, where the run itself did not.
    """
    first: Exception | None = None
    for call in learner.plugins.calls("teardown"):
        try:
            call(learner=learner, error=error)
        except Exception as problem:
            first = first or problem
    if first is not None and error is None:
        raise first
