"""What cannot be built says so in one sentence with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import clframe
from clframe.cli.main import main
from clframe.errors import ClframeError, DataError, SettingError, UnknownNameError
from clframe.robot import demonstrations
from clframe.robot.collect import path_of
from clframe.robot.demonstrations import Demonstration
from clframe.streams.tabletop import ordered, task, tasks
from clframe.worlds.bddl import BDDLError, parse
from clframe.worlds.tabletop.env import TabletopEnv, make
from clframe.worlds.tabletop.observation import suite_layout
from clframe.worlds.tabletop.world import World

TEXT = tasks("tabletop_goal")[8].text


def built(*changes: tuple[str, str]) -> World:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    world = World(parse(text))
    world.reset(np.random.default_rng(0))
    return world


def test_an_object_without_a_model() -> None:
    change = ("akita_black_bowl_1 - akita_black_bowl", "akita_black_bowl_1 - akita_black_bowls")
    with pytest.raises(BDDLError, match=r"akita_black_bowls; did you mean 'akita_black_bowl'\?"):
        built(change)


def test_a_region_off_the_table() -> None:
    change = ("(0.04 -0.03 0.060000000000000005 -0.01)", "(0.94 -0.03 0.96 -0.01)")
    with pytest.raises(BDDLError, match="main_table_plate_region cannot be reached") as caught:
        built(change)
    assert caught.value.line > 1


def test_two_objects_that_do_not_fit() -> None:
    change = ("(On plate_1 main_table_plate_region)", "(On plate_1 main_table_cream_cheese_region)")
    with pytest.raises(
        BDDLError, match=r"(plate|cream_cheese)_1 and (plate|cream_cheese)_1 do not both fit"
    ):
        built(change)


def test_an_object_that_is_nowhere() -> None:
    with pytest.raises(BDDLError, match="plate_1 is nowhere at the start"):
        built(("(On plate_1 main_table_plate_region)", ""))


def test_an_object_in_two_places() -> None:
    twice = "(On plate_1 main_table_plate_region) (On plate_1 main_table_cream_cheese_region)"
    with pytest.raises(BDDLError, match="plate_1 starts in two places"):
        built(("(On plate_1 main_table_plate_region)", twice))


def test_a_place_that_the_model_does_not_have() -> None:
    change = (
        "(cook_region\n          (:target flat_stove_1)",
        "(oven\n          (:target flat_stove_1)",
    )
    with pytest.raises(BDDLError, match="The model of flat_stove_1 has no place 'oven'"):
        built(change)


def test_something_that_cannot_be_opened() -> None:
    change = (
        "(On plate_1 main_table_plate_region)",
        "(On plate_1 main_table_plate_region)\n(Open plate_1)",
    )
    with pytest.raises(BDDLError, match="plate_1 is nothing that can be opened or closed"):
        built(change)


def test_a_predicate_of_another_world() -> None:
    with pytest.raises(BDDLError, match="The simulation cannot decide 'cooked'"):
        built().holds(("cooked", "plate_1"))


def test_a_behavior_problem() -> None:
    text = (
        "(define (problem p) (:domain igibson) (:objects cup.n.01_1 - cup.n.01)"
        "(:init (open cup.n.01_1)) (:goal (open ?cup.n.01_1)))"
    )
    with pytest.raises(BDDLError, match="LIBERO's dialect"):
        World(parse(text))


def test_policies_that_are_no_good() -> None:
    env = make("tabletop_goal", "7")
    env.reset(seed=0)
    with pytest.raises(DataError, match="has 7 numbers"):
        env.step(np.zeros(6))
    with pytest.raises(DataError, match="holds NaN or infinity"):
        env.step(np.full(7, np.nan))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: tasks("tabletop_goals"), UnknownNameError),
        (lambda: task("tabletop_goal", "turn_on_the_stoves"), UnknownNameError),
        (lambda: ordered(tasks("tabletop_goal"), "shufled1"), SettingError),
        (lambda: make("tabletop_goal", "7", cameras=("agent",)), SettingError),
        (lambda: make("tabletop_goal", "7", horizon=0), SettingError),
        (lambda: TabletopEnv("no_such_file.bddl"), ClframeError),
    ],
)
def test_names_and_settings(wrong: object, error: type[ClframeError]) -> None:
    assert callable(wrong)
    with pytest.raises(error):
        wrong()


def recorded(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A file of demonstrations as a fit would record it, and the settings of that fit."""
    settings: dict[str, Any] = {
        "tasks": [7],
        "num_demos": 2,
        "eval_episodes": 1,
        "horizon": 5,
        "num_workers": 0,
    }
    stream = clframe.stream("tabletop_goal", data_dir=folder, **settings)
    robot = stream.tasks[0].evaluation.robot
    path = path_of(robot, folder)
    rows = np.zeros((3, suite_layout("tabletop_goal").of("arm").size), np.float32)
    demo = Demonstration(np.zeros((3, 7), np.float32), {"state": rows})
    demonstrations.write(path, robot.name, robot.language, {}, [demo, demo])
    return path, settings


def fit(folder: Path, settings: dict[str, Any], *more: str) -> int:
    """Fit with the demonstrations in the folder; returns the exit code."""
    words = [f"stream.{name}={value}" for name, value in settings.items()]
    places = [f"data_dir={folder}", f"run_dir={folder / 'run'}"]
    return main(["fit", "stream=tabletop_goal", "max_epochs=1", *words, *places, *more])


def without_state(file: Any) -> None:
    del file["data/demo_1/obs/state"]


def without_actions(file: Any) -> None:
    del file["data/demo_1/actions"]


def other_actions(file: Any) -> None:
    del file["data/demo_1/actions"]
    file["data/demo_1/actions"] = np.zeros((3, 4), np.float32)


def other_state(file: Any) -> None:
    del file["data/demo_1/obs/state"]
    file["data/demo_1/obs/state"] = np.zeros((3, 39), np.float32)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (without_state, r"data/demo_1 has no observation 'state'"),
        (without_actions, r"data/demo_1 must hold 'actions' and 'obs', has dones, obs, rewards"),
        (other_actions, r"data/demo_1/actions has 4 numbers per step, but the task's robot has 7"),
        (
            other_state,
            r"data/demo_1/obs/state has 39 numbers per step, but the task's robot has 133",
        ),
    ],
)
def test_files_that_do_not_fit_the_robot(
    spoil: Callable[[Any], None],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, settings = recorded(tmp_path)
    with h5py.File(path, "a") as file:
        spoil(file)
    code = fit(tmp_path, settings)
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert len(lines) == 1
    assert str(path) in lines[0]
    assert re.search(sentence, lines[0])
    assert not (tmp_path / "run").exists()


def test_a_policy_that_outputs_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, settings = recorded(tmp_path)
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "import torch\n"
        "import clframe\n"
        "class Broken(clframe.Plugin):\n"
        "    name = 'broken'\n"
        "    @clframe.hookimpl\n"
        "    def after_epoch(self, learner):\n"
        "        for parameter in learner.model.parameters():\n"
        "            torch.nn.init.constant_(parameter, float('nan'))\n"
    )
    code = fit(tmp_path, settings, "strategy=broken", f"plugin_path={plugin}")
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert "turn_on_the_stove" in lines[-1]
    assert "holds NaN or infinity; its training has probably diverged" in lines[-1]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "akita_black_bowl_1 - akita_black_bowl",
            "akita_black_bowl_1 - akita_black_bowls",
            r"akita_black_bowls; did you mean 'akita_black_bowl'\?",
        ),
        (
            "(0.04 -0.03 0.060000000000000005 -0.01)",
            "(0.94 -0.03 0.96 -0.01)",
            "main_table_plate_region cannot be reached: it is outside the workspace",
        ),
        (
            "(On plate_1 main_table_plate_region)",
            "(On plate_1 main_table_cream_cheese_region)",
            "plate_1.* do not both fit where the task puts them; move or widen",
        ),
        ("(:goal", "(:gaol", "gaol"),
        (
            "(On akita_black_bowl_1 plate_1)",
            "(On akita_black_bowl_1 main_table_akita_black_bowl_region)",
            "The goal holds at the start",
        ),
    ],
)
def test_own_task_files_that_cannot_be_built(
    old: str, new: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in TEXT
    path = tmp_path / "mine.bddl"
    path.write_text(TEXT.replace(old, new))
    run = tmp_path / "run"
    code = main(["fit", "stream=tabletop_files", f"stream.files=[{path}]", f"run_dir={run}"])
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert len(lines) == 1
    assert re.match(rf"clframe: {path}:\d+:\d+: .*{sentence}", lines[0])
    assert not run.exists()


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("tabletop_files", {}, "put task files in"),
        ("tabletop_files", {"files": ["nowhere.bddl"]}, "'nowhere.bddl' cannot be read"),
        ("tabletop_goal", {"files": ["mine.bddl"]}, "use files with stream=tabletop_files"),
        ("tabletop_generated", {"layout": "common"}, "omit stream.layout"),
    ],
)
def test_settings_of_streams(name: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClframeError, match=sentence):
        clframe.stream(name, **settings)
