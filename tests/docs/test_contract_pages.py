"""The pages "Write a model, policy, stream, learner, logger": files, commands, tables and messages.

Their blocks of Python are run by test_blocks.py, and ``main`` of each file by test_examples.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe.cli.main import main
from clframe.core.protocols import RobotStream
from clframe.core.stream import Experience, Stream, Task
from clframe.testing import check_model, check_stream, prepare, toy_stream
from clframe.utils.overrides import members
from clframe.worlds.environment import Environment, as_environment
from tests.helpers.pages import ROOT, blocks, commands

PAGES = ("own_model", "own_policy", "own_stream", "own_learner", "own_logger")


def page(name: str) -> Path:
    return ROOT / "docs" / f"{name}.md"


def text_of(name: str) -> str:
    return " ".join(page(name).read_text().split())


def example(name: str) -> str:
    return (ROOT / "examples" / f"{name}.py").read_text()


# ------------------------------------------------------------ the file


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_the_whole_file(name: str) -> None:
    shown = [block.text for block in blocks(page(name)) if block.language == "python"]
    assert example(name) in shown, f"copy examples/{name}.py into docs/{name}.md"


@pytest.mark.parametrize("name", PAGES)
def test_the_file_names_the_command_of_the_page(name: str) -> None:
    """With fewer settings: those of the page make the run short."""
    (command,) = fits(name)
    (named,) = re.findall(r"^clframe fit .*$", example(name), re.M)
    assert set(named.split()) <= set(command.split())


# ------------------------------------------------------------ the command


def fits(name: str) -> list[str]:
    return [line for line in commands(page(name)) if line.startswith("clframe fit ")]


def lines(text: str) -> list[str]:
    """Lines without spacing and numbers, which depend on the machine."""
    numberless = re.sub(r"-?\d[\d,.]*(e-?\d+)?", "#", text)
    return [" ".join(line.split()) for line in numberless.splitlines() if line.strip()]


@pytest.mark.parametrize("name", PAGES)
def test_the_command_prints_what_the_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLFRAME_DATA", str(tmp_path / "data"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (command,) = fits(name)
    assert main(shlex.split(command)[1:]) == 0
    output = capfd.readouterr()
    printed = lines(output.out) + lines(output.err)
    shown = [block for block in blocks(page(name)) if block.language == "text"]
    assert shown or name == "own_logger"
    for block in shown:
        missing = [line for line in lines(block.text) if line not in printed]
        assert not missing, f"{block}: {missing}\n{output.out}"
    if name == "own_logger":
        kept = (tmp_path / "logged" / "rows.jsonl").read_text().splitlines()
        of_page = [block for block in blocks(page(name)) if block.language == "json"]
        for row, block in zip(kept, of_page, strict=False):
            assert list(json.loads(row)) == list(json.loads(block.text)), str(block)


def test_the_example_model_and_stream_keep_the_contract() -> None:
    from clframe.core.registry import discover

    names = ("own_model", "own_stream")
    registry = discover([ROOT / "examples" / f"{name}.py" for name in names])
    check_model(registry.get("model", "tiny_conv").factory)
    check_stream(registry.get("stream", "noisy_shapes").factory(samples=20))


# ------------------------------------------------------------ the tables


def first_cells(name: str) -> set[str]:
    """Names in the first cells of tables, without parameters."""
    rows = re.findall(r"^\| (`.*?) \|", page(name).read_text(), re.M)
    found = {code for row in rows for code in re.findall(r"`(\w+)(?:\([^`]*\))?`", row)}
    return found - {"Stream", "Task", "Experience", "Learner", "LearnerFactory"}  # headings


def fields(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def own(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


DECLARED: dict[str, set[str]] = {
    "own_model": {"forward", "features", "head", "n_features", *members(clframe.Model)},
    "own_policy": set(members(clframe.Policy)),
    "own_stream": {*fields(Stream), *fields(Task), *fields(Experience)}
    | own(Environment) - {"reset", "step", "observation_space", "action_space", "innermost"},
    "own_logger": set(members(clframe.RunLogger)),
}


@pytest.mark.parametrize("name", DECLARED)
def test_the_tables_have_everything_that_can_be_overridden(name: str) -> None:
    assert first_cells(name) == DECLARED[name]


def test_the_tables_of_learners_name_what_is_there() -> None:
    named = first_cells("own_learner")
    factory = own(clframe.LearnerFactory)
    assert factory <= named
    assert all(hasattr(clframe.Learner, name) for name in named - factory)


def test_the_page_names_the_methods_of_a_robot_stream() -> None:
    for name in RobotStream.__abstractmethods__:
        assert f"`{name}`" in text_of("own_stream")


# ------------------------------------------------------------ the messages

HEAD = """
import torch, clframe
from torch import nn
from lightning.pytorch.loggers import CSVLogger
from clframe import Learner, LearnerFactory, Model, Policy, RunLogger, Task
from clframe.core.protocols import RobotStream, check_model
"""
WRONG: dict[str, list[str]] = {
    "own_model": [
        "class Mine(Model, nn.Linear):\n    def prepare_stream(self): pass",
        "class Mine(nn.Linear):\n    def prepare_stream(self, stream, device): pass\n"
        "check_model(Mine(8, 6), False)",
        "class Mine(Model, nn.Linear):\n    def prepare_stream(self, stream, device): pass\n"
        "prepare(toy, model=Mine(8, 6))",
        "registry.add('model', 'mine', lambda: 3)\nbuild('model')",
    ],
    "own_policy": [
        "class Mine(Policy, nn.Linear):\n    def action_loss(self, outputs): pass",
        "class Mine(Policy, nn.Linear):\n    def squared_error(self): return False",
        "class Mine(nn.Linear):\n    def action_loss(self, outputs, actions): pass\n"
        "check_model(Mine(8, 6), True)",
        "learner = prepare(robot, model=nn.LazyLinear(5)).learner\n"
        "learner.action_of(torch.zeros(1, 5), torch.Generator())",
    ],
    "own_stream": [
        "registry.add('stream', 'mine', lambda: None)\nbuild('stream')",
        "replace(toy, name='mine', tasks=[Task(1, 'a', (0,))])",
        "replace(toy, name='mine', tasks=[Task(0, 'a', (0,)), Task(1, 'a', (0,))])",
        "Task(0, 'a', (0,), evaluation={})",
        "class Mine(RobotStream): pass\nMine()",
        "class Mine:\n    def reset(self, seed=None): pass\nas_environment(Mine())",
        "class Mine:\n    def reset(self): pass\n    def step(self, action): pass\n"
        "as_environment(Mine())",
    ],
    "own_learner": [
        "class Mine(Learner):\n    def task_loss(self, outputs): pass",
        "class Mine(LearnerFactory):\n    def learner_class(self): pass",
        "registry.add('learner', 'mine', lambda: Learner)\nbuild('learner')",
        "class Mine(LearnerFactory):\n    def learner_class(self, stream): pass\n"
        "registry.add('learner', 'mine', Mine)\nbuild('learner')",
        "class Mine(LearnerFactory):\n    def prepare_stream(self, stream, model, engine): pass\n"
        "registry.add('learner', 'mine', Mine)\nbuild('learner')",
    ],
    "own_logger": [
        "class Mine(RunLogger): pass",
        "class Mine(RunLogger):\n    def log_metrics(self, metrics): pass",
        "class Mine(RunLogger, CSVLogger): pass",
        "registry.add('logger', 'mine', lambda: {})\nbuild('logger')",
    ],
}


def messages(name: str) -> list[str]:
    """The second column of the table of errors."""
    table = page(name).read_text().partition("\n## Errors\n")[2]
    return re.findall(r"^\| [^`|]*(?:`[^`]*`[^`|]*)*\| `(.*)` \|$", table, re.M)


@pytest.mark.parametrize("name", PAGES)
def test_mistakes_give_the_messages_of_the_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clframe import build as building
    from clframe.core.registry import discover

    assert len(messages(name)) == len(WRONG[name])
    for code, message in zip(WRONG[name], messages(name), strict=True):
        registry = discover()
        monkeypatch.setattr(building, "discover", lambda paths, made=registry: made)

        def build(kind: str) -> None:
            stream: Any = "mine" if kind == "stream" else toy_stream()
            values = {} if kind == "stream" else {kind: "mine"}
            run_dir = tmp_path / "run" if kind == "logger" else False
            config = clframe.RunConfig.of(stream, **values, run_dir=run_dir, progress=False)
            building.build(config)

        robot = {"name": "point_robot", "n_tasks": 1, "num_workers": 0}
        names = {
            "prepare": prepare, "toy": toy_stream(), "robot": robot, "registry": registry,
            "build": build, "replace": dataclasses.replace, "as_environment": as_environment,
            "__name__": "mine",
        }  # fmt: skip
        with pytest.raises(clframe.ClframeError) as caught:
            exec(HEAD + code, names)
        given = " ".join(str(caught.value).split()).replace("mine.Mine", "Mine")
        assert given.startswith(message), f"docs/{name}.md: {message}\n{given}"
