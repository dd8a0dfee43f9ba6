"""The real LIBERO's environments, where the package is installed.

Its meshes cannot be shipped, so most tests stand on scenes of boxes that have the names, joints and
sites its task files name; where the real assets are (``CLFRAME_LIBERO_ASSETS``), these are
tried as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clframe.cli.main import main
from clframe.errors import DataError
from clframe.robot.task import EVALUATION, episode_seeds, seed_key
from clframe.streams.libero import demos as recordings
from clframe.streams.libero.stream import robot_task
from clframe.worlds.libero import paths as places_of
from clframe.worlds.libero import simulation
from clframe.worlds.libero.paths import Places
from clframe.worlds.libero.state_vector import Layout, shrunk
from clframe.worlds.libero.tasks import SUITES, LiberoTask, tasks_of

NOT_USABLE = places_of.not_usable()
pytestmark = [
    pytest.mark.slow,  # needs an environment of its own
    pytest.mark.skipif(NOT_USABLE is not None, reason=f"needs LIBERO: {NOT_USABLE}"),
]
REAL = os.environ.get("CLFRAME_LIBERO_ASSETS", "")

_MOVABLE = {
    c for suite in SUITES for task in tasks_of(suite) for c in task.problem.objects.values()
}
_SITES = {
    "basket": ["contain_region"],
    "wooden_tray": ["contain_region"],
    "wooden_cabinet": ["top_region", "middle_region", "bottom_region", "top_side"],
    "white_cabinet": ["top_region", "middle_region", "bottom_region", "top_side"],
    "flat_stove": ["cook_region", "burner"],
    "microwave": ["heating_region", "top_side"],
    "wine_rack": ["top_region"],
    "desk_caddy": [f"{side}_contain_region" for side in ("front", "back", "left", "right")],
    "wooden_two_layer_shelf": ["top_region", "bottom_region", "top_side"],
}
_JOINTS = {
    "wooden_cabinet": ["top_level", "middle_level", "bottom_level"],
    "white_cabinet": ["top_level", "middle_level", "bottom_level"],
    "flat_stove": ["button"],
    "microwave": ["door"],
}
_FOLDERS = ("stable_hope_objects", "stable_scanned_objects", "turbosquid_objects")
_TABLES = {
    "libero_tabletop_base_style": "table",
    "libero_kitchen_tabletop_base_style": "table",
    "libero_living_room_tabletop_base_style": "living_room_table",
    "libero_study_base_style": "study_table",
    "libero_floor_base_style": "floor",
}
_TOPS = {"living_room_table": 0.41, "study_table": 0.867}


def _site(name: str) -> str:
    return f'<site name="{name}" type="box" size="0.05 0.05 0.05" quat="1 0 0 0" pos="0 0 0.02"/>'


def _thing(name: str) -> str:
    """A box of 6 cm; what its joints move is above it and has the region of the joint's name."""
    joints, sites = _JOINTS.get(name, []), _SITES.get(name, [])
    of_joint = {j: [s for s in sites if s == j.replace("level", "region")] for j in joints}
    fixed = "".join(_site(site) for site in sites if [site] not in of_joint.values())
    parts = "".join(
        f'<body name="{joint}_part" pos="0 0 {0.1 + 0.08 * number}">'
        f'<joint name="{joint}" type="slide" axis="0 1 0" damping="50"/>'
        f"{''.join(_site(site) for site in of_joint[joint] or [joint + '_mark'])}"
        '<geom type="box" size="0.02 0.02 0.02" group="0"/></body>'
        for number, joint in enumerate(joints)
    )
    return (
        f'<mujoco model="{name}"><worldbody><body><body name="object">{fixed}'
        '<geom type="box" size="0.03 0.03 0.03" density="100" group="0"/>'
        '<geom type="box" size="0.03 0.03 0.03" group="1" contype="0" conaffinity="0" '
        'rgba="0.6 0.3 0.2 1"/>'
        f"{parts}</body>"
        '<site name="bottom_site" pos="0 0 -0.03" size="0.001" rgba="0 0 0 0"/>'
        '<site name="top_site" pos="0 0 0.03" size="0.001" rgba="0 0 0 0"/>'
        '<site name="horizontal_radius_site" pos="0.03 0.03 0" size="0.001" rgba="0 0 0 0"/>'
        "</body></worldbody></mujoco>"
    )


def _scene(table: str) -> str:
    floor = '<geom name="floor" type="plane" size="3 3 .1" material="floorplane" group="1"/>'
    if table == "floor":
        body = f'<body name="floor">{floor}</body>'
    else:
        half = _TOPS.get(table, 0.8) / 2
        box = f'type="box" size="0.5 0.6 {half}"'
        legs = "".join(
            f'<geom name="table_leg{n}_visual" type="cylinder" size="0.05 0.1" contype="0" '
            'conaffinity="0" group="1"/>'
            for n in range(1, 5)
        )
        body = (
            f'{floor}<body name="{table}" pos="0 0 {half}">'
            f'<geom name="table_collision" {box} group="0"/>'
            f'<geom name="table_visual" {box} contype="0" conaffinity="0" group="1"/>'
            f'<site name="table_top" pos="0 0 {half}" size="0.001"/>{legs}</body>'
        )
    return (
        '<mujoco model="scene"><asset>'
        '<texture name="texplane" type="2d" file="../textures/plain.png"/>'
        '<material name="floorplane" texture="texplane"/>'
        '<texture name="tex-wall" type="2d" file="../textures/plain.png"/></asset>'
        f'<worldbody>{body}<light pos="0 0 3"/></worldbody></mujoco>'
    )


def write_stand_in(folder: Path) -> None:
    """Assets of boxes for all tasks."""
    from PIL import Image

    (folder / "textures").mkdir(parents=True)
    styles = ("light-gray-floor-tile", "gray_ceramic_tile", "seamless_wood_planks_floor")
    for name in (*styles, "light-gray-plaster", "yellow_linen_wall_texture", "plain"):
        Image.new("RGB", (4, 4), (150, 150, 140)).save(folder / "textures" / f"{name}.png")
    (folder / "scenes").mkdir()
    for name, table in _TABLES.items():
        (folder / "scenes" / f"{name}.xml").write_text(_scene(table))
    for name in {*_MOVABLE, *_SITES}:
        for group in _FOLDERS:
            (folder / group / name).mkdir(parents=True)
            (folder / group / name / f"{name}.xml").write_text(_thing(name))
    (folder / "articulated_objects").mkdir()
    for name in _JOINTS:
        (folder / "articulated_objects" / f"{name}.xml").write_text(_thing(name))


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libero") / "assets"
    write_stand_in(folder)
    return folder


@pytest.fixture(autouse=True)
def _no_simulation_stays() -> Iterator[None]:
    yield
    for environment in list(simulation._alive):
        environment.close()


def environment_of(task: LiberoTask, tmp_path: Path, assets: Path) -> simulation.LiberoEnvironment:
    environment = robot_task(task, Places(tmp_path, assets=assets)).environment()
    assert isinstance(environment, simulation.LiberoEnvironment)
    return environment


@pytest.mark.parametrize("suite", SUITES)
def test_a_task_of_each_suite_runs(suite: str, boxes: Path, tmp_path: Path) -> None:
    """On scenes of boxes."""
    _run_first_task(suite, tmp_path, boxes)


@pytest.mark.skipif(
    not Path(REAL, "scenes").is_dir(),
    reason="needs LIBERO's assets: set CLFRAME_LIBERO_ASSETS to their folder",
)
def test_a_task_of_each_suite_runs_with_the_real_assets(tmp_path: Path) -> None:
    for suite in SUITES:
        _run_first_task(suite, tmp_path, Path(REAL))


def _run_first_task(suite: str, tmp_path: Path, assets: Path) -> None:
    """Construct, set an initial state, twenty random steps, success flag."""
    task = tasks_of(suite)[0]
    environment = environment_of(task, tmp_path, assets)
    seen, info = environment.reset(seed=0)
    assert info["init_state"] == 0
    assert info["success"] is False
    assert seen["state"].shape == (Layout.of(tasks_of(suite)).size,)
    # The arm is about where the initial state put it: the controller turns the hand back a little
    # to where it was at the reset, as in LIBERO.
    stored = environment.init_states[0]
    assert np.abs(seen["state"][2:9] - stored[1:8]).max() < 0.1
    draw = np.random.default_rng(0)
    for _ in range(20):
        seen, reward, terminated, truncated, info = environment.step(draw.uniform(-1, 1, 7))
        assert np.isfinite(seen["state"]).all()
        assert info["success"] is False
        assert (reward, terminated, truncated) == (0.0, False, False)
    assert environment.simulator_state().shape == (task.state_size,)


def test_episodes_follow_from_their_number(boxes: Path, tmp_path: Path) -> None:
    task = tasks_of("libero_object")[0]
    robot = robot_task(task, Places(tmp_path, assets=boxes))
    seeds = episode_seeds(3, *seed_key(robot, 0, EVALUATION))
    environment = robot.environment()
    np.random.seed(5)
    expected = np.random.random()
    np.random.seed(5)
    seen = []
    for seed in seeds:
        observation, info = environment.reset(seed=seed)
        assert info["init_state"] == seeds.index(seed)
        for _ in range(3):
            observation, *_ = environment.step(np.full(7, 0.3))
        seen.append(observation["state"])
    assert np.random.random() == expected  # the caller's draws are left alone
    again, _ = environment.reset(seed=seeds[0])
    for _ in range(3):
        again, *_ = environment.step(np.full(7, 0.3))
    assert np.array_equal(again["state"], seen[0])
    assert not np.array_equal(seen[0], seen[1])


def test_success_is_liberos_own(boxes: Path, tmp_path: Path) -> None:
    """The soup put into the basket's region by hand: its check says yes at the next step."""
    task = tasks_of("libero_object")[0]
    environment = environment_of(task, tmp_path, boxes)
    environment.reset(seed=0)
    inner = environment.simulation.env
    basket = inner.sim.data.get_site_xpos("basket_1_contain_region").copy()
    joint = inner.objects_dict["alphabet_soup_1"].joints[-1]
    pose = inner.sim.data.get_joint_qpos(joint).copy()
    pose[:3] = basket + np.array([0, 0, 0.04])
    inner.sim.data.set_joint_qpos(joint, pose)
    _, reward, *_, info = environment.step(np.zeros(7))
    assert info["success"] is True
    assert reward == 1.0


def test_start_states_are_written_down(
    boxes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = tasks_of("libero_object")[0]
    environment = environment_of(task, tmp_path, boxes)
    for _ in range(2):
        environment.reset(seed=0)
    record = tmp_path / "libero" / "start_states.jsonl"
    (line,) = [json.loads(text) for text in record.read_text().splitlines()]
    assert (line["suite"], line["task"], line["start"]) == (task.suite, task.name, 0)
    assert line["versions"] == places_of.versions()
    assert set(line["places"]) == set(task.objects)
    # Another version's line that differs is reported.
    line["versions"] = {**line["versions"], "mujoco": "3.3.2"}
    line["places"]["basket_1"][0] += 0.03
    record.write_text(json.dumps(line) + "\n")
    capsys.readouterr()
    environment_of(task, tmp_path, boxes).reset(seed=0)
    output = capsys.readouterr().err
    assert "settles elsewhere" in output
    assert "MuJoCo 3.3.2 ('basket_1' 3.0 cm apart)" in output


def test_one_task_at_a_time_is_kept_in_memory(boxes: Path, tmp_path: Path) -> None:
    first, other = (environment_of(t, tmp_path, boxes) for t in tasks_of("libero_object")[:2])
    first.reset(seed=0)
    other.reset(seed=0)
    assert first.simulation is None
    assert simulation._alive == [other]
    assert first.reset(seed=1)[1]["init_state"] == 1


def test_a_missing_mesh_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "assets"
    write_stand_in(broken)
    (broken / "stable_scanned_objects" / "basket" / "basket.xml").unlink()
    with pytest.raises(DataError, match=r"cannot be built with the assets in .*basket\.xml"):
        environment_of(tasks_of("libero_object")[0], tmp_path, broken).reset(seed=0)


def test_other_assets_than_the_tasks_are_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "assets"
    write_stand_in(wrong)
    (wrong / "articulated_objects" / "flat_stove.xml").write_text(_thing("plate"))
    with pytest.raises(DataError, match="scene"):
        environment_of(tasks_of("libero_spatial")[0], tmp_path, wrong).reset(seed=0)


def test_importing_asks_nothing_and_leaves_the_algorithms_alone(
    boxes: Path, tmp_path: Path
) -> None:
    """In a process without a home and with standard input at its end."""
    code = (
        "import sys; from pathlib import Path\n"
        "from clframe.worlds.libero import simulation as s\n"
        "from clframe.worlds.libero.paths import Places\n"
        "from clframe.worlds.libero.tasks import tasks_of\n"
        "from clframe.worlds.libero.state_vector import Layout\n"
        "task = tasks_of('libero_object')[0]\n"
        "p = Places(Path(sys.argv[1]), assets=Path(sys.argv[2]))\n"
        "s.make(task, p, Layout.of([task])).reset(seed=0)\n"
        "bad = {'torch', 'libero.lifelong', 'robomimic', 'transformers'} & set(sys.modules)\n"
        "print(sorted(bad))\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(boxes)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    assert not (home / ".libero").exists()


def test_a_video_needs_no_opengl(boxes: Path, tmp_path: Path) -> None:
    environment = environment_of(tasks_of("libero_object")[0], tmp_path, boxes)
    environment.render_mode = "rgb_array"
    environment.reset(seed=0)
    image = environment.render()
    assert image is not None
    assert image.shape == (192, 192, 3)
    assert image.std() > 5


def test_a_recording_and_the_simulator_tell_the_same(boxes: Path, tmp_path: Path) -> None:
    """Recorded as LIBERO does: states from before each action, observations from after it."""
    h5py = pytest.importorskip("h5py")
    task = tasks_of("libero_goal")[0]
    places = Places(tmp_path, assets=boxes)
    environment = environment_of(task, tmp_path, boxes)
    seen, _ = environment.reset(seed=0)
    before, rows = [], []
    draw = np.random.default_rng(0)
    for _ in range(6):
        action, state = draw.uniform(-1, 1, 7), environment.simulator_state()
        before.append(seen["state"])
        seen, *_ = environment.step(action)
        felt = seen["state"][:12].astype(np.float64)
        felt[11] += task.height
        rows.append((action, state, felt))
    path = places.demonstration_file(task)
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["bddl_file_name"] = "x.bddl"
        actions, states, felt = (np.stack(column) for column in zip(*rows, strict=True))
        data["demo_0/actions"], data["demo_0/states"] = actions, states
        data["demo_0/obs/gripper_states"] = felt[:, :2]
        data["demo_0/obs/joint_states"] = felt[:, 2:9]
        data["demo_0/obs/ee_pos"] = felt[:, 9:]
    layout = Layout.of(tasks_of(task.suite))
    (demo,) = recordings.read(task, places, 1, layout, (), 128)
    assert np.allclose(demo.actions, actions[1:], atol=1e-6)
    assert np.allclose(demo.observations["state"], before[1:], atol=1e-5)


def test_images_are_as_libero_draws_them(boxes: Path, tmp_path: Path) -> None:
    """Upside down, as in its recordings, and shrunk by means."""
    task = tasks_of("libero_object")[0]
    places = Places(tmp_path, assets=boxes)
    environment = robot_task(task, places, ["agentview", "eye_in_hand"], 64).environment()
    try:
        seen, _ = environment.reset(seed=0)
    except DataError as error:
        if "MUJOCO_GL" not in str(error):
            raise
        pytest.skip(f"no OpenGL: {error}")
    assert seen["agentview_rgb"].shape == seen["eye_in_hand_rgb"].shape == (64, 64, 3)
    assert isinstance(environment, simulation.LiberoEnvironment)
    environment.render_mode = "rgb_array"
    upright = environment.render()
    assert upright is not None

    def brown(image: NDArray[Any]) -> NDArray[np.bool_]:
        red, _, blue = image.astype(int).transpose(2, 0, 1)
        return red - blue > 40

    flipped = brown(shrunk(upright, 64, "x"))[::-1]
    observed = brown(seen["agentview_rgb"])
    assert observed.sum() > 10
    assert (observed & flipped).sum() > 0.5 * observed.sum() > (observed & flipped[::-1]).sum()


def test_two_tasks_are_learned_and_measured(boxes: Path, tmp_path: Path) -> None:
    """The whole way, by the command line: from state, with recordings in LIBERO's layout."""
    h5py = pytest.importorskip("h5py")
    for task in tasks_of("libero_object")[:2]:
        path = Places(tmp_path).demonstration_file(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w") as file:
            file.create_group("data").attrs["bddl_file_name"] = "x.bddl"
            for name, size in (
                ("actions", 7),
                ("states", task.state_size),
                ("obs/gripper_states", 2),
                ("obs/joint_states", 7),
                ("obs/ee_pos", 3),
            ):
                file[f"data/demo_0/{name}"] = np.zeros((12, size))
    run = tmp_path / "run"
    settings = [
        "order=[0,1]",
        "cameras=null",
        "num_demos=1",
        "eval_episodes=2",
        "horizon=4",
        "num_envs=2",
    ]
    settings += ["num_workers=1", f"assets={boxes}"]
    given = [f"stream.{setting}" for setting in settings]
    given += ["model=policy", "max_epochs=1", "logger=none"]
    where = [f"data_dir={tmp_path}", f"run_dir={run}"]
    assert main(["fit", "stream=libero_object", "strategy=naive", *given, *where]) == 0
    results = json.loads((run / "results.json").read_text())
    assert np.asarray(results["matrix"]["values"]).shape == (3, 2)
    assert f"mujoco {places_of.versions()['mujoco']}" in results["source"]
    name = tasks_of("libero_object")[0].name
    video = tmp_path / "video"
    assert (
        main(["rollout", str(run), "--task", name, "--episodes", "1", "--video", str(video)]) == 0
    )
    assert len(list(video.glob("*.png"))) == 4  # one for each step
