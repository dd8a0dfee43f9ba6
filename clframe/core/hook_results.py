"""Check what plugins return from hooks, and name the plugin that returned something wrong.

Only the type and shape of an answer are checked, so no step waits for a device. The plugin is
identified only after a check has failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import pluggy
from torch import Tensor

from clframe.core.step import Term
from clframe.data.dataset import Batch, Data
from clframe.errors import PluginError


class Answer(NamedTuple):
    """A description of valid answers to a hook.

    Args:
        fits: Returns whether an answer is valid.
        wanted: A description of valid answers, for messages.
    """

    fits: Callable[[Any], bool]
    wanted: str


def _is_batches(answer: Any) -> bool:
    return isinstance(answer, Batch) or (
        isinstance(answer, list | tuple) and all(isinstance(one, Batch) for one in answer)
    )


def _is_term(answer: Any) -> bool:
    if isinstance(answer, tuple):
        return len(answer) == 2 and _is_loss(answer[0]) and _is_number(answer[1])
    return _is_loss(answer)


def _is_loss(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point()


def _is_number(value: Any) -> bool:
    return hasattr(type(value), "__float__") and getattr(value, "ndim", 0) == 0


def _is_context(answer: Any) -> bool:
    return isinstance(answer, tuple) and len(answer) == 2 and callable(answer[1])


def _is_measures(answer: Any) -> bool:
    return (
        isinstance(answer, Mapping)
        and bool(answer)
        and all(isinstance(name, str) and _is_number(value) for name, value in answer.items())
    )


def _is_measures_of_tasks(answer: Any) -> bool:
    return isinstance(answer, Mapping) and all(_is_measures(one) for one in answer.values())


def _is_families(answer: Any) -> bool:
    return isinstance(answer, Mapping) and all(
        isinstance(family, str)
        and isinstance(values, Mapping)
        and all(isinstance(name, str) and _is_written(value) for name, value in values.items())
        for family, values in answer.items()
    )


def _is_written(value: Any) -> bool:
    """Return whether results.json can hold a value."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_written(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_written, value))
    return value is None or isinstance(value, bool | int | float | str)


ANSWERS: dict[str, Answer] = {
    "extra_data": Answer(lambda answer: isinstance(answer, Data), "a clframe Data, or None"),
    "fit_experience": Answer(
        lambda answer: answer is True,
        "True if it learned the experience, or None to leave it to the next",
    ),
    "extra_batches": Answer(_is_batches, "a clframe.Batch, a list of them, or None"),
    "penalty": Answer(
        _is_term, "a tensor with one floating-point number, a clframe.Term(value, weight), or None"
    ),
    "task_context": Answer(
        _is_context, "a TaskContext(key, enter) whose enter returns a context manager, or None"
    ),
    "evaluate_tasks": Answer(
        _is_measures_of_tasks,
        "a dict from each task's name to its measures, such as {'task0': {'accuracy': 0.5}}, "
        "or None",
    ),
    "evaluate_task": Answer(
        _is_measures, "a dict from measure to number, such as {'accuracy': 0.5}, or None"
    ),
    "predict": Answer(
        lambda answer: isinstance(answer, Tensor),
        "a tensor with a row for each sample and a score for each output, or None",
    ),
    "metrics": Answer(
        _is_families,
        "a dict of families such as {'mine': {'error': 0.5}}, whose values are plain numbers, "
        "lists of them or None, or None",
    ),
}
"""Descriptions of valid answers, by hook."""


def describe(value: Any) -> str:
    """Describe an answer in a few words.

    >>> describe([1, 2]), describe({"a": 1}), describe(0.5), describe(None)
    ('list of 2 int', 'dict of 1', '0.5', '-')
    """
    if value is None:
        return "-"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{type(value).__name__}{list(shape)}"
    if isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= 24 else f"{text[:20]}...{text[-1]}"
    if isinstance(value, Term):
        return f"Term of {describe(value.value)}"
    if hasattr(value, "__len__"):
        text = f"{type(value).__name__} of {len(value)}"
        if isinstance(value, list | tuple) and value:
            kinds = {type(one).__name__ for one in value}
            return f"{text} {kinds.pop()}" if len(kinds) == 1 else text
        return text
    return type(value).__name__


def refuse(
    manager: pluggy.PluginManager, hook: str, answer: Any, arguments: dict[str, Any]
) -> NoReturn:
    """Raise an error that names the plugin, its wrong answer to a hook, and a valid one.

    Args:
        manager: The manager of the learner's plugins.
        hook: The hook's name.
        answer: The wrong answer.
        arguments: The arguments of the hook call.

    Raises:
        PluginError: Always.
    """
    who = " or ".join(f"'{name}'" for name in _who_answered(manager, hook, arguments))
    kind = "" if isinstance(answer, str) else _kind(answer)
    raise PluginError(
        f"plugin {who} returned {kind}{describe(answer)} from {hook}; return {ANSWERS[hook].wanted}"
    )


def _kind(answer: Any) -> str:
    """Return the type name of a plain value, which its text does not show."""
    return f"the {type(answer).__name__} " if isinstance(answer, int | float) else ""


def _who_answered(manager: pluggy.PluginManager, hook: str, arguments: dict[str, Any]) -> list[str]:
    """Return the plugins that may have given a wrong answer, usually one.

    Answers carry no names. If several plugins implement the hook, each is called once more, which
    is
    harmless because the run ends here.
    """
    chosen: list[Any] = [one.plugin for one in getattr(manager.hook, hook).get_hookimpls()]
    own = [plugin for plugin in chosen if not type(plugin).__module__.startswith("clframe.")]
    chosen = own or chosen
    if len(chosen) > 1 and hook != "fit_experience":
        wrong = [plugin for plugin in chosen if not _is_right(plugin, hook, arguments)]
        chosen = wrong or chosen
    return [plugin.name for plugin in reversed(chosen)]


def _is_right(plugin: Any, hook: str, arguments: dict[str, Any]) -> bool:
    function = getattr(plugin, hook)
    wanted = function.__code__.co_varnames[: function.__code__.co_argcount]
    with contextlib.suppress(Exception):
        answer = function(**{name: arguments[name] for name in wanted if name in arguments})
        return answer is None or ANSWERS[hook].fits(answer)
    return True
