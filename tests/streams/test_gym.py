"""Gymnasium's environments as tasks: real ones, and odd ones that are made here."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space

import clframe
from clframe import ClframeError
from clframe.build import Built
from clframe.checkpoint.settings import CheckpointSettings
from clframe.cli.main import main
from clframe.plugins.reptile import Reptile
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.testing import Kill, Killed, prepare, run_built
from clframe.worlds.gym.environments import Source, create
from clframe.worlds.gym.spaces import flattening_of

SAC = {"name": "sac", "steps": 24, "start_steps": 8, "epoch_steps": 10}
ACTOR = {"name": "actor", "hidden": [8]}


class Odd(gymnasium.Env[Any, Any]):
    """Counts; ends after five steps."""

    def __init__(self, action: Any = None, seen: Any = None, info: Any = None) -> None:
        self.action_space = action or spaces.Box(-1, 1, (2,))
        self.observation_space = seen or spaces.Box(-9, 9, (3,))
        self.info = info if info is not None else {"is_success": False}
        self.steps = 0

    def reset(self, **arguments: Any) -> Any:
        super().reset(seed=arguments.get("seed"))
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        told = {name: self.steps == 3 for name in self.info}
        return np.full(3, self.steps, np.float32), -1.0, self.steps == 5, False, told


def made_with(**settings: Any) -> Any:
    def make() -> gymnasium.Env[Any, Any]:
        return Odd(**settings)

    return make


def broken() -> gymnasium.Env[Any, Any]:
    return 1 / 0  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def odd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of odd environments."""
    module = SimpleNamespace(
        plain=Odd,
        silent=made_with(info={}),
        boundless=made_with(action=spaces.Box(-np.inf, np.inf, (2,))),
        several=made_with(action=spaces.MultiDiscrete([2, 3])),
        texts=made_with(seen=spaces.Text(5)),
        huge=made_with(seen=spaces.Box(0, 255, (210, 160, 3), np.uint8)),
        three=made_with(action=spaces.Box(-1, 1, (3,))),
        broken=broken,
    )
    monkeypatch.setitem(sys.modules, "odd_environments", module)  # type: ignore[arg-type]


def environment_of(stream: Any, number: int = 0) -> Any:
    return stream.tasks[number].evaluation.robot.environment()


# ---------------------------------------------------------------- what is seen and done


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 3)),
        spaces.Discrete(4, start=-1),
        spaces.MultiDiscrete([2, 3, 4]),
        spaces.MultiBinary(5),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 9, (2,))]),
        spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Dict({"c": spaces.Box(0, 1, ())})}),
    ],
)
def test_observations_are_flattened_as_gymnasium_does(space: Any) -> None:
    space.seed(3)
    made = flattening_of(space)
    assert made.size == flatten_space(space).shape[0]
    assert not made.left_out
    for _ in range(5):
        seen = space.sample()
        np.testing.assert_allclose(made.flatten(seen), flatten(space, seen).astype(np.float32))


def test_actions_are_scaled_to_the_bounds() -> None:
    ours = environment_of(clframe.stream("gym", envs=["Pendulum-v1"], success_return=-200))
    theirs = gymnasium.make("Pendulum-v1")
    state, _ = ours.reset(seed=5)
    expected, _ = theirs.reset(seed=5)
    np.testing.assert_array_equal(state["state"], expected)
    for action in (-1.0, 0.25, 1.0):
        state, reward, *_ = ours.step(np.array([action], np.float32))
        expected, expected_reward, *_ = theirs.step(np.array([2 * action], np.float32))
        np.testing.assert_array_equal(state["state"], expected)
        assert reward == pytest.approx(float(expected_reward))


def test_choices_are_numbers_of_actions() -> None:
    stream: Any = clframe.stream("gym", envs=["CartPole-v1"])
    assert stream.discrete
    assert stream.n_outputs == 2
    ours, theirs = environment_of(stream), gymnasium.make("CartPole-v1")
    ours.reset(seed=1)
    theirs.reset(seed=1)
    for choice in (0, 1, 1):
        state, *_ = ours.step(np.float32(choice))  # as a policy gives it
        np.testing.assert_array_equal(state["state"], theirs.step(choice)[0])


def test_shorter_observations_are_followed_by_zeros() -> None:
    envs = ["Pendulum-v1", "MountainCarContinuous-v0", "Pendulum-v1"]
    stream = clframe.stream("gym", envs=envs, success_return=90.0)
    assert [e.name for e in stream] == [
        "Pendulum-v1",
        "MountainCarContinuous-v0",
        "Pendulum-v1 (2)",
    ]
    state, _ = environment_of(stream, 1).reset(seed=0)
    assert state["state"].shape == (3,)
    assert state["state"][2] == 0
    assert "shorter than 3 are followed by zeros" in stream.source


# ---------------------------------------------------------------- success


def run_out(environment: Any, action: Any) -> tuple[list[bool], float]:
    environment.reset(seed=0)
    said, total = [], 0.0
    while True:
        _, reward, terminated, truncated, info = environment.step(action)
        said.append(info["success"])
        total += reward
        if terminated or truncated:
            return said, total


def test_success_is_what_the_environment_says() -> None:
    stream = clframe.stream("gym", envs=["odd_environments:plain"])
    said, _ = run_out(environment_of(stream), [0, 0])
    assert said == [False, False, True, False, False]


@pytest.mark.parametrize(("wanted", "reached"), [(-5.0, True), (-4.5, False)])
def test_a_return_is_judged_at_the_end_of_an_episode(wanted: float, reached: bool) -> None:
    """Costs add up, so a return that is still high early on says nothing."""
    stream = clframe.stream("gym", envs=["odd_environments:plain"], success_return=wanted)
    said, total = run_out(environment_of(stream), [0, 0])
    assert total == -5
    assert said == [False, False, False, False, reached]


def test_the_horizon_ends_an_episode() -> None:
    stream = clframe.stream("gym", envs=["odd_environments:plain"], success_return=-3, horizon=3)
    assert run_out(environment_of(stream), [0, 0]) == ([False, False, True], -3.0)


def test_gymnasiums_own_threshold_is_taken() -> None:
    environment = environment_of(clframe.stream("gym", envs=["CartPole-v1"]))
    assert environment.success_return == 475.0


# ---------------------------------------------------------------- other packages


def test_minigrid() -> None:
    envs = [{"id": "MiniGrid-Empty-5x5-v0", "name": "five"}, "MiniGrid-Empty-6x6-v0"]
    stream: Any = clframe.stream("gym", envs=envs, success_return=0.05)
    assert (stream.discrete, stream.n_outputs) == (True, 7)
    assert "observations without mission" in stream.source
    environment = environment_of(stream)
    seen, _ = environment.reset(seed=0)
    # Four directions (here: right) and 7 x 7 places of three numbers.
    assert seen["state"].shape == (4 + 7 * 7 * 3,)
    np.testing.assert_array_equal(seen["state"][:4], [1, 0, 0, 0])
    for choice in (2, 2, 1, 2):
        environment.step(choice)
    _, reward, terminated, _, info = environment.step(2)
    assert terminated
    assert reward > 0.9
    assert info["success"]


def test_franka_kitchen(tmp_path: Path) -> None:
    stream = clframe.stream("franka_kitchen", tasks=["microwave", "kettle"])
    assert [task.name for task in stream.tasks] == ["microwave", "kettle"]
    environment = environment_of(stream)
    first, _ = environment.reset(seed=3)
    again, _ = environment.reset(seed=3)
    np.testing.assert_array_equal(first["state"], again["state"])
    # Move the door by hand to where it has to be.
    kitchen = environment.inner.unwrapped
    joint = kitchen.robot_env.model.joint("microwave")
    kitchen.robot_env.data.qpos[joint.qposadr[0]] = -0.75
    _, reward, terminated, _, info = environment.step(np.zeros(9, np.float32))
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    result = run_built(
        prepare(
            {"name": "franka_kitchen", "tasks": ["kettle"], "horizon": 6, "eval_episodes": 1},
            model=ACTOR,
            learner=SAC,
            batch_size=4,
        )
    )
    assert result.matrix.values.shape == (2, 1)


def test_goal_environments_of_gymnasium_robotics() -> None:
    stream = clframe.stream("gym", envs=["gymnasium_robotics:FetchReach-v4"])
    said, _ = run_out(environment_of(stream), np.zeros(4, np.float32))
    assert len(said) == 50


# ---------------------------------------------------------------- learning


def test_environments_are_learned_by_reward() -> None:
    stream = {"name": "gym", "envs": ["Pendulum-v1", {"id": "Pendulum-v1", "name": "moon", "g": 2}]}
    small = {**stream, "success_return": -1500.0, "eval_episodes": 2, "horizon": 20}
    built = prepare(small, "replay", ACTOR, learner=SAC, batch_size=4)
    result = run_built(built)
    assert result.matrix.rows == ["before", "Pendulum-v1", "moon"]
    # Within 20 steps no more than 326 is lost.
    assert (result.matrix.values == 1).all()


def test_choices_are_learned_by_reward() -> None:
    stream = {
        "name": "gym",
        "envs": ["MiniGrid-Empty-5x5-v0", "minigrid:MiniGrid-Empty-6x6-v0"],
        "success_return": 0.05,
        "eval_episodes": 2,
        "horizon": 8,
        "num_envs": 2,
    }
    learner = {"name": "ppo", "steps": 32, "n_steps": 8, "n_epochs": 2}
    result = run_built(prepare(stream, learner=learner, batch_size=8))
    assert result.matrix.rows == ["before", "MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-6x6-v0"]


def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    small = {"eval_episodes": 1, "horizon": 7}
    stream = {"name": "gym", "envs": ["Pendulum-v1"], "success_return": -200.0, **small}

    def made(after: int) -> Built:
        plugins = [Reptile(form="fomaml"), Kill(after)]
        return prepare(stream, plugins, ACTOR, learner=SAC, batch_size=4)

    whole = made(10**9)
    run(whole.learner, whole.stream, "whole")
    folder = RunFolder(tmp_path / "run")
    folder.saving = CheckpointSettings(every_n_steps=3)
    killed = 0
    while True:
        parts = made(4)
        try:
            run(parts.learner, parts.stream, "parts", folder)
            break
        except Killed:
            killed += 1
    assert killed >= 3
    for name, value in whole.learner.state_dict().items():
        assert torch.equal(value, parts.learner.state_dict()[name]), name


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"envs": []}, "stream.envs needs at least one environment"),
        ({"envs": ["CartPol-v1"]}, "Gymnasium has no environment 'CartPol-v1'; did you mean"),
        ({"envs": ["no_module:x"]}, "there is no module 'no_module'"),
        ({"envs": [{"name": "x"}]}, "must be a name, or a mapping whose 'id'"),
        ({"envs": ["odd_environments:broken"]}, "cannot be made: ZeroDivisionError: division by"),
        ({"envs": [{"id": "CartPole-v1", "wind": 3}]}, "cannot be made: TypeError: .*wind"),
        (
            {"envs": ["odd_environments:silent"]},
            "'silent' does not report success .* stream.success_return",
        ),
        ({"envs": ["Pendulum-v1"]}, "'Pendulum-v1' does not report success"),
        ({"envs": ["CartPole-v1"], "horizon": 100}, "before its own limit of 500 steps, to which"),
        ({"envs": ["odd_environments:boundless"]}, "have no bounds, so they cannot be scaled"),
        ({"envs": ["odd_environments:several"]}, "has the action space MultiDiscrete; an action"),
        ({"envs": ["odd_environments:texts"]}, "is 0 numbers, and must be 1 to 10000"),
        ({"envs": ["odd_environments:huge"]}, "is 100800 numbers, and must be 1 to 10000"),
        (
            {"envs": ["odd_environments:plain", "odd_environments:three"]},
            "an action of 'three' is 3 numbers, but one of 'plain' is 2 numbers; all environments",
        ),
        (
            {"envs": ["CartPole-v1", "Pendulum-v1"], "success_return": 1},
            "'Pendulum-v1' is 1 numbers, but one of 'CartPole-v1' is one of 2 choices",
        ),
        (
            {"envs": ["odd_environments:plain", {"id": "Pendulum-v1", "name": "plain"}]},
            "two different environments are called 'plain'",
        ),
        (
            {"envs": [{"id": "Pendulum-v1", "success_return": "high"}]},
            "success_return of 'Pendulum-v1' must be a number",
        ),
    ],
)
def test_what_cannot_be_a_task_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClframeError, match=sentence):
        clframe.stream("gym", **settings)


def test_there_are_no_demonstrations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    words = ["stream=gym", "stream.envs=[MountainCarContinuous-v0]", f"run_dir={folder}"]
    assert main(["fit", *words]) == 2
    assert "stream=gym has no demonstrations; learn it by reward" in capsys.readouterr().err
    assert not folder.exists()


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(ClframeError, match=r"gymnasium_robotics is not installed: pip install 'cl"):
        clframe.stream("franka_kitchen")


def test_an_unknown_sub_task_of_the_kitchen_is_refused() -> None:
    with pytest.raises(ClframeError, match="FrankaKitchen has no 'toaster'; it has bottom burner"):
        clframe.stream("franka_kitchen", tasks=["toaster"])


def test_an_environment_that_falls_silent_is_named() -> None:
    environment = environment_of(clframe.stream("gym", envs=["odd_environments:plain"]))
    environment.reset(seed=0)
    environment.inner.info = {}
    with pytest.raises(ClframeError, match="does not say at step 1 whether the goal holds"):
        environment.step([0, 0])


@pytest.mark.parametrize(
    ("maker", "arguments"),
    [
        ("subprocess:Popen", {"args": ["touch", "made"]}),
        ("os:mkdir", {"path": "made"}),
        ("pathlib:Path", {}),
    ],
)
def test_only_what_makes_environments_is_called(
    maker: str, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The config of a run that was sent by somebody else may name anything."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClframeError, match=f"'{maker}' is not called, since it does not say"):
        create(Source(maker, arguments))
    assert not list(tmp_path.iterdir())


def test_a_name_with_a_module_imports_it() -> None:
    assert create(Source("gymnasium:CartPole-v1")).spec.id == "CartPole-v1"
