"""What can be wrong with environments or settings of ``learner=ppo`` is said in a sentence."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

from clframe import ClframeError, DataError, SettingError
from clframe.cli.main import main
from clframe.testing import prepare, run_built
from clframe.training.engine import Engine
from tests.helpers import corridor

spaces = pytest.importorskip("gymnasium").spaces
SMALL = {"name": "ppo", "n_envs": 2, "n_steps": 4, "steps": 16, "n_epochs": 1}


class Other(corridor.Corridor):  # type: ignore[misc]
    """A corridor with another action space."""

    def __init__(self, space: Any) -> None:
        super().__init__()
        self.action_space = space


def stream_with(folder: Path, make: Any) -> Any:
    """A good corridor and then another environment."""
    stream = corridor.corridors(folder, eval_episodes=1, horizon=8)
    first, second = stream.tasks
    robot = dataclasses.replace(second.evaluation.robot, name="bad", environment=make)
    evaluation = dataclasses.replace(second.evaluation, robot=robot)
    second = dataclasses.replace(second, name="bad", evaluation=evaluation)
    experiences = [
        stream.experiences[0],
        dataclasses.replace(stream.experiences[1], tasks=(second,)),
    ]
    return dataclasses.replace(stream, tasks=[first, second], experiences=experiences)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            functools.partial(Other, spaces.Discrete(5)),
            "task 'bad', before its first step, has 5 choices, but the stream's first task has 16",
        ),
        (
            functools.partial(Other, spaces.Discrete(16, start=1)),
            "task 'bad', before its first step, counts its choices from 1; wrap it",
        ),
        (
            functools.partial(Other, spaces.Box(-1, 1, (2,))),
            "task 'bad', before its first step, has the action space Box, but the stream's actions",
        ),
        (
            functools.partial(Other, spaces.MultiDiscrete([4, 4])),
            r"has the action space MultiDiscrete, .* choices; it needs Discrete\(16\)",
        ),
        (
            functools.partial(Other, spaces.MultiBinary(16)),
            "has the action space MultiBinary, but the stream's actions are choices",
        ),
        (
            functools.partial(Other, spaces.Dict({"hand": spaces.Discrete(16)})),
            "has the action space Dict, but the stream's actions are choices",
        ),
        (
            functools.partial(corridor.Corridor, wrong="mask"),
            "task 'bad' at step 3 gave a mask of zeros; without a possible choice the episode",
        ),
        (
            functools.partial(corridor.Corridor, wrong="half"),
            "task 'bad' at step 3 gave a mask whose number 2 is 0.5; it must be 1 for a possible",
        ),
        (
            functools.partial(corridor.Corridor, wrong="reward"),
            "task 'bad' at step 3 gave the reward nan, which is not a finite number",
        ),
        (
            functools.partial(corridor.Corridor, wrong="success"),
            "task 'bad' does not report at step 3 whether the goal holds",
        ),
    ],
)
def test_environments(tmp_path: Path, make: Any, sentence: str) -> None:
    model = {"name": "categorical", "hidden": [8]}
    built = prepare(stream_with(tmp_path, make), "naive", model, learner=SMALL, batch_size=4)
    with pytest.raises(DataError, match=sentence):
        run_built(built)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"model": "policy"},
            "learner=ppo needs model=actor, not PerceptronPolicy: the actions of stream ",
        ),
        ({"stream": "split_mnist"}, "needs a stream of robot tasks, which 'split_mnist' is not"),
        ({"max_epochs": 3}, "max_epochs=3: learner=ppo learns for learner.steps=16 decisions, wh"),
        ({"max_steps": 3}, r"which are 2 rollouts \(max_epochs\) with 1 updates each; set learner"),
        ({"limit_train_batches": 3}, "trainer.limit_train_batches has no effect with learner=ppo"),
        ({"drop_last": True}, "trainer.drop_last has no effect with learner=ppo"),
        ({"strategy": "multitask"}, "'multitask' chooses .* but learner=ppo"),
        ({"strategy": "cumulative"}, "'cumulative' chooses an experience's training samples"),
        ({"precision": "bf16-mixed"}, "learner=ppo learns in 32 bits"),
        ({"learner": {**SMALL, "clip_range": 0.0}}, "learner.clip_range must be above 0, got 0.0"),
        ({"learner": {**SMALL, "gae_lambda": 1.5}}, "learner.gae_lambda must be at most 1"),
        ({"learner": {**SMALL, "target_kl": -1.0}}, "learner.target_kl must be above 0"),
        ({"learner": {**SMALL, "n_envs": 0}}, "learner.n_envs must be at least 1"),
        ({"learner": {**SMALL, "value_hidden": [0]}}, "learner.value_hidden must be at least 1"),
        ({"learner": {**SMALL, "reset": ["actor"]}}, "'reset' must be a list of which each entry"),
    ],
)
def test_settings(arguments: dict[str, Any], sentence: str) -> None:
    values = {"stream": "point_robot", "learner": SMALL, **arguments}
    with pytest.raises(ClframeError, match=sentence):
        run_built(prepare(**values))


def test_a_policy_without_logits_cannot_choose(tmp_path: Path) -> None:
    stream = corridor.corridors(tmp_path)
    with pytest.raises(SettingError, match="learner=ppo needs model=categorical, not Classifier:"):
        prepare(stream, "naive", {"name": "mlp", "hidden": [8]}, learner=SMALL)


def test_actions_that_are_choices_are_not_for_sac(tmp_path: Path) -> None:
    stream = corridor.corridors(tmp_path)
    with pytest.raises(SettingError, match="learner=sac needs numeric actions, but th"):
        prepare(stream, "naive", {"name": "categorical", "hidden": [8]}, learner="sac")


def test_a_mask_that_is_not_of_the_newest_state_is_refused(tmp_path: Path) -> None:
    stream = corridor.corridors(tmp_path, window=2)
    with pytest.raises(SettingError, match=r"must be within the newest state .* 25 to 50, not 9 "):
        run_built(prepare(stream, "naive", {"name": "categorical", "hidden": [8]}, learner=SMALL))


def test_a_run_of_several_processes_is_refused_before_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Engine, "launch", lambda self: pytest.fail("processes were started"))
    words = "fit stream=point_robot learner=ppo trainer.devices=2 trainer.accelerator=cpu"
    assert main([*words.split(), f"run_dir={tmp_path / 'run'}"]) == 2
    said = capsys.readouterr().err
    assert said == "clframe: learner=ppo runs in one process: set trainer.devices=1\n"
    assert not (tmp_path / "run").exists()
