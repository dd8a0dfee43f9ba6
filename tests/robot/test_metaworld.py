"""Meta-World as streams; what needs the package is skipped where it is absent."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import clframe
from clframe.cli.main import main
from clframe.errors import DataError, SettingError
from clframe.robot import collect
from clframe.streams.metaworld import stream as metaworld
from clframe.worlds import metaworld as simulation

needed = pytest.mark.skipif(
    find_spec("metaworld") is None or find_spec("h5py") is None,
    reason="needs clframe[metaworld]",
)


def test_the_lists_are_those_of_the_papers() -> None:
    assert len(metaworld.ALL) == 50
    assert len(set(metaworld.MT10)) == len(set(metaworld.CW10)) == len(set(metaworld.ML10)) == 10
    assert len(metaworld.ML45) == 45
    for names in (metaworld.MT10, metaworld.CW10, metaworld.ML10, metaworld.ML10_TEST):
        assert set(names) <= set(metaworld.ALL)
    assert not set(metaworld.ML10) & set(metaworld.ML10_TEST)


def test_recurring_and_held_out_tasks() -> None:
    twice = clframe.stream("metaworld_cw20")
    assert (len(twice), len(twice.tasks)) == (20, 10)
    assert twice.experiences[10].tasks == (twice.tasks[0],)
    assert twice.experiences[10].name == "hammer (2)"
    held = clframe.stream("metaworld_ml10")
    assert (len(held), len(held.tasks)) == (10, 15)
    assert held.tasks[-1].info["taught"] is False
    assert len(clframe.stream("metaworld_ml1_push-wall").tasks) == 1
    assert clframe.stream("metaworld_cw10", tasks=["push", "hammer"]).tasks[0].name == "hammer"


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(SettingError, match="did you mean 'push-wall'"):
        clframe.stream("metaworld_cw10", tasks=["push-wal"])
    with pytest.raises(SettingError, match="at most 500"):
        clframe.stream("metaworld_cw10", horizon=900)


WITHOUT = """
import sys
from importlib.util import find_spec
sys.path[:] = sys.argv[1:]
import clframe
assert find_spec("metaworld") is None
assert find_spec("mujoco") is not None
try:
    clframe.stream("metaworld_cw10", num_workers=0).experiences[0].data
except clframe.errors.DataError as error:
    print(error)
"""
"""Runs with these places of packages instead of the interpreter's own."""


@pytest.mark.slow
def test_without_the_package_the_extra_is_named_by_a_process(tmp_path: Path) -> None:
    """In a process whose packages are those that are here, but for Meta-World."""
    places = []
    for number, place in enumerate(map(Path, sys.path)):
        if any(place.glob("metaworld*")):
            links = tmp_path / f"packages{number}"
            links.mkdir()
            for package in place.iterdir():
                if not package.name.startswith("metaworld"):
                    (links / package.name).symlink_to(package)
            place = links
        places.append(str(place))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *places], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        "cannot be made: metaworld is not installed: pip install 'clframe[metaworld]'\n"
    )


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the package's metadata is not found."""

    def version(package: str) -> str:
        if package == "metaworld":
            raise PackageNotFoundError(package)
        return metadata.version(package)

    simulation.versions()  # is kept, and is to hold what is really here
    monkeypatch.setattr(simulation, "version", version)
    stream = clframe.stream("metaworld_cw10", num_workers=0, data_dir=tmp_path)
    with pytest.raises(DataError) as caught:
        _ = stream.experiences[0].data
    assert str(caught.value).endswith(
        "cannot be made: metaworld is not installed: pip install 'clframe[metaworld]'"
    )


@needed
def test_an_episode_follows_from_its_seed() -> None:
    from gymnasium.utils.env_checker import check_env

    task = metaworld.robot_task("push")
    first, second = task.environment(), task.environment()
    one = collect.record(task, first, 3)
    other = collect.record(task, first, 4)
    again = collect.record(task, second, 3)
    assert one is not None
    assert other is not None
    assert again is not None
    assert np.array_equal(one.observations["state"], again.observations["state"])
    assert not np.array_equal(
        one.observations["state"][0, -3:], other.observations["state"][0, -3:]
    )
    with pytest.warns(UserWarning, match="infinity"):
        check_env(second, skip_render_check=True)


@needed
def test_the_adapter_steps_as_the_original_does() -> None:
    """The same goal and actions give the observations of Meta-World's own class."""
    ours = simulation.make("faucet-close")
    ours.reset(seed=5)
    inner = simulation._class("faucet-close")()
    inner._partially_observable = False
    inner.__dict__.pop("sawyer_observation_space", None)
    inner._set_task_called, inner._freeze_rand_vec = True, True
    inner._last_rand_vec = ours.simulation._last_rand_vec.copy()
    state, _ = inner.reset()
    assert np.array_equal(ours.raw, state)
    draw = np.random.default_rng(0)
    for _ in range(20):
        action = draw.uniform(-1, 1, 4).astype(np.float32)
        seen, *_, info = ours.step(action)
        state, *_, theirs = inner.step(action)
        assert np.array_equal(seen["state"], state.astype(np.float32))
        assert info["success"] == bool(theirs["success"])


@needed
@pytest.mark.parametrize("name", ["push", "stick-pull"])
def test_what_is_computed_faster_is_what_the_original_computes(name: str) -> None:
    """Touch, grasped or not, and the observation, of one thing and of two."""
    environment = simulation.make(name)
    environment.reset(seed=1)
    inner = environment.simulation
    original = type(inner).__mro__[1]
    contacts = set()
    for _, action in zip(range(60), simulation.expert(environment), strict=False):
        environment.step(action)
        thing = inner._get_id_main_object()
        touched = inner.touching_object(thing)
        assert touched == original.touching_object(inner, thing)
        contacts.add(touched)
        seen = inner._get_curr_obs_combined_no_goal()
        assert np.array_equal(seen, original._get_curr_obs_combined_no_goal(inner))
    assert contacts == {True, False}


@needed
@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        pytest.param("metaworld_cw20", 21, 10, marks=pytest.mark.slow),
        pytest.param("metaworld_mt10", 11, 10, marks=pytest.mark.slow),
        pytest.param("metaworld_ml10", 11, 15, marks=pytest.mark.slow),
        ("metaworld_ml1_reach", 2, 1),
    ],
)
def test_a_whole_stream_fills_its_matrix(
    name: str, rows: int, columns: int, tmp_path: Path
) -> None:
    small = {"num_demos": 1, "eval_episodes": 1, "horizon": 2, "num_workers": 0}
    result = clframe.fit(
        {"name": name, **small},
        "naive",
        {"name": "policy", "hidden": [8]},
        max_epochs=1,
        data_dir=tmp_path,
        run_dir=False,
        progress=False,
    )
    assert result.matrix.values.shape == (rows, columns)
    assert not np.isnan(result.matrix.values).any()
    assert len(list(tmp_path.rglob("*_demo.hdf5"))) == len(set(map(tuple, result.task_of_row)))


@needed
def test_images_need_no_gl() -> None:
    environment = simulation.make("push", camera="corner", size=24)
    seen, _ = environment.reset(seed=0)
    assert seen["corner_rgb"].shape == (24, 24, 3)
    assert seen["corner_rgb"].std() > 10
    with pytest.raises(SettingError, match="did you mean 'corner2'"):
        simulation.make("push", camera="coner2")


@needed
def test_two_tasks_are_learned_and_rolled_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = tmp_path / "run", tmp_path / "data"
    chosen = ["stream=metaworld_cw10", "stream.tasks=[handle-press-side,window-close]"]
    fit = [
        *chosen,
        "stream.num_demos=2",
        "stream.eval_episodes=3",
        "stream.num_workers=0",
        "strategy=replay",
    ]
    where = [f"data_dir={data}", f"run_dir={run}", "logger=none", "max_epochs=2"]
    assert main(["demos", "make", *chosen, "n=2", "num_workers=0", f"data_dir={data}"]) == 0
    files = sorted(data.rglob("*_demo.hdf5"))
    assert [file.name for file in files] == [
        "handle-press-side_demo.hdf5",
        "window-close_demo.hdf5",
    ]
    assert main(["demos", "check", *map(str, files)]) == 0
    assert main(["fit", *fit, *where]) == 0
    capsys.readouterr()
    video = tmp_path / "video.gif"
    words = ["--task", "handle-press-side", "--episodes", "2", "--video", str(video)]
    assert main(["rollout", str(run), *words, "--every", "60"]) == 0
    output = capsys.readouterr().out
    assert "/2 episodes reach the goal" in output
    assert video.read_bytes().startswith(b"GIF8")
    play = ["task=window-close", "demo=1", f"data_dir={data}"]
    assert main(["demos", "play", *chosen, *play]) == 0
    assert "goal reached; largest difference to the recording 0" in capsys.readouterr().out


@needed
def test_a_policy_can_see_through_a_camera(tmp_path: Path) -> None:
    stream = {"name": "metaworld_cw10", "tasks": ["handle-press-side"], "camera": "corner"}
    small = {
        "size": 8,
        "num_demos": 1,
        "eval_episodes": 1,
        "horizon": 3,
        "num_workers": 0,
        "window": 2,
    }
    result = clframe.fit(
        {**stream, **small},
        {"replay": {"size": 10}},
        {"name": "policy", "hidden": [8], "image": 8, "images": 2},
        max_epochs=1,
        run_dir=False,
        progress=False,
    )
    assert result.matrix.values.shape == (2, 1)
    with pytest.raises(SettingError, match="of the inputs, but there are"):
        clframe.fit("metaworld_cw10", model={"name": "policy", "image": 64}, run_dir=False)
