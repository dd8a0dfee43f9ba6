"""A wrong answer to a hook is one sentence: the plugin, the hook, what came, what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe import Learner, Plugin, hookimpl
from clframe.cli.main import main
from clframe.core.hook_results import ANSWERS
from clframe.core.hooks import TaskContext
from clframe.core.step import Term
from clframe.hookspecs import HOOKS, HookSpecs
from clframe.plugins.builtin.metrics import Metrics
from clframe.testing import toy_run, toy_stream

WRONG: list[tuple[str, Any, str]] = [
    ("extra_data", [1, 2], "list of 2 int"),
    ("fit_experience", False, "the bool False"),
    ("fit_experience", 0.25, "the float 0.25"),
    ("extra_batches", torch.zeros(3), r"Tensor\[3\]"),
    ("extra_batches", [torch.zeros(3)], "list of 1 Tensor"),
    ("penalty", 0, "the int 0"),
    ("penalty", torch.zeros(3), r"Tensor\[3\]"),
    ("penalty", torch.tensor(1), r"Tensor\[\]"),
    ("penalty", (torch.tensor(1.0), "much"), "tuple of 2"),
    ("task_context", TaskContext("key", "no function"), "TaskContext of 2 str"),  # type: ignore[arg-type]
    ("evaluate_tasks", {"task0": 0.5}, "dict of 1"),
    ("evaluate_task", 0.5, "the float 0.5"),
    ("evaluate_task", {"accuracy": "good"}, "dict of 1"),
    ("predict", [0.5], "list of 1 float"),
    ("predict", torch.zeros(1, 2), r"Tensor\[1, 2\]"),
    ("metrics", {"mine": 0.5}, "dict of 1"),
    ("metrics", {"mine": {"error": torch.tensor(0.5)}}, "dict of 1"),
]


def answering(hook: str, answer: Any) -> Plugin:
    def method(self: Plugin) -> Any:
        return answer

    method.__name__ = hook
    return type("Answers", (Plugin,), {hook: hookimpl(method)})()


@pytest.mark.parametrize(("hook", "answer", "words"), WRONG)
def test_a_wrong_answer_is_one_sentence(hook: str, answer: Any, words: str) -> None:
    sentence = f"plugin 'answers' returned {words} from {hook}; return .* None"
    with pytest.raises(clframe.PluginError, match=sentence) as caught:
        toy_run([answering(hook, answer)], toy_stream(n_experiences=1, samples=8), max_epochs=1)
    assert "\n" not in str(caught.value)


def test_every_hook_whose_answer_is_used_is_checked() -> None:
    used = {
        hook
        for hook in HOOKS
        if "return value is not used" not in " ".join(getattr(HookSpecs, hook).__doc__.split())
    }
    assert used == set(ANSWERS) == {hook for hook, _, _ in WRONG}


class Gives(Plugin):
    """Gives the right thing."""

    @hookimpl
    def penalty(self, learner: Learner) -> Term:
        """A term of the weighted mean."""
        return Term(0.0 * next(learner.model.parameters()).sum(), 1.0)


def test_among_several_plugins_the_one_is_named() -> None:
    with pytest.raises(clframe.PluginError, match=r"^plugin 'answers' returned the float 0.5"):
        toy_run([Gives(), answering("penalty", 0.5)], toy_stream(n_experiences=1, samples=8))


def test_the_command_ends_with_two_and_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "from clframe import Plugin, hookimpl\n\n\nclass Wrong(Plugin):\n    @hookimpl\n"
        "    def extra_batches(self):\n        return 'no batch'\n"
    )
    words = [f"plugin_path={file}", "strategy=wrong", "max_epochs=1", f"run_dir={tmp_path / 'run'}"]
    assert main(["fit", *words]) == 2
    error = capfd.readouterr().err
    assert "plugin 'wrong' returned 'no batch' from extra_batches" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_predict_may_hand_its_task_on_to_the_learner(scenario: Any) -> None:
    class Hands(Plugin):
        """Predicts as core does."""

        @hookimpl
        def predict(self, learner: Learner, x: Any, task: clframe.Task) -> Any:
            """The learner's own scores."""
            return learner(x, task)

    stream = toy_stream(scenario, n_experiences=2, samples=8)
    own, plain = toy_run([Hands()], stream)[0], toy_run([], stream)[0]
    assert (own.matrix.values == plain.matrix.values).all()


def test_a_metric_that_returns_no_numbers_by_name_is_named() -> None:
    result, _ = toy_run([], toy_stream(n_experiences=1, samples=8), max_epochs=1)
    plugin = Metrics({"mine": lambda result: 0.5})  # type: ignore[dict-item, return-value]
    with pytest.raises(clframe.PluginError, match=r"metric 'mine' returned 0.5; return a dict"):
        plugin.metrics(result)
