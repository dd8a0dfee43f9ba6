"""The real LIBERO as streams: all that can be tried without its package, assets and recordings."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.cli.main import main
from clframe.errors import DataError, SettingError
from clframe.robot import demonstrations
from clframe.worlds.libero import paths as places_of
from clframe.worlds.libero.init_states import read_init_states
from clframe.worlds.libero.paths import Places
from clframe.worlds.libero.starts import Record, Settled, settled
from clframe.worlds.libero.state_vector import Layout, shrunk
from clframe.worlds.libero.tasks import ORDERS, SUITES, LiberoTask, in_order, tasks_of

SPATIAL = tasks_of("libero_spatial")


def write_recording(folder: Path, task: LiberoTask, demos: int = 2, steps: int = 6) -> Path:
    """A file in the layout of LIBERO's own, whose numbers tell their row: observation t is t + 1
    because it is from after action t, states and actions are t."""
    import h5py

    path = folder / task.suite / f"{task.name}_demo.hdf5"
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_name"] = task.problem.name
        data.attrs["problem_info"] = (
            f'{{"problem_name": "{task.problem.name}", "domain_name": "robosuite", '
            f'"language_instruction": "{task.instruction}"}}'
        )
        data.attrs["env_args"] = '{"type": 1, "env_kwargs": {"control_freq": 20}}'
        data.attrs["bddl_file_name"] = f"bddl_files/{task.suite}/{task.name}.bddl"
        data.attrs["num_demos"], data.attrs["total"] = demos, demos * steps
        data.attrs["macros_image_convention"] = "opengl"
        for number in range(demos):
            group = data.create_group(f"demo_{number}")
            rows = np.arange(steps, dtype=np.float64)[:, None] / 100
            group["actions"] = np.repeat(rows, 7, 1)
            group["states"] = np.repeat(rows, task.state_size, 1)
            for name, size in (("gripper_states", 2), ("joint_states", 7), ("ee_pos", 3)):
                group[f"obs/{name}"] = np.repeat(rows + 0.01, size, 1)
            for name in ("agentview_rgb", "eye_in_hand_rgb"):
                images = np.zeros((steps, 128, 128, 3), np.uint8)
                images += np.arange(1, steps + 1, dtype=np.uint8)[:, None, None, None]
                group[f"obs/{name}"] = images
            group.attrs["num_samples"] = steps
    return path


# ------------------------------------------------------------ tasks and orders


def test_there_are_130_tasks_and_two_instructions_of_each() -> None:
    every = [task for suite in SUITES for task in tasks_of(suite)]
    assert [len(tasks_of(suite)) for suite in SUITES] == [10, 10, 10, 10, 90]
    assert len({(task.suite, task.name) for task in every}) == 130
    # Counts of the paper's repository: 112 instructions, and 29 files say something else.
    assert len({task.instruction for task in every}) == 112
    assert sum(task.language.lower() != task.instruction.lower() for task in every) == 29
    assert tasks_of("libero_90")[0].name.startswith("KITCHEN_SCENE10_close_the_top_drawer")
    assert tasks_of("libero_90")[89].instruction.endswith("under the cabinet shelf")


def test_states_are_as_long_as_liberos() -> None:
    assert {task.state_size for task in tasks_of("libero_spatial")} == {92}
    assert {task.state_size for task in tasks_of("libero_object")} == {110}
    assert {task.state_size for task in tasks_of("libero_goal")} == {79}
    sizes = {task.state_size for task in tasks_of("libero_90")}
    assert (min(sizes), max(sizes)) == (45, 123)


def test_orders() -> None:
    assert len(ORDERS) == 21
    assert all(sorted(order) == list(range(10)) for order in ORDERS)
    assert in_order("libero_goal", 0) == list(tasks_of("libero_goal"))
    assert in_order("libero_goal", 1)[0] == tasks_of("libero_goal")[4]
    assert in_order("libero_goal", [3, 0, 3]) == [tasks_of("libero_goal")[n] for n in (3, 0, 3)]
    for suite, order, message in (
        ("libero_goal", 21, "orders 0 to 20"),
        ("libero_90", 1, "must be 0"),
        ("libero_goal", [10], "none of number 10"),
        ("libero_goal", [], "at least one"),
    ):
        with pytest.raises(SettingError, match=message):
            in_order(suite, order)  # type: ignore[arg-type]


# ------------------------------------------------------------ initial states


def _archive(path: Path, content: bytes, name: str = "archive/data.pkl") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
        archive.writestr("archive/version", "3\n")
    return path


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_initial_states_are_read(tmp_path: Path, protocol: int) -> None:
    states = np.random.default_rng(0).normal(size=(50, 92))
    # Protocol 2 as in LIBERO's files; later ones write the bytes as they are.
    path = _archive(tmp_path / "x.pruned_init", pickle.dumps(states, protocol))
    if protocol == 5:
        with pytest.raises(DataError, match="was not read: it asks for"):
            read_init_states(path, 92)
        return
    assert np.array_equal(read_init_states(path, 92), states)
    with pytest.raises(DataError, match=r"shape \(50, 92\).*110 numbers each"):
        read_init_states(path, 110)


class _Evil:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("wrap", [lambda evil: evil, lambda evil: [np.zeros(3), {"a": evil}]])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, wrap: Any) -> None:
    target = tmp_path / "owned"
    for protocol in (0, 2, 4):
        content = pickle.dumps(wrap(_Evil(str(target))), protocol)
        path = _archive(tmp_path / f"evil{protocol}.pruned_init", content)
        with pytest.raises(DataError, match=r"it asks for '(posix|nt)\.system', which could run"):
            read_init_states(path, 92)
    assert not target.exists()


@pytest.mark.parametrize(
    "name",
    ["builtins.eval", "numpy.load", "numpy.core.multiarray.scalar", "_codecs.decode", "torch.load"],
)
def test_only_what_an_array_needs_is_allowed(tmp_path: Path, name: str) -> None:
    module, _, function = name.rpartition(".")
    path = _archive(tmp_path / "x", f"c{module}\n{function}\n(S'1'\ntR.".encode())
    with pytest.raises(DataError, match=f"asks for '{name}'"):
        read_init_states(path, 92)


def test_broken_initial_states_are_one_sentence(tmp_path: Path) -> None:
    objects = pickle.dumps(np.array([object], dtype=object), 2)
    nan = pickle.dumps(np.full((2, 92), np.nan), 2)
    for content, message in (
        (b"", "is not a file of LIBERO's initial states"),
        (pickle.dumps([1, 2], 2), "does not hold one array"),
        (objects, "asks for"),
        (pickle.dumps(np.array(["a"]), 2), "not an array of numbers"),
        (nan, "NaN"),
        (pickle.dumps(np.zeros((2, 92)), 2)[:-30], "is not a file of LIBERO's"),
    ):
        with pytest.raises(DataError, match=message):
            read_init_states(_archive(tmp_path / "x", content), 92)
    (tmp_path / "plain").write_bytes(b"hello")
    with pytest.raises(DataError, match="is not a file of LIBERO's initial states"):
        read_init_states(tmp_path / "plain", 92)
    with pytest.raises(DataError, match="there is no file of initial states"):
        read_init_states(tmp_path / "absent", 92)


def test_a_claim_of_a_huge_array_takes_no_memory(tmp_path: Path) -> None:
    small = io.BytesIO()
    pickle.dump(np.zeros((2, 92)), small, 2)
    content = small.getvalue().replace(b"K\x02K\x5c\x86", b"J\xff\xff\xff\x7fK\x5c\x86")
    assert content != small.getvalue()
    with pytest.raises(DataError, match="is not a file of LIBERO's initial states"):
        read_init_states(_archive(tmp_path / "x", content), 92)


# ------------------------------------------------------------ demonstrations


def test_actions_are_paired_with_what_was_seen_before_them(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    path = write_recording(tmp_path, SPATIAL[0], steps=6)
    assert demonstrations.read_info(path).convention == demonstrations.AFTER
    for demo in demonstrations.read(path):
        assert len(demo) == 5
        assert np.allclose(demo.actions[:, 0], [0.01, 0.02, 0.03, 0.04, 0.05])
        # Row t of the file is from after action t and was written as t + 1.
        assert np.allclose(demo.observations["joint_states"][:, 0], demo.actions[:, 0])
        assert np.array_equal(demo.observations["agentview_rgb"][:, 0, 0, 0], [1, 2, 3, 4, 5])
        assert np.allclose(demo.states[:, 0], demo.actions[:, 0])


def test_liberos_files_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("h5py")
    path = write_recording(tmp_path, SPATIAL[0], demos=2, steps=6)
    assert main(["demos", "check", str(path)]) == 0
    output = capsys.readouterr().out
    assert SPATIAL[0].instruction in output
    assert "2 demonstrations, 10 steps" in output
    assert "obs/agentview_rgb: uint8 [128, 128, 3]" in output


def test_our_own_and_robomimics_files_are_read_as_they_are(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = write_recording(tmp_path, SPATIAL[0], steps=6)
    with h5py.File(path, "r+") as file:
        file["data"].attrs["obs_convention"] = "before_action"
    assert len(demonstrations.read(path)[0]) == 6
    with h5py.File(path, "r+") as file:
        file["data"].attrs["obs_convention"] = "sideways"
    with pytest.raises(DataError, match="before_action or after_action, is 'sideways'"):
        demonstrations.read_info(path)
    with h5py.File(path, "r+") as file:
        del file["data"].attrs["obs_convention"], file["data"].attrs["bddl_file_name"]
    assert demonstrations.read_info(path).convention == demonstrations.BEFORE


def test_the_stream_learns_from_liberos_files(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    for task in SPATIAL[:2]:
        write_recording(tmp_path / "libero" / "datasets", task)
    stream = clframe.stream(
        "libero_spatial", data_dir=tmp_path, order=[1, 0, 1], num_demos=2, size=32
    )
    assert [experience.name for experience in stream] == [
        SPATIAL[1].name,
        SPATIAL[0].name,
        f"{SPATIAL[1].name} (2)",
    ]
    data = stream.experiences[0].data
    assert len(data) == 2 * 5
    layout = Layout.of(SPATIAL)
    assert stream.input_shape == (layout.size + 32 + 2 * 3 * 32 * 32,)
    assert stream.n_outputs == 7
    info = stream.tasks[0].info
    assert info["language"] == SPATIAL[1].instruction == info["instructions"]["name"]
    assert info["instructions"]["file"] == SPATIAL[1].language != SPATIAL[1].instruction
    assert info["versions"] == places_of.versions()
    assert "instructions from the file names" in stream.source
    assert f"mujoco {places_of.versions()['mujoco']}" in stream.source
    other = clframe.stream("libero_spatial", data_dir=tmp_path, instruction="file")
    assert other.tasks[1].info["language"] == SPATIAL[1].language
    assert "instructions from the task files" in other.source


def test_a_state_is_the_same_from_a_recording_and_a_simulator() -> None:
    """Heights above the table, things in their slots, room for the fullest scene."""
    task = tasks_of("libero_10")[2]
    layout = Layout.of(tasks_of("libero_10"))
    assert (len(task.objects), task.joints) == (2, 1)
    positions = np.arange(9 + 14 + 1, dtype=np.float64)[None]
    state = layout.state(
        task, np.ones((1, 2)), np.full((1, 7), 2.0), np.full((1, 3), 3.0), positions
    )
    assert state.shape == (1, layout.size)
    assert np.allclose(state[0, :12], [1, 1, *[2] * 7, 3, 3, 3 - task.height])
    assert np.allclose(
        state[0, 12:26], [*range(9, 11), 11 - 0.9, *range(12, 18), 18 - 0.9, *range(19, 23)]
    )
    assert not state[0, 26 : 12 + 7 * layout.objects].any()
    assert state[0, 12 + 7 * layout.objects] == 23


def test_images_are_shrunk_by_means() -> None:
    image = np.zeros((128, 128, 3), np.uint8)
    image[::2] = 200
    assert np.array_equal(shrunk(image, 64, "x"), np.full((64, 64, 3), 100))
    assert shrunk(image, 128, "x") is image
    with pytest.raises(DataError, match=r"128 by 128 pixels.*stream.size=48"):
        shrunk(image, 48, "x")


# ------------------------------------------------------------ what is absent


def test_absent_demonstrations_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("h5py")
    given = [f"data_dir={tmp_path}", f"run_dir={tmp_path / 'run'}", "logger=none"]
    assert main(["fit", "stream=libero_spatial", *given]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert f"'{tmp_path / 'libero' / 'datasets' / 'libero_spatial'}'" in lines[0]
    assert "and those of 9 more tasks" in lines[0]
    for task in SPATIAL:
        write_recording(tmp_path / "mine", task, demos=1, steps=3)
    stream = clframe.stream(
        "libero_spatial", data_dir=tmp_path, demonstrations=str(tmp_path / "mine")
    )
    with pytest.raises(
        DataError, match=r"holds 1 demonstrations, but stream.num_demos=50 are needed"
    ):
        _ = stream.experiences[0].data


def test_recordings_of_another_task_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    goal = tasks_of("libero_goal")[0]
    recording = write_recording(tmp_path, goal)
    wanted = Places(tmp_path, demonstrations=tmp_path).demonstration_file(SPATIAL[0])
    wanted.parent.mkdir()
    recording.rename(wanted)
    stream = clframe.stream(
        "libero_spatial", data_dir=tmp_path, order=[0], num_demos=2, demonstrations=str(tmp_path)
    )
    with pytest.raises(DataError, match=r"must have 92 numbers per step.*\[5, 79\]"):
        _ = stream.experiences[0].data


def test_absent_assets_and_initial_states_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places_of, "package_folder", lambda: None)
    with pytest.raises(
        DataError, match=r"assets are not in '.*libero/assets': put .*stream.assets"
    ):
        Places(tmp_path).asset_folder()
    with pytest.raises(DataError, match=r"are not in '.*init_files': put .*stream.init_states=DIR"):
        Places(tmp_path).init_file(SPATIAL[0])
    given = Places.of(tmp_path, {"assets": str(tmp_path / "a"), "init_states": None})
    with pytest.raises(DataError, match=f"not in '{tmp_path / 'a'}': "):
        given.asset_folder()
    (tmp_path / "a" / "scenes").mkdir(parents=True)
    assert given.asset_folder() == tmp_path / "a"


def _installed(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    monkeypatch.setattr(places_of, "_version", lambda package: versions.get(package, "9.9"))


def test_what_is_wrong_with_the_packages_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"hf-libero": "0.1.4", "robosuite": "1.4.0", "bddl": "1.0.1", "mujoco": "3.8.1"}
    _installed(monkeypatch, good)
    assert places_of.not_usable() is None
    _installed(monkeypatch, {**good, "mujoco": "3.17.0"})
    assert "MuJoCo 3.17.0 is installed, with which robosuite" in str(places_of.not_usable())
    _installed(monkeypatch, {**good, "robosuite": "1.5.2"})
    assert "hf-libero needs 1.4.0" in str(places_of.not_usable())
    monkeypatch.setattr(places_of, "_version", lambda package: good.get(package))
    assert "clframe[libero]" in str(places_of.not_usable())


@pytest.mark.skipif(places_of.not_usable() is None, reason="the package is here")
def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    environment = (
        clframe.stream("libero_goal", data_dir=tmp_path).tasks[0].evaluation.robot.environment()
    )
    with pytest.raises(DataError, match=r"LIBERO cannot run here: .*pip install"):
        environment.reset(seed=0)


def test_mistakes_in_settings_are_one_sentence() -> None:
    for settings, message in (
        ({"cameras": ["agent_view"]}, "did you mean 'agentview'"),
        ({"size": 100}, "128, 64, 32"),
        ({"eval_episodes": 51}, "at most 50"),
        ({"horizon": 1001}, "at most 1000"),
        ({"settle": -1}, "stream.settle"),
        ({"instruction": "both"}, "'instruction' must be one of name, file"),
        ({"order": "first"}, "'order' must be"),
    ):
        with pytest.raises(SettingError, match=message):
            clframe.stream("libero_object", **settings)


def test_the_doctor_tells_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    whole = capsys.readouterr().out.replace("\n      ", " ")
    lines = [line for line in whole.splitlines() if "LIBERO" in line]
    assert any("package" in line for line in lines)
    assert any("assets" in line for line in lines)
    assert any("demonstrations" in line for line in lines)


# ------------------------------------------------------------ start states


def test_how_far_things_go_while_they_settle() -> None:
    still, half = np.array([1.0, 0, 0, 0]), np.array([np.sqrt(0.5), np.sqrt(0.5), 0, 0])
    before = {"bowl": (np.zeros(3), still), "plate": (np.ones(3), still)}
    after = {"bowl": (np.array([0.03, 0.04, -0.2]), half), "plate": (np.ones(3), still)}
    result = settled(before, after)
    assert (result.thing, result.moved) == ("bowl", pytest.approx(0.05))
    assert result.turned == pytest.approx(90.0)


def test_the_record_compares_versions(tmp_path: Path) -> None:
    path = tmp_path / "libero" / "start_states.jsonl"

    def record(mujoco: str) -> Record:
        return Record(path, "libero_spatial", SPATIAL[5].name, {"mujoco": mujoco}, 5)

    calm = Settled(0.001, 1.0, "bowl", {"bowl": [0.0, 0.0, 1.0]})
    assert record("3.3.2").add(5, calm) is None
    assert record("3.3.2").add(5, calm) is None
    assert len(path.read_text().splitlines()) == 1
    moved = Settled(0.001, 1.0, "bowl", {"bowl": [0.022, 0.0, 1.0]})
    assert "than on MuJoCo 3.3.2 ('bowl' 2.2 cm apart)" in str(record("3.8.1").add(5, moved))
    assert record("3.8.1").add(6, moved) is None
    far = Settled(0.056, 51.0, "bowl", {"bowl": [0.022, 0.0, 1.0]})
    assert "'bowl' goes 5.6 cm aside" in str(record("3.8.1").add(7, far))
    path.write_text(path.read_text() + "torn {\n[]\n" + '{"versions": 3}\n')
    assert "3.3.2" in str(record("3.8.1").add(5, moved))
