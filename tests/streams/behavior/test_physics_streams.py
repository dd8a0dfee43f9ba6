"""Streams of activities with physics: masks, learning, measures, what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

import clframe
from clframe.api import load_learner
from clframe.cli.main import main
from clframe.streams.behavior import robot_tasks
from clframe.streams.behavior.efficiency import METRICS, NORMALIZED
from clframe.streams.behavior.physics_choices import PhysicalChoiceEnv
from clframe.worlds.behavior.planner.search import plan

TWO = ["bringing_in_wood", "laying_tile_floors"]
"""Of the twelve, two short ones that fit a table."""


def made(name: str, primitives: Any = "six", record: bool = False) -> Any:
    return robot_tasks.environment(("b100", name), True, 30, 14, primitives, record, True)


@pytest.mark.parametrize("primitives", ["six", "all"])
def test_the_mask_is_what_the_hand_is_not_refused(primitives: Any) -> None:
    env = made("bringing_in_wood", primitives)
    state = env.reset(seed=4)[0]["state"]
    held = 0
    for action in (*robot_tasks.physical_expert(env), None):
        expected = np.zeros(len(env.verbs) * 14)
        for verb, slot in itertools.product(env.verbs, range(len(env.household.names))):
            expected[env.layout.number(verb, slot)] = env.refusal(verb, slot) == ""
        assert (state[: expected.size] == expected).all()
        assert (env.action_masks() == expected).all()
        held += env.hand.held is not None
        if action is not None:
            assert expected[action]
            state = env.step(action)[0]["state"]
    assert env.success
    assert held > 1
    assert env.step(-1)[4]["refusal"] == "there is no such thing"


def test_what_was_recorded_has_the_q_that_physics_says() -> None:
    env = made("laying_tile_floors", record=True)
    env.reset(seed=2)
    scores = [env.q]
    for action in robot_tasks.physical_expert(env):
        env.step(action)
        scores.append(env.q)
    assert env.recorder is not None
    assert [env.problem.goal.score(frame) for frame in env.recorder.states] == scores
    assert scores[-1] == 1.0
    measured = env.measures()
    # The reference is the planner's episode with physics: this one.
    for name, share in zip(METRICS, NORMALIZED, strict=True):
        assert measured[share] == pytest.approx(1.0) or measured[name] == 0.0


def test_a_planner_that_fails_is_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made("laying_tile_floors", record=True)
    env.reset(seed=2)
    monkeypatch.setattr(env, "_reference", lambda: None)
    measured = env.measures()
    assert measured["q"] == env.q
    assert all(np.isnan(measured[share]) for share in NORMALIZED)
    assert all(np.isfinite(measured[name]) for name in METRICS)


@pytest.mark.parametrize(
    ("names", "max_epochs"), [(TWO[:1], 1), pytest.param(TWO, 60, marks=pytest.mark.slow)]
)
def test_activities_are_learned_with_physics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: list[str], max_epochs: int
) -> None:
    run, data = tmp_path / "run", tmp_path / "data"
    words = ["stream=behavior_12", f"stream.activities=[{','.join(names)}]", "stream.physics=on"]
    demos, episodes = (6, 2) if max_epochs == 60 else (1, 1)
    few = [f"stream.num_demos={demos}", f"stream.eval_episodes={episodes}", "stream.horizon=14"]
    learned = ["strategy=multitask", f"trainer.max_epochs={max_epochs}", "optimizer.lr=0.003"]
    learned.append("logger=none")
    assert main(["fit", *words, *few, *learned, f"data_dir={data}", f"run_dir={run}"]) == 0
    (folder,) = (data / "demos").iterdir()
    assert folder.name.endswith(f"-mujoco{mujoco.__version__}")
    stream: Any = load_learner(run)[0].stream
    for index, task in enumerate(stream.tasks):
        demonstration = stream.read(index)[0]
        env = task.evaluation.robot.environment()
        assert isinstance(env, PhysicalChoiceEnv)
        env.reset(seed=demonstration.seed)
        for action in demonstration.actions[:, 0]:
            *_, info = env.step(action)
        assert info["q"] == 1.0
    capsys.readouterr()
    video = tmp_path / "wood.gif"
    words = ["--task", TWO[0], "--video", str(video), "--every", "1"]
    words += ["--episodes", str(episodes)] if max_epochs < 60 else []
    assert main(["rollout", str(run), *words]) == 0
    said = capsys.readouterr().out
    assert "mean q " in said
    if max_epochs == 60:
        assert float(said.split("mean q ")[1].split()[0]) > 0.6
    assert video.stat().st_size > 10_000


def test_both_spellings_and_without_physics_nothing_is_shared() -> None:
    settings: dict[str, Any] = {"activities": TWO[:1], "num_demos": 1}
    families = []
    for physics in ("on", True, "off", False):
        stream = clframe.stream("behavior_12", physics=physics, **settings)
        families.append(stream.tasks[0].evaluation.robot.family)
    assert families[0] == families[1] != families[2] == families[3]
    with pytest.raises(clframe.ClframeError, match="'physics' must be one of on, off or true or"):
        clframe.stream("behavior_12", physics="yes", **settings)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("cleaning_shoes", "'dusty' is not simulated"),
        ("assembling_gift_baskets", "There is no room"),
    ],
)
def test_what_does_not_fit_a_table_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, sentence: str
) -> None:
    words = ["stream=behavior_100", f"stream.activities=[{name}]", "stream.physics=on"]
    places = [f"data_dir={tmp_path}/data", f"run_dir={tmp_path}/run"]
    assert main(["fit", *words, *places]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert f"b100/{name}/problem0.bddl:" in said
    assert sentence in said
    assert not list(tmp_path.iterdir())


def test_a_way_that_needs_other_verbs_is_not_demonstrated() -> None:
    """The planner may have to let go of something, for which the six have no verb."""
    env = made("bringing_in_wood")
    env.reset(seed=0)
    (verb, slot), *_ = plan(env.instance).steps
    env.verbs = tuple(other for other in env.verbs if other != verb)
    assert list(robot_tasks.physical_expert(env)) == []
    assert slot >= 0
