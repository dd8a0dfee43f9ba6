"""What an environment may offer, and what is made of one that derives from nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from clframe.cli.main import main
from clframe.errors import DataError, PluginError
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask
from clframe.robot.video.record_video import RecordVideo
from clframe.testing import prepare, run_built
from clframe.worlds.environment import RATE, Environment, WrappedEnvironment, as_environment
from clframe.worlds.point_robot import PointEnvironment, expert

CLOSED: list[int] = []


class Foreign:
    """Moves a point; derives from nothing, and has some of what an environment may offer."""

    metadata = {"render_fps": 4}  # noqa: RUF012

    def __init__(self, task: int = 0) -> None:
        self.inner = PointEnvironment(task, 2)
        self.render_mode: str | None = None

    def reset(self, seed: int | None = None) -> Any:
        return self.inner.reset(seed=seed)

    def step(self, action: Any) -> Any:
        return self.inner.step(action)

    def measures(self) -> dict[str, float]:
        return {"distance": float(np.linalg.norm(self.inner.position - self.inner.place))}

    def render(self) -> Any:
        self.inner.render_mode = self.render_mode
        return self.inner.render()

    def close(self) -> None:
        CLOSED.append(1)


def foreign_expert(environment: Any) -> Any:
    return expert(environment.inner)


class NoStep:
    """An environment without ``step``."""

    def reset(self, seed: int | None = None) -> Any:
        return np.zeros(4), {}


class DerivedNoStep(Environment):
    """One that derives from the contract."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(4), {}


class GymNoStep(gymnasium.Env[Any, Any]):
    """One that derives from Gymnasium's."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(4), {}


class Unseeded:
    """An environment of Gym's first days."""

    def reset(self) -> Any:
        return np.zeros(4)

    def step(self, action: Any) -> Any:
        return np.zeros(4), 0.0, False, {}


@pytest.mark.parametrize("kind", [NoStep, DerivedNoStep, GymNoStep])
def test_an_environment_without_step_is_refused(kind: Any) -> None:
    with pytest.raises(DataError, match=rf"{kind.__name__} is no environment: it has no 'step'"):
        as_environment(kind())


def test_an_environment_that_takes_no_seed_is_refused() -> None:
    with pytest.raises(DataError, match=r"Unseeded\.reset must take \(seed=\.\.\.\)"):
        as_environment(Unseeded())


def test_an_environment_with_other_parameters_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(PluginError, match=r"Old\.reset must take \(self, seed, options\)"):

        class Old(Environment):
            def reset(self) -> Any:  # type: ignore[override]
                return np.zeros(4)


def test_what_a_foreign_environment_has_is_used() -> None:
    foreign = Foreign()
    made = as_environment(foreign)
    assert made.innermost is foreign
    assert made.rate == 4
    assert made.render() is None
    made.render_mode = "rgb_array"
    assert foreign.render_mode == "rgb_array"
    image = made.render()
    assert image is not None
    assert image.shape == (96, 96, 3)
    made.reset(seed=3)
    made.step(np.ones(2))
    assert made.measures() == foreign.measures() != {}
    before = len(CLOSED)
    made.close()
    assert len(CLOSED) == before + 1


def test_what_a_foreign_environment_does_not_have_has_a_default() -> None:
    class Bare(Unseeded):
        def reset(self, seed: int | None = None) -> Any:
            return np.zeros(4), {}

    made = as_environment(Bare())
    assert made.rate == RATE
    assert made.measures() == {}
    assert made.simulator_state() is None
    assert made.model_file() is None
    assert made.render() is None
    assert made.video_cameras == ()
    made.close()


def test_a_wrapper_forwards_what_its_inner_environment_offers() -> None:
    foreign = Foreign()
    wrapped = WrappedEnvironment(as_environment(foreign))
    wrapped.reset(seed=1)
    assert wrapped.innermost is foreign
    assert wrapped.measures() == foreign.measures()
    assert wrapped.rate == 4


def robot_stream(folder: Path, environment: Any, demonstrates: Any) -> Any:
    tasks = [RobotTask("move", "foreign", "move", environment, demonstrates)]
    how = ImitationSettings(num_demos=2, eval_episodes=2, horizon=30, num_workers=0)
    measures = ("distance", "success", "steps")
    return imitation_stream("foreign", tasks, [0], how, folder, 4, 2, measures=measures)


def test_a_foreign_environment_is_learned_in_and_its_measures_are_kept(tmp_path: Path) -> None:
    stream = robot_stream(tmp_path, partial(Foreign, 0), foreign_expert)
    built = prepare(stream, model={"name": "policy", "hidden": [8]}, max_steps=2)
    result = run_built(built)
    distances = result.matrix.values
    assert ((distances > 0) & (distances < 5)).all()  # of episodes that measured them


def test_a_foreign_environment_is_recorded_by_its_own_render() -> None:
    recorded = RecordVideo(Foreign())
    recorded.reset(seed=0)
    (frame,) = recorded.look().values()
    assert frame.shape == (96, 96, 3)


def test_a_run_over_a_wrong_environment_ends_in_one_message(tmp_path: Path) -> None:
    stream = robot_stream(tmp_path, DerivedNoStep, foreign_expert)
    with pytest.raises(DataError, match="DerivedNoStep is no environment: it has no 'step'"):
        run_built(prepare(stream, model={"name": "policy", "hidden": [8]}, max_steps=2))


NO_STEP = """
import numpy as np
from clframe import hookimpl
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask

class NoStep:
    def reset(self, seed=None):
        return np.zeros(4), {}

def expert(environment):
    yield np.zeros(2)

def mine(data_dir):
    how = ImitationSettings(num_demos=2, horizon=5, num_workers=0)
    return imitation_stream("mine", [RobotTask("go", "mine", "go", NoStep, expert)], [0], how,
                            data_dir, 4, 2)

@hookimpl
def register(registry):
    registry.add("stream", "mine", mine)
"""


def test_the_command_line_names_the_environment_and_the_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLFRAME_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "400")
    Path("mine.py").write_text(NO_STEP)
    words = ["plugin_path=mine.py", "stream=mine", "model=policy", "max_steps=1", "run_dir=run"]
    assert main(["fit", *words]) == 2
    error = capfd.readouterr().err
    assert "NoStep is no environment: it has no 'step'" in " ".join(error.split())
    assert "Traceback" not in error
    assert not Path("run").exists()
