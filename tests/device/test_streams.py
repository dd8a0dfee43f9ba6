"""Every kind of stream is learned on a virtual GPU as it is on the CPU."""

from __future__ import annotations

import dataclasses
import functools
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import clframe
from clframe.build import Built
from clframe.core.registry import discover
from clframe.core.stream import Stream
from clframe.testing import prepare
from tests.helpers.device_runs import assert_same, maker, on_cpu, on_virtual_card, same_on_both

REGISTRY = discover()
MLP: dict[str, Any] = {"name": "mlp", "hidden": [8]}
CNN: dict[str, Any] = {"name": "cnn", "channels": [4, 4], "features": 8, "norm": True}
POLICY: dict[str, Any] = {"name": "policy", "hidden": [8]}
ER: dict[str, Any] = {"replay": {"size": 12}}
RGBD: dict[str, Any] = {
    "modality": "rgbd",
    "size": 32,
    "frames": 2,
    "n_instances": 2,
    "num_workers": 1,
}
ROBOT: dict[str, Any] = {
    "num_demos": 1,
    "eval_episodes": 1,
    "horizon": 4,
    "num_envs": 1,
    "num_workers": 0,
}
HOUSE: dict[str, Any] = {**ROBOT, "horizon": 50}
CHOOSE: dict[str, Any] = {"name": "categorical", "hidden": [8]}
SEEN: dict[str, Any] = {"cameras": ["agentview"], "size": 16}

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("split_mnist", {"n_experiences": 2}, MLP),
    ("permuted_mnist", {"n_experiences": 2}, MLP),
    ("rotated_mnist", {"n_experiences": 2}, MLP),
    ("scenario", {"base": "split_mnist", "repetitions": 1}, MLP),
    ("single_task", {"base": "split_mnist", "task": "task1"}, MLP),
    *(
        (name, {"base": {"name": "split_mnist", "n_experiences": 2}}, MLP)
        for name in ("i_blurry", "si_blurry", "gradual", "few_shot", "long_tailed", "noisy_labels")
    ),
    ("repetition", {"n_experiences": 2}, MLP),
    ("openloris_illumination", RGBD, CNN),
    ("openloris_illumination", {**RGBD, "masked": True, "depth_noise": True}, CNN),
    ("point_robot", {**ROBOT, "n_tasks": 2, "num_demos": 3}, POLICY),
    ("point_robot", {**ROBOT, "n_tasks": 2, "num_demos": 3, "window": 3}, POLICY),
    ("tabletop_goal", {**ROBOT, "tasks": ["7"]}, POLICY),
    ("tabletop_goal", {**ROBOT, **SEEN, "tasks": ["7", "8"]}, POLICY),
    ("metaworld_cw10", {**ROBOT, "tasks": ["push"]}, POLICY),
    ("behavior_12", {**HOUSE, "activities": ["bringing_in_wood", "laying_tile_floors"]}, CHOOSE),
    ("behavior_generated", {**HOUSE, "n_tasks": 2}, CHOOSE),
    ("behavior_files", {**HOUSE, "files": [str(Path(__file__).with_name("errand.bddl"))]}, CHOOSE),
]
REWARDED: list[tuple[str, dict[str, Any]]] = [
    ("gym", {"envs": ["Pendulum-v1", "MountainCarContinuous-v0"], "success_return": 90.0}),
    ("franka_kitchen", {"tasks": ["kettle"]}),
]
OWN = ("folder", "file_list", "lerobot")
"""Streams of files that a test has to make."""
PUBLISHED = {"clear10", "core50", "cub200", "domainnet", "hf", "imagenet_r", "tiny_imagenet"}
"""Other layouts of such files, of which the same is made as of a folder."""
ELSEWHERE = {"libero_10"}
"""LIBERO's environments need files that are not ours to pass on. What its streams give, images of
two cameras and sequences, test_models.py has with LIBERO's policies."""


def kind_of(name: str) -> Any:
    """The function that makes streams of this and of similar names."""
    factory = REGISTRY.get("stream", name).factory
    while isinstance(factory, functools.partial):
        factory = factory.func
    return factory


def test_every_kind_of_stream_is_here() -> None:
    named = {name for name, *_ in [*CASES, *REWARDED]} | {*OWN} | ELSEWHERE | PUBLISHED
    here = {kind_of(name) for name in named}
    absent = [name for name in REGISTRY.names("stream") if kind_of(name) not in here]
    assert not absent, f"add a case for {absent}"


def start_of(name: str, settings: dict[str, Any]) -> Stream:
    """The first two experiences of a stream, with their tasks."""
    stream = clframe.stream(name, **settings)
    if len(stream.tasks) <= 2:
        return stream
    learned = stream.experiences[:2]
    tasks = [task for task in stream.tasks if any(task in e.tasks for e in learned)]
    return dataclasses.replace(stream, experiences=learned, tasks=tasks)


@pytest.mark.parametrize(("name", "settings", "model"), CASES)
def test_streams(name: str, settings: dict[str, Any], model: dict[str, Any]) -> None:
    if name.startswith("metaworld") and find_spec("metaworld") is None:
        pytest.skip("needs clframe[metaworld]")
    same_on_both(maker(start_of(name, settings), model, ER))


@pytest.mark.parametrize("name", OWN)
def test_streams_of_files(name: str, tmp_path: Path) -> None:
    path, model = (_recordings if name == "lerobot" else _images)(tmp_path, name)
    same_on_both(maker(start_of(name, {"path": str(path)}), model, ER))


def _images(root: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """Three images of each of four classes, as a folder or as a list of them."""
    rows = ["file,label"]
    for k, label in enumerate("abcd"):
        (root / "zoo" / label).mkdir(parents=True)
        for n in range(3):
            pixels = np.full((8, 8, 3), 60 * k + n, np.uint8)
            Image.fromarray(pixels).save(root / "zoo" / label / f"{n}.png")
            rows.append(f"zoo/{label}/{n}.png,{label}")
    listed = root / "list.csv"
    listed.write_text("\n".join(rows))
    return (root / "zoo" if name == "folder" else listed), CNN


def _recordings(root: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """A data set of LeRobot with two tasks."""
    pytest.importorskip("pyarrow", reason="data sets of LeRobot are Parquet files")
    from clframe.robot.demonstrations import Demonstration
    from clframe.robot.formats.lerobot.write import write
    from clframe.robot.formats.recording import Recording

    rng = np.random.default_rng(0)
    tasks = []
    for task in ("left", "right"):
        states = [rng.uniform(-1, 1, (6, 2)).astype(np.float32) for _ in range(4)]
        tasks.append(Recording(task, task, {}, [Demonstration(-s, {"state": s}) for s in states]))
    write(root / "set", tasks)
    return root / "set", POLICY


@pytest.mark.parametrize(("name", "settings"), REWARDED)
def test_streams_of_environments_alone(name: str, settings: dict[str, Any]) -> None:
    def make(accelerator: str) -> Built:
        return prepare(
            {"name": name, "eval_episodes": 1, "horizon": 5, "num_envs": 1, **settings},
            model={"name": "actor", "hidden": [8]},
            learner={"name": "sac", "steps": 12, "start_steps": 4, "epoch_steps": 4},
            trainer={"batch_size": 8, "accelerator": accelerator},
        )

    assert_same(on_virtual_card(make), on_cpu(make))
