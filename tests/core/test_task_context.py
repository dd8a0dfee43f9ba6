"""What plugins ask for while a task is measured: held around it, tasks alike in one pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from clframe import Learner, Plugin, hookimpl
from clframe.core import hooks
from clframe.core.hooks import TaskContext
from clframe.core.stream import Task
from clframe.run import measure
from clframe.testing import prepare, run_built, toy_stream


class Asks(Plugin):
    """Asks for something while tasks are measured.

    Args:
        name: Of the plugin.
        keys: By task; a task without has no context.
        held: Where it is noted what is entered and left.
    """

    def __init__(self, name: str, keys: dict[str, Any], held: list[str]) -> None:
        self.name = name
        self.keys = keys
        self.held = held

    @contextlib.contextmanager
    def _hold(self, task: Task) -> Iterator[None]:
        self.held.append(f"{self.name} enters {task.name}")
        try:
            yield
        finally:
            self.held.append(f"{self.name} leaves {task.name}")

    @hookimpl
    def task_context(self, task: Task) -> TaskContext | None:
        """One for the tasks that have a key."""
        if task.name not in self.keys:
            return None
        return TaskContext(self.keys[task.name], lambda: self._hold(task))


class Measures(Plugin):
    """Says which tasks are measured, alone or together.

    Args:
        together: Whether it measures several at once.
        held: Where that is noted.
    """

    def __init__(self, together: bool, held: list[str]) -> None:
        self.at_once = together
        self.held = held

    @hookimpl
    def evaluate_tasks(self, tasks: Sequence[Task]) -> dict[str, dict[str, float]] | None:
        """One measure for each."""
        if not self.at_once:
            return None
        self.held.append("measure " + " ".join(task.name for task in tasks))
        return {task.name: {"accuracy": 0.5} for task in tasks}

    @hookimpl
    def evaluate_task(self, task: Task) -> dict[str, float]:
        """One measure."""
        self.held.append(f"measure {task.name}")
        return {"accuracy": 0.25}


def learner_with(*plugins: Plugin) -> Learner:
    return prepare(toy_stream("task", n_experiences=4), list(plugins), max_epochs=1).learner


def test_tasks_with_equal_keys_are_measured_in_one_pass() -> None:
    held: list[str] = []
    keys = {"task0": "a", "task1": "b", "task2": "a"}
    learner = learner_with(Asks("asks", keys, held), Measures(True, held))
    results = hooks.evaluate_tasks(learner, learner.stream.tasks)
    assert list(results) == ["task0", "task2", "task1", "task3"]
    assert held == [
        "asks enters task0",
        "measure task0 task2",
        "asks leaves task0",
        "asks enters task1",
        "measure task1",
        "asks leaves task1",
        "measure task3",
    ]


def test_keys_must_be_equal_for_all_plugins() -> None:
    held: list[str] = []
    one = Asks("one", dict.fromkeys(("task0", "task1", "task2", "task3"), 0), held)
    two = Asks("two", {"task0": 1, "task1": 1, "task2": 2, "task3": 2}, held)
    learner = learner_with(one, two, Measures(True, held))
    hooks.evaluate_tasks(learner, learner.stream.tasks)
    assert held == [
        "one enters task0",
        "two enters task0",
        "measure task0 task1",
        "two leaves task0",
        "one leaves task0",
        "one enters task2",
        "two enters task2",
        "measure task2 task3",
        "two leaves task2",
        "one leaves task2",
    ]


def test_plugins_with_equal_keys_are_not_taken_for_each_other() -> None:
    """One asks for the first task and another, by the same key, for the second."""
    held: list[str] = []
    one, two = Asks("one", {"task0": 1}, held), Asks("two", {"task1": 1}, held)
    learner = learner_with(one, two, Measures(True, held))
    hooks.evaluate_tasks(learner, learner.stream.tasks[:2])
    assert held == [
        "one enters task0",
        "measure task0",
        "one leaves task0",
        "two enters task1",
        "measure task1",
        "two leaves task1",
    ]


def test_a_task_by_itself_is_measured_within_its_context() -> None:
    held: list[str] = []
    learner = learner_with(Asks("asks", {"task1": 1}, held), Measures(False, held))
    assert hooks.evaluate_task(learner, learner.stream.tasks[1]) == {"accuracy": 0.25}
    assert held == ["asks enters task1", "measure task1", "asks leaves task1"]
    held.clear()
    hooks.evaluate_task(learner, learner.stream.tasks[0])
    assert held == ["measure task0"]


def test_a_row_goes_task_by_task_where_nobody_measures_several() -> None:
    held: list[str] = []
    learner = learner_with(Asks("asks", {"task0": 1, "task1": 1}, held), Measures(False, held))
    results = measure(learner)
    assert [name for name in results] == ["task0", "task1", "task2", "task3"]
    assert [line for line in held if line.startswith("measure")] == [
        "measure task0",
        "measure task1",
        "measure task2",
        "measure task3",
    ]
    assert held.count("asks enters task0") == held.count("asks leaves task0") == 2


def test_a_context_is_left_when_measuring_fails() -> None:
    class Fails(Plugin):
        """Cannot measure."""

        @hookimpl(tryfirst=True)
        def evaluate_task(self) -> dict[str, float]:
            """Refuse."""
            raise ValueError("cannot")

    held: list[str] = []
    learner = learner_with(Asks("asks", {"task0": 1}, held), Fails())
    with pytest.raises(ValueError, match="cannot"):
        hooks.evaluate_task(learner, learner.stream.tasks[0])
    assert held == ["asks enters task0", "asks leaves task0"]


def test_core_measures_groups_as_it_measures_single_tasks() -> None:
    held: list[str] = []
    built = prepare(
        toy_stream("task", n_experiences=4),
        Asks("asks", {"task0": 1, "task1": 2, "task3": 1}, held),
        {"name": "mlp", "hidden": [16]},
        max_epochs=2,
    )
    run_built(built)
    learner = built.learner
    learner.eval()
    together = hooks.evaluate_tasks(learner, learner.stream.tasks)
    single = {task.name: hooks.evaluate_task(learner, task) for task in learner.stream.tasks}
    assert together == single
    assert sum("enters" in line for line in held) == sum("leaves" in line for line in held)
