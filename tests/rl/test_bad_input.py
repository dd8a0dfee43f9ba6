"""What can be wrong with an environment or a setting is said in a sentence."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clframe import ClframeError, DataError
from clframe.robot.observation_windows import Normalizer
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask
from clframe.testing import prepare, run_built
from clframe.worlds.point_robot import PointEnvironment

spaces = pytest.importorskip("gymnasium").spaces
SMALL = {"name": "sac", "steps": 24, "start_steps": 4, "epoch_steps": 10}


class Odd(PointEnvironment):
    """A point robot with one thing wrong with it."""

    def __init__(self, what: str, action_space: Any = None, observation_space: Any = None) -> None:
        super().__init__(0, 1)
        self.what, self.steps = what, 0
        if action_space is not None:
            self.action_space = action_space
        if observation_space is not None:
            self.observation_space = observation_space

    def reset(self, **arguments: Any) -> Any:
        self.steps = 0
        return super().reset(**arguments)

    def step(self, action: Any) -> Any:
        seen, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        if self.steps == 3 and self.what == "reward":
            reward = float("nan")
        if self.steps == 3 and self.what == "success":
            info = {}
        if self.steps == 3 and self.what == "nan":
            seen["state"][1] = np.nan
        if self.steps == 3 and self.what == "size":
            seen["state"] = seen["state"][:2]
        if self.steps == 3 and self.what == "name":
            seen = {"image": seen["state"]}
        return seen, reward, terminated, truncated, info


def fit(tmp_path: Path, second: Any, **learner: Any) -> None:
    """Learn a good task and then another one."""
    good = functools.partial(Odd, "nothing", spaces.Box(-1, 1, (2,)))
    stream = imitation_stream(
        "odd",
        # A family of its own: environments are kept by it.
        [
            RobotTask("good", str(tmp_path), "", good),
            RobotTask("bad", str(tmp_path), "", second),
        ],
        [0, 1],
        ImitationSettings(eval_episodes=1, horizon=8, num_workers=0),
        tmp_path,
        state_size=4,
        action_size=2,
        normalizer=Normalizer(np.zeros(4, np.float32), np.ones(4, np.float32)),
    )
    model = {"name": "actor", "hidden": [8]}
    run_built(prepare(stream, "naive", model, learner={**SMALL, **learner}, batch_size=4))


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (
            functools.partial(Odd, "", spaces.Box(-1, 1, (3,))),
            r"task 'bad', before its first step, takes actions of shape \(3,\), but the stream's "
            r"first task takes \(2,\)",
        ),
        (
            functools.partial(Odd, "", spaces.Dict({"arm": spaces.Box(-1, 1, (2,))})),
            "task 'bad', before its first step, has the action space Dict; ",
        ),
        (
            functools.partial(Odd, "", spaces.Discrete(4)),
            "task 'bad', before its first step, has the action space Discrete; ",
        ),
        (
            functools.partial(Odd, "", spaces.Box(-np.inf, np.inf, (2,))),
            "task 'bad', before its first step, has an unbounded action space",
        ),
        (
            functools.partial(Odd, "", spaces.Box(0, 5, (2,))),
            "task 'bad', before its first step, takes actions from 0 to 5",
        ),
        (functools.partial(Odd, "reward"), "task 'bad' at step 3 gave the reward nan"),
        (functools.partial(Odd, "success"), "task 'bad' does not report at step 3 whether"),
    ],
)
def test_environments(tmp_path: Path, environment: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        fit(tmp_path, environment)


@pytest.mark.usefixtures("quick_python")
def test_a_worker_process_says_the_same(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of task 'bad' at step 3 gave the reward nan"):
        fit(tmp_path, functools.partial(Odd, "reward"), overlap=True)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (functools.partial(Odd, "nan"), "at step 3 gave a state whose number 1 is nan"),
        (functools.partial(Odd, "size"), r"at step 3 gave a state of shape \(2,\), but .* \(4,\)"),
        (functools.partial(Odd, "name"), "at step 3 gave no 'state', only image"),
        (
            functools.partial(Odd, "", None, spaces.Box(-0.01, 0.01, (4,))),
            r"at step 0 gave a state outside of its observation_space: number 1 is \S+, not in "
            r"\[-0.01, 0.01\]",
        ),
    ],
)
def test_states(environment: Any, sentence: str) -> None:
    from clframe.rl.environment import CheckedEnvironment

    task = RobotTask("bad", "odd", "", environment)
    checked = CheckedEnvironment(task, state_size=4, action_size=2)

    def episode() -> None:
        checked.reset(1)
        for _ in range(3):
            checked.step(np.ones(2, np.float32))

    with pytest.raises(DataError, match=f"the environment of task 'bad' {sentence}"):
        episode()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"stream": "split_mnist", "model": "actor"}, "needs a stream of robot tasks, which 'spl"),
        ({"model": "policy"}, "learner=sac needs model=actor, not PerceptronPolicy"),
        ({"max_epochs": 3}, r"trainer.max_epochs=3: learner=sac learns for learner.steps=24 dec"),
        ({"max_steps": 3}, r"trainer.max_steps=3: .* which are 20 updates; set learner.steps"),
        (
            {"strategy": "cumulative"},
            "'cumulative' chooses an experience's training samples, .* such",
        ),
        ({"precision": "bf16-mixed"}, "learner=sac learns in 32 bits"),
        ({"learner": {**SMALL, "start_steps": 24}}, "learner.steps=24 leaves no update after"),
        ({"learner": {**SMALL, "tau": 1.5}}, "learner.tau must be at most 1, got 1.5"),
        ({"learner": {**SMALL, "update_ratio": 0.0}}, "learner.update_ratio must be above 0"),
        ({"learner": {**SMALL, "buffer_size": 3}}, "learner.buffer_size=3 must hold an episode"),
        (
            {"learner": {**SMALL, "buffer_size": 50, "num_envs": 2}},
            "must hold an episode of each of 2 environments",
        ),
        (
            {"learner": {**SMALL, "memory": 5, "reset": []}},
            "learner.memory=5 needs a buffer that is reset",
        ),
        ({"learner": {**SMALL, "reset": ["actor"]}}, "'reset' must be a list of which each entry"),
        ({"learner": {"name": "imitation"}, "stream": "split_mnist"}, "learner=imitation needs a"),
        ({"learner": "ppoo"}, "unknown learner 'ppoo'"),
        ({"learner": {"name": "default"}, "model": "actor"}, "model=actor clones policies"),
    ],
)
def test_settings(arguments: dict[str, Any], sentence: str) -> None:
    values = {"stream": "point_robot", "learner": SMALL, **arguments}
    with pytest.raises(ClframeError, match=sentence):
        run_built(prepare(**values))


def test_imitation_can_be_named() -> None:
    named = prepare("point_robot", learner="imitation")
    assert type(named.learner) is type(prepare("point_robot").learner)
