"""``CLFRAME_TRACE``: which hook was called, who answered, and how long it took."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from torch import Tensor

import clframe
from clframe import Learner, Plugin, hookimpl
from clframe.core.hook_results import describe
from clframe.core.trace import mode
from clframe.testing import toy_stream

LINE = re.compile(r"trace  *(\w+) +(\d+\.\d\d) ms  (.+)")


class Adds(Plugin):
    """Adds a term to the loss."""

    @hookimpl
    def penalty(self, learner: Learner) -> Tensor:
        """Nothing, as a tensor."""
        return 0.0 * next(learner.model.parameters()).sum()

    @hookimpl(wrapper=True)
    def evaluate_task(self) -> Generator[None, Any, Any]:
        """Goes around all others, so that tasks are measured one by one."""
        return (yield)


class Looks(Plugin):
    """Looks at every step."""

    @hookimpl
    def after_step(self) -> None:
        """Nothing."""


def fit(**values: Any) -> clframe.Result:
    return clframe.fit(
        toy_stream(samples=32),
        [Adds(), Looks()],
        {"name": "mlp", "hidden": [8]},
        max_epochs=2,
        batch_size=16,
        run_dir=False,
        progress=False,
        **values,
    )


def lines(error: str) -> list[tuple[str, float, str]]:
    """Hook, milliseconds and answers of every line."""
    found = []
    for line in error.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        found.append((match[1], float(match[2]), match[3]))
    return found


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def trace(value: str) -> list[tuple[str, float, str]]:
        monkeypatch.setenv("CLFRAME_TRACE", value)
        fit()
        return lines(capsys.readouterr().err)

    return trace


@pytest.mark.parametrize("value", ["", "0"])
def test_nothing_is_printed_unless_asked_for(value: str, traced: Any) -> None:
    assert traced(value) == []
    assert mode() == ""


def test_every_call_has_a_line_and_steps_one_per_experience(traced: Any) -> None:
    calls = traced("1")
    count = Counter(hook for hook, _, _ in calls)
    assert count["before_experience"] == 0  # nobody has that hook here
    assert count["fit_experience"] == 3
    assert count["penalty"] == count["after_step"] == 3
    assert count["evaluate_task"] == 4 * 3
    assert count["metrics"] == 2  # of the families, and of each class
    answers = {hook: who for hook, _, who in calls}
    assert re.fullmatch(r"adds \d+\.\d\d ms Tensor\[\]", answers["penalty"])
    assert re.fullmatch(r"looks \d+\.\d\d ms -", answers["after_step"])
    assert re.fullmatch(r"accuracy \d+\.\d\d ms dict of 1", answers["evaluate_task"])


def test_calls_within_a_call_are_not_taken_for_its_answers(traced: Any) -> None:
    for hook, took, answers in traced("1"):
        if hook == "fit_experience":
            match = re.fullmatch(r"loop (\d+\.\d\d) ms True", answers)
            assert match, answers
            assert 0 < float(match[1]) <= took


def test_all_prints_the_hooks_of_every_step(traced: Any) -> None:
    count = Counter(hook for hook, _, _ in traced("all"))
    assert count["penalty"] == count["after_step"] == 3 * 2 * 4
    assert count["fit_experience"] == 3


def test_a_trace_changes_no_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = fit()
    monkeypatch.setenv("CLFRAME_TRACE", "1")
    assert (fit().matrix.values == plain.matrix.values).all()
    assert capsys.readouterr().err


def test_a_call_that_fails_is_traced_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Fails(Plugin):
        """Fails in the second experience."""

        @hookimpl
        def after_experience(self, learner: Learner) -> None:
            """Refuse it."""
            if len(learner.seen) == 2:
                raise clframe.ClframeError("no more")

        @hookimpl
        def teardown(self) -> None:
            """Is still called."""

    monkeypatch.setenv("CLFRAME_TRACE", "1")
    with pytest.raises(clframe.ClframeError, match="no more"):
        clframe.fit(toy_stream(), Fails(), max_epochs=1, run_dir=False, progress=False)
    calls = lines(capsys.readouterr().err)
    hooks = [(hook, who) for hook, _, who in calls]
    assert hooks[-2] == ("after_experience", "nobody answered")
    assert hooks[-1][0] == "teardown"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "-"),
        (True, "True"),
        (0.5, "0.5"),
        ("a", "'a'"),
        ([1, 2], "list of 2 int"),
        ({"a": 1}, "dict of 1"),
        (object(), "object"),
    ],
)
def test_answers_are_a_few_words(value: Any, words: str) -> None:
    assert describe(value) == words
