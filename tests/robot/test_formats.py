"""Demonstrations in the layouts of robomimic, LIBERO and LeRobot, there and back."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clframe.cli.main import main
from clframe.errors import DataError
from clframe.robot import demonstrations
from clframe.robot.demonstrations import Demonstration
from clframe.robot.formats import libero, recording, robomimic
from clframe.robot.formats.lerobot import stats
from clframe.robot.formats.lerobot.read import LerobotFolder, recordings
from clframe.robot.formats.lerobot.write import write
from clframe.robot.formats.recording import ROWS, Recording

h5py = pytest.importorskip("h5py", reason="demonstrations are HDF5 files")
pa = pytest.importorskip("pyarrow", reason="data sets of LeRobot are Parquet files")
pq = pytest.importorskip("pyarrow.parquet", reason="data sets of LeRobot are Parquet files")

SIDE = 16


def demo(length: int, states: int, seed: int, known: bool = True) -> Demonstration:
    rng = np.random.default_rng(seed)
    across = np.linspace(0, 200, SIDE)[None, :, None, None] + np.zeros((length, SIDE, SIDE, 3))
    image = (across + 4 * np.arange(length)[:, None, None, None] % 50).astype(np.uint8)
    return Demonstration(
        rng.uniform(-1, 1, (length, 7)).astype(np.float32),
        {
            "state": rng.standard_normal((length, 5)).astype(np.float32),
            "agentview_rgb": image,
            "wrist_rgb": rng.integers(0, 256, (length, SIDE, SIDE, 3), np.uint8),
            "wrist_depth": rng.uniform(0.1, 3, (length, SIDE, SIDE)).astype(np.float32),
            "ee_pos": rng.standard_normal((length, 3)).astype(np.float32),
            "ee_ori": rng.standard_normal((length, 3)).astype(np.float32),
        },
        rng.standard_normal((length, states)),
        seed,
        rng.uniform(-1, 1, (length, 7)).astype(np.float32) if known else None,
        rng.uniform(0, 1, length).astype(np.float32),
        rng.uniform(0, 1, length) > 0.5,
        rng.uniform(0, 1, length) > 0.5 if known else None,
    )


@pytest.fixture(scope="module")
def tasks() -> list[Recording]:
    """Two tasks whose simulators have states of different lengths, and two of one instruction."""
    return [
        Recording("lift", "lift it", {"bddl": "(define)"}, [demo(9, 11, 1), demo(6, 11, 2, False)]),
        Recording("push", "push it", {}, [demo(7, 13, 3)]),
        Recording("lift_again", "lift it", {"mujoco": "3"}, [demo(5, 11, 4), demo(4, 11, 5)]),
    ]


def assert_same(first: Recording, second: Recording, lossy: tuple[str, ...] = ()) -> None:
    assert (first.name, first.language) == (second.name, second.language)
    assert dict(first.facts) == dict(second.facts)
    assert len(first.demos) == len(second.demos)
    for one, two in zip(first.demos, second.demos, strict=True):
        assert one.seed == two.seed
        pairs = {name: (getattr(one, name), getattr(two, name)) for name in ("actions", *ROWS)}
        pairs["states"] = (one.states, two.states)
        assert set(one.observations) == set(two.observations)
        pairs |= {k: (v, two.observations[k]) for k, v in one.observations.items()}
        for name, (before, after) in pairs.items():
            if before is None:
                assert after is None, name
            elif name in lossy:
                assert before.shape == after.shape
                assert before.dtype == after.dtype
                assert np.abs(before.astype(float) - after).mean() < 3
            else:
                assert before.dtype == after.dtype, name
                np.testing.assert_array_equal(before, after, name)


# ------------------------------------------------------------ robomimic and LIBERO


def test_robomimic_there_and_back(tasks: list[Recording], tmp_path: Path) -> None:
    for task in tasks:
        path = tmp_path / f"{task.name}.hdf5"
        models = [f"<mujoco model='{number}'/>" for number in range(len(task.demos))]
        robomimic.write(path, dataclasses.replace(task, models=models))
        assert_same(task, robomimic.read(path))


def test_robomimic_has_what_its_readers_ask_for(tasks: list[Recording], tmp_path: Path) -> None:
    path = tmp_path / "lift.hdf5"
    robomimic.write(path, dataclasses.replace(tasks[0], models=["<one/>", "<two/>"]))
    with h5py.File(path) as file:
        assert json.loads(file["data"].attrs["env_args"])["type"] == 2
        assert [key.decode() for key in file["mask/train"]] == ["demo_0"]
        assert [key.decode() for key in file["mask/valid"]] == ["demo_1"]
        group = file["data/demo_1"]
        assert group.attrs["model_file"] == "<two/>"
        np.testing.assert_array_equal(group.attrs["init_state"], tasks[0].demos[1].states[0])
        np.testing.assert_array_equal(group["rewards"], tasks[0].demos[1].rewards)
        assert group["obs/wrist_depth"].shape == (6, SIDE, SIDE, 1)
        for name in group["obs"]:
            now, after = np.asarray(group["obs"][name]), np.asarray(group["next_obs"][name])
            np.testing.assert_array_equal(now[1:], after[:-1])
            np.testing.assert_array_equal(now[-1], after[-1])


def test_libero_has_its_names_its_rows_and_its_images(
    tasks: list[Recording], tmp_path: Path
) -> None:
    path = tmp_path / "lift_demo.hdf5"
    absent = libero.write(path, tasks[0])
    assert absent == ["gripper_states", "joint_states"]
    whole = tasks[0].demos[0]
    with h5py.File(path) as file:
        data = file["data"]
        assert data.attrs["bddl_file_name"] == "lift.bddl"
        assert data.attrs["bddl_file_content"] == "(define)"
        assert data.attrs["macros_image_convention"] == "opengl"
        assert data.attrs["total"] == 8 + 5
        group = data["demo_0"]
        assert group.attrs["num_samples"] == len(group["actions"]) == 8
        np.testing.assert_array_equal(group["states"], whole.states[:-1])
        seen = whole.observations
        # What is seen after an action, upside down.
        np.testing.assert_array_equal(
            group["obs/eye_in_hand_rgb"], seen["wrist_rgb"][1:, ::-1, :, :]
        )
        hand = np.concatenate([seen["ee_pos"], seen["ee_ori"]], 1)
        np.testing.assert_array_equal(group["obs/ee_states"], hand[1:])
    back = robomimic.read(path).demos[0]
    np.testing.assert_array_equal(back.actions, whole.actions[1:-1])
    np.testing.assert_array_equal(back.observations["agentview_rgb"], seen["agentview_rgb"][1:-1])
    np.testing.assert_array_equal(back.rewards, whole.rewards[1:-1])


def test_a_file_without_a_state_gets_one(tasks: list[Recording], tmp_path: Path) -> None:
    seen = {k: v for k, v in tasks[1].demos[0].observations.items() if k != "state"}
    stateless = dataclasses.replace(tasks[1].demos[0], observations=seen)
    robomimic.write(tmp_path / "push.hdf5", dataclasses.replace(tasks[1], demos=[stateless]))
    assert main(["demos", "import", str(tmp_path / "push.hdf5"), "--out", str(tmp_path)]) == 0
    back = demonstrations.read(tmp_path / "push_demo.hdf5")[0]
    together = np.concatenate([seen["ee_ori"], seen["ee_pos"]], 1)
    np.testing.assert_array_equal(back.observations["state"], together)


# ------------------------------------------------------------ LeRobot


def test_lerobot_there_and_back(tasks: list[Recording], tmp_path: Path) -> None:
    out = tmp_path / "set"
    assert write(out, tasks, data_mb=0.02) == []
    assert len(list(out.glob("data/*/*.parquet"))) > 1  # several files
    for task, back in zip(tasks, recordings(out), strict=True):
        assert_same(task, back)


def test_lerobot_with_videos(tasks: list[Recording], tmp_path: Path) -> None:
    pytest.importorskip("av", reason="videos need av")
    smooth = [
        dataclasses.replace(
            task,
            demos=[
                dataclasses.replace(
                    one,
                    observations={k: v for k, v in one.observations.items() if k != "wrist_rgb"},
                )
                for one in task.demos
            ],
        )
        for task in tasks
    ]
    write(tmp_path / "set", smooth, video=True)
    assert (tmp_path / "set/videos/observation.images.agentview/chunk-000/file-000.mp4").is_file()
    for task, back in zip(smooth, recordings(tmp_path / "set"), strict=True):
        assert_same(task, back, ("agentview_rgb",))


def test_what_a_data_set_says_of_itself(tasks: list[Recording], tmp_path: Path) -> None:
    out = tmp_path / "set"
    write(out, tasks, fps=10)
    info = json.loads((out / "meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (5, 31, 2)
    assert info["features"]["observation.images.wrist"]["shape"] == [SIDE, SIDE, 3]
    assert info["features"]["observation.images.wrist_depth"]["info"]["is_depth_map"]
    rows = pq.read_table(out / "data/chunk-000/file-000.parquet")
    assert set(rows.column_names) == set(info["features"])
    assert rows["index"].to_pylist() == list(range(31))
    assert rows["task_index"].to_pylist() == [0] * 15 + [1] * 7 + [0] * 9
    np.testing.assert_allclose(rows["timestamp"].to_numpy()[:3], [0, 0.1, 0.2], rtol=1e-6)
    episodes = pq.read_table(out / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [(e["dataset_from_index"], e["dataset_to_index"]) for e in episodes[:2]] == [
        (0, 9),
        (9, 15),
    ]
    texts = pq.read_table(out / "meta/tasks.parquet").to_pylist()
    assert texts == [{"task_index": 0, "task": "lift it"}, {"task_index": 1, "task": "push it"}]


def test_statistics_are_those_of_all_rows(tasks: list[Recording], tmp_path: Path) -> None:
    write(tmp_path / "set", tasks)
    said = LerobotFolder(tmp_path / "set").stats
    demos = [one for task in tasks for one in task.demos]
    actions = np.concatenate([one.actions for one in demos]).astype(float)
    images = np.concatenate([one.observations["wrist_rgb"] for one in demos]) / 255.0
    depth = np.concatenate([one.observations["wrist_depth"] for one in demos]).astype(float)
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(said["action"][name], getattr(actions, name)(0))
        per_channel = getattr(images, name)((0, 1, 2)).reshape(3, 1, 1)
        np.testing.assert_allclose(said["observation.images.wrist"][name], per_channel)
        whole = getattr(depth, name)()
        np.testing.assert_allclose(said["observation.images.wrist_depth"][name], [[[whole]]])
    assert said["action"]["count"] == [31]
    one = demos[0].observations["wrist_rgb"]
    wanted = np.quantile(one, [0.01, 0.5, 0.9], axis=(0, 1, 2), method="inverted_cdf") / 255
    found = stats.of_images(one)
    for row, name in zip(wanted, ("q01", "q50", "q90"), strict=True):
        np.testing.assert_allclose(found[name].ravel(), row)


def edit(path: Path, change: Any) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.fixture(scope="module")
def small(tasks: list[Recording], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sets") / "small"
    write(out, tasks[:2])
    return out


def drop_column(root: Path) -> None:
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["action"]), path)


def wrong_shape(root: Path) -> None:
    edit(root / "meta/info.json", lambda info: info["features"]["action"].update(shape=[6]))


def cut_rows(root: Path) -> None:
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).slice(0, 12), path)


def no_image(root: Path) -> None:
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    name = "observation.images.wrist"
    place = table.column_names.index(name)
    field = table.schema.field(name)
    broken = pa.array([{"bytes": b"no", "path": None}] * len(table), field.type)
    table = table.set_column(place, field, broken)
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda root: (root / "meta/info.json").unlink(), "has no meta/info.json"),
        (
            lambda root: edit(
                root / "meta/info.json", lambda info: info.update(codebase_version="v2.1")
            ),
            "is a LeRobot dataset v2.1, not v3.0",
        ),
        (
            lambda root: edit(root / "meta/info.json", lambda info: info["features"].pop("action")),
            "has no feature 'action'",
        ),
        (lambda root: (root / "meta/info.json").write_text("{"), "cannot read"),
        (lambda root: shutil.rmtree(root / "meta/episodes"), "holds no episodes"),
        (lambda root: shutil.rmtree(root / "data"), "is missing from the dataset"),
        (
            lambda root: (root / "data/chunk-000/file-000.parquet").write_text("no"),
            "as Parquet",
        ),
        (drop_column, "has no column 'action'"),
        (wrong_shape, "column 'action' has 7 numbers per row, but meta/info.json says 6"),
        (cut_rows, "has 3 rows, but meta/episodes says 6"),
        (no_image, "does not hold an image"),
    ],
)
def test_bad_folders_are_one_sentence(
    spoil: Any, sentence: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "spoiled"
    shutil.copytree(small, root)
    spoil(root)
    assert main(["demos", "import", str(root), "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


def test_shapes_that_differ_are_refused(tasks: list[Recording], tmp_path: Path) -> None:
    other = demo(4, 3, 9)
    other.observations["state"] = other.observations["state"][:, :2]
    mixed = [tasks[0], Recording("odd", "odd", {}, [other])]
    with pytest.raises(DataError, match=r"'state' of task 'odd'.* has the shape \[2\], but \[5\]"):
        write(tmp_path / "set", mixed)
    assert not (tmp_path / "set").exists()


# ------------------------------------------------------------ the commands


def test_export_and_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ["stream=point_robot", "stream.n_tasks=2", f"data_dir={tmp_path}", "n=3"]
    for layout in ("lerobot", "robomimic", "libero"):
        out = tmp_path / layout
        assert main(["demos", "export", *source, "--to", layout, "--out", str(out)]) == 0
    assert "have no agentview_rgb" in capsys.readouterr().out
    back = tmp_path / "back"
    assert main(["demos", "import", str(tmp_path / "lerobot"), "--out", str(back)]) == 0
    files = sorted((tmp_path / "demos").rglob("*.hdf5"))
    assert [file.name for file in files] == sorted(file.name for file in back.iterdir())
    for file in files:
        original = recording.read(file)
        assert_same(original, recording.read(back / file.name))
        assert_same(original, robomimic.read(tmp_path / "robomimic" / file.name))
        one = tmp_path / f"one_{file.name}"
        assert main(["demos", "export", str(file), "to=robomimic", f"out={one}"]) == 0
        assert main(["demos", "check", str(one)]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", "to=lerobot", "out=x"], "needs either files of demonstrations"),
        (["export", "a.hdf5", "stream=point_robot", "to=lerobot", "out=x"], "or stream=NAME"),
        (["export", "stream=point_robot", "to=lerobto", "out=x"], "did you mean 'lerobot'"),
        (["export", "none.hdf5", "to=lerobot", "out=x"], "there is no demonstration file"),
        (["export", "none.hdf5", "to=libero", "out=x", "video=true"], "--video is for"),
        (["export", "none.hdf5", "to=libero", "out=x", "task=a"], "--task is for stream=NAME"),
        (["import", "nowhere", "--out", "x"], "'nowhere' is not a LeRobot dataset"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demos", *words]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("package", "words", "sentence"),
    [
        ("pyarrow", [], "pip install 'clframe[lerobot]'"),
        ("av", ["video=true"], "pip install 'clframe[video]'"),
    ],
)
def test_a_package_that_is_absent_is_named(
    package: str,
    words: list[str],
    sentence: str,
    tasks: list[Recording],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recording.write(tmp_path / "push.hdf5", tasks[1])
    monkeypatch.setitem(sys.modules, package, None)
    out = tmp_path / "set"
    line = ["demos", "export", str(tmp_path / "push.hdf5"), "to=lerobot", f"out={out}", *words]
    assert main(line) == 2
    assert sentence in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["push.hdf5"]


def test_nothing_is_written_over(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demos", "export", "stream=point_robot", "n=1", f"data_dir={small.parent}"]
    assert main([*words, "--to", "lerobot", "--out", str(small)]) == 2
    assert "already exists" in capsys.readouterr().err
