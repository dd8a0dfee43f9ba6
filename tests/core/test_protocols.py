"""Wrong models, policies, streams and learners are refused by name, before anything is learned."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import clframe
from clframe import Learner, LearnerFactory, Model, PluginError, Policy, Task
from clframe.cli.main import main
from clframe.core.protocols import RobotStream, check_model, policy_of
from clframe.core.stream import TaskEvaluation
from clframe.testing import prepare, run_built, toy_stream

ROBOT = {"name": "point_robot", "n_tasks": 1, "num_demos": 2, "eval_episodes": 1, "num_workers": 0}


class Loose(nn.Linear):
    """Has methods of a policy, and derives from nothing."""

    def action_loss(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return (outputs - actions).abs().mean()


# ------------------------------------------------------------ when the class is made


def test_a_policy_with_other_parameters_is_refused_when_its_class_is_made() -> None:
    message = r"Short\.action_loss must take \(self, outputs, actions\)"
    with pytest.raises(PluginError, match=message):

        class Short(Policy, nn.Linear):
            def action_loss(self, outputs: Tensor) -> Tensor:  # type: ignore[override]
                return outputs.sum()


def test_a_policy_whose_method_is_a_value_is_refused() -> None:
    with pytest.raises(PluginError, match=r"Number\.acting must be a method with the parameters"):

        class Number(Policy, nn.Linear):
            acting = 3  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["squared_error", "steers", "categorical", "acts"])
def test_a_value_of_a_policy_that_is_a_method_is_refused(name: str) -> None:
    """A method would count as true."""
    with pytest.raises(PluginError, match=rf"Says\.{name} must be a value or a property"):
        type("Says", (Policy, nn.Linear), {name: lambda self: False})


def test_a_subclass_of_a_policy_is_checked_too() -> None:
    class First(Policy, nn.Linear):
        """Overrides nothing."""

    with pytest.raises(PluginError, match=r"Second\.prepare_stream must take \(self, stream, dev"):

        class Second(First):
            def prepare_stream(self, stream: Any) -> Any:  # type: ignore[override]
                return stream


def test_values_and_properties_can_replace_each_other() -> None:
    class Steering(Policy, nn.Linear):
        steers = True  # type: ignore[assignment]
        acts = {"head": "own"}  # type: ignore[assignment]  # noqa: RUF012

    assert policy_of(Steering(2, 2)).steers


def test_a_learner_with_other_parameters_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(PluginError, match=r"Bare\.task_loss must take \(self, outputs, batch\)"):

        class Bare(Learner):
            def task_loss(self, outputs: Any) -> Tensor:  # type: ignore[override]
                return outputs.sum()  # type: ignore[no-any-return]


def test_a_learner_factory_with_other_parameters_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(PluginError, match=r"Bare\.learner_class must take \(self, stream\)"):

        class Bare(LearnerFactory):
            def learner_class(self) -> Any:  # type: ignore[override]
                return Learner


# ------------------------------------------------------------ when the run is built


def test_a_policy_that_derives_from_nothing_is_refused_on_a_robot_stream() -> None:
    with pytest.raises(
        PluginError, match=r"Loose has 'action_loss' .*class Loose\(clframe\.Policy"
    ):
        prepare(ROBOT, model=Loose(8, 2))


def test_the_same_model_is_accepted_where_nothing_acts() -> None:
    stream = toy_stream()
    model = nn.Sequential(Loose(8, 6))
    check_model(Loose(8, 6), acts=False)
    result = run_built(prepare(stream, model=Loose(8, 6), max_epochs=1))
    assert result.matrix.values.shape == (4, 3)
    check_model(model, acts=True)  # methods of its layers are their own affair


def test_a_model_with_prepare_stream_that_derives_from_nothing_is_refused_everywhere() -> None:
    class Preparing(nn.Linear):
        def prepare_stream(self, stream: Any, device: Any) -> Any:
            return stream

    for acts in (False, True):
        with pytest.raises(PluginError, match="Preparing has 'prepare_stream'"):
            check_model(Preparing(8, 6), acts)


def test_a_model_that_is_no_policy_acts_by_its_outputs() -> None:
    """What it overrides of Model is used; only methods of Policy would not be."""

    class Plain(Model, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LazyLinear(2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)  # type: ignore[no-any-return]

    prepare(ROBOT, model=Plain())

    class Half(Plain):
        def action_of(self, outputs: Tensor, generator: Any) -> Tensor:
            return outputs

    with pytest.raises(PluginError, match=r"Half has 'action_of' but does not derive from clframe"):
        prepare(ROBOT, model=Half())


def test_a_model_that_returns_no_stream_is_refused() -> None:
    class Forgetful(Model, nn.Linear):
        def prepare_stream(self, stream: Any, device: Any) -> Any:
            pass

    with pytest.raises(PluginError, match=r"Forgetful\.prepare_stream returned None; return a cl"):
        prepare(toy_stream(), model=Forgetful(8, 6))


# ------------------------------------------------------------ streams


def test_a_robot_stream_names_the_methods_that_are_missing() -> None:
    @dataclasses.dataclass(frozen=True, eq=False)
    class Bare(RobotStream):
        """Declares nothing."""

    task = toy_stream().tasks[0]
    experience = toy_stream().experiences[0]
    with pytest.raises(PluginError, match=r"Bare has no 'layout', 'sequences', 'with_chunks', 'wi"):
        Bare("bare", "task", [experience], [task], (8,), 2)  # type: ignore[abstract]


def test_a_robot_stream_with_other_parameters_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(PluginError, match=r"Wrong\.with_chunks must take \(self, chunk\)"):

        class Wrong(RobotStream):
            def with_chunks(self) -> Any:  # type: ignore[override]
                return self


def test_how_a_task_is_evaluated_is_a_description() -> None:
    assert Task(0, "a", (0,)).evaluation is None
    description = TaskEvaluation()
    assert Task(0, "a", (0,), evaluation=description).evaluation is description
    assert description.validation is None
    wrong: Any = {"episodes": 3}
    with pytest.raises(PluginError, match=r"task 'a': evaluation is a dict, .*TaskEvaluation"):
        Task(0, "a", (0,), evaluation=wrong)


def test_robot_tasks_say_how_they_are_evaluated() -> None:
    from clframe.robot.evaluation import Evaluation, episodes_of

    (task,) = prepare(ROBOT).stream.tasks
    assert isinstance(task.evaluation, Evaluation)
    assert episodes_of(task) is task.evaluation
    assert "evaluation" not in task.info
    with pytest.raises(clframe.SettingError, match="task 'task0' has no environment to act in"):
        episodes_of(toy_stream().tasks[0])


# ------------------------------------------------------------ on the command line

HEAD = "import torch\nfrom torch import nn\nimport clframe\nfrom clframe import hookimpl\n"
REGISTER = "@hookimpl\ndef register(registry):\n    registry.add({kind!r}, 'mine', {what})\n"
ON_ROBOT = [
    "stream=point_robot", "stream.n_tasks=1", "stream.num_demos=2", "stream.eval_episodes=1",
    "stream.num_workers=0",
]  # fmt: skip
WRONG: dict[str, tuple[str, list[str], str]] = {
    "policy": (
        "class Net(clframe.Policy, nn.Linear):\n    def reset(self): pass\n",
        ["model=mine"],
        "Net.reset must take (self, begun)",
    ),
    "loose": (
        "class Net(nn.LazyLinear):\n    def action_loss(self, outputs, actions): pass\n"
        + REGISTER.format(kind="model", what="lambda n_outputs: Net(n_outputs)"),
        ["model=mine", *ON_ROBOT],
        "Net has 'action_loss' but does not derive from clframe.Policy",
    ),
    "no_module": (
        REGISTER.format(kind="model", what="lambda: 3"),
        ["model=mine"],
        "model 'mine' is a int: return a torch.nn.Module",
    ),
    "no_stream": (
        REGISTER.format(kind="stream", what="lambda: None"),
        ["stream=mine"],
        "stream 'mine' is a NoneType: return a clframe.Stream",
    ),
    "no_factory": (
        REGISTER.format(kind="learner", what="lambda: clframe.Learner"),
        ["learner=mine"],
        "learner 'mine' is a type: register a subclass of clframe.LearnerFactory",
    ),
    "no_learner": (
        "class Mine(clframe.LearnerFactory):\n    def learner_class(self, stream): pass\n"
        + REGISTER.format(kind="learner", what="Mine"),
        ["learner=mine"],
        "Mine.learner_class returned None; return a subclass of clframe.Learner",
    ),
    "no_prepared": (
        "class Mine(clframe.LearnerFactory):\n"
        "    def prepare_stream(self, stream, model, engine): pass\n"
        + REGISTER.format(kind="learner", what="Mine"),
        ["learner=mine"],
        "Mine.prepare_stream returned None; return a clframe.Stream",
    ),
    "logger": (
        "class Log(clframe.RunLogger):\n    pass\n",
        ["logger=mine"],
        "Log has no method 'log_metrics'",
    ),
    "no_logger": (
        REGISTER.format(kind="logger", what="lambda: {}"),
        ["logger=mine"],
        "logger 'mine' is a dict without 'log_metrics'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_command_line_ends_in_one_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, words, message = WRONG[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    Path("mine.py").write_text(HEAD + code)
    assert main(["fit", "plugin_path=mine.py", *words, "max_steps=1", "run_dir=run"]) == 2
    error = capfd.readouterr().err
    assert message in " ".join(error.split())
    assert error.startswith("clframe: ")
    assert "Traceback" not in error
    assert not Path("run").exists()


def test_draws_of_a_policy_come_from_the_generator_it_is_given() -> None:
    class Drawing(Policy, nn.Linear):
        def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
            return outputs + torch.randn(outputs.shape, generator=generator)

    learner = prepare(ROBOT, model=nn.Sequential(nn.Flatten(), nn.LazyLinear(2))).learner
    outputs = torch.zeros(3, 2)
    assert learner.action_of(outputs, torch.Generator()).equal(outputs)
    drawing = prepare(ROBOT, model=Drawing(5, 2)).learner
    first = drawing.action_of(outputs, torch.Generator().manual_seed(1))
    again = drawing.action_of(outputs, torch.Generator().manual_seed(1))
    assert first.equal(again)
    assert not first.equal(outputs)
