"""Demonstrations: successful, repeatable, disturbed, and the same after a trip through a file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from clframe.robot import collect, demonstrations
from clframe.streams.tabletop import task
from clframe.streams.tabletop.disturbance import Disturbance
from clframe.streams.tabletop.imitation import robot_task

STILL = Disturbance(0.0, 0.0, 0.0)


def test_an_undisturbed_demonstration_replays_to_success() -> None:
    robot = robot_task(task("tabletop_goal", "7"), ("agentview",), 16, STILL)
    env = robot.environment()
    demo = collect.record(robot, env, seed=3)
    assert demo is not None
    assert demo.states.shape[0] == len(demo)
    seen, _ = env.reset(seed=3)
    for step, action in enumerate(demo.actions):
        for key, values in demo.observations.items():
            assert values[step] == pytest.approx(seen[key], abs=1e-3), key
        seen, _, success, _, _ = env.step(action)
    assert success


def test_a_disturbed_demonstration_is_repeatable_and_wanders_further() -> None:
    robot = robot_task(task("tabletop_goal", "8"))
    env = robot.environment()
    one, again = (collect.record(robot, env, seed=5) for _ in range(2))
    calm = collect.record(robot_task(task("tabletop_goal", "8"), disturbance=STILL), env, seed=5)
    assert one is not None
    assert again is not None
    assert calm is not None
    assert (one.actions == again.actions).all()
    assert len(one) >= len(calm)
    assert (np.abs(one.actions) <= 1).all()
    assert (one.observations["state"][0] == calm.observations["state"][0]).all()
    assert (one.observations["state"][5] != calm.observations["state"][5]).any()


def test_files_of_demonstrations(tmp_path: Path) -> None:
    robot = robot_task(task("tabletop_goal", "7"))
    path = collect.path_of(robot, tmp_path)
    assert collect.make_file(robot, path, n=2)[0] == 2
    info = demonstrations.read_info(path)
    assert info.language == "turn on the stove"
    assert len(demonstrations.read(path, 2)) == 2


def test_worker_processes_can_be_handed_a_task() -> None:
    robot = pickle.loads(pickle.dumps(robot_task(task("tabletop_goal", "7"))))
    seen, _ = robot.environment().reset(seed=0)
    assert np.isfinite(seen["state"]).all()
