"""The loss on held-out demonstrations beside success."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe.errors import SettingError
from clframe.robot import collect, demonstrations


def small(folder: Path, **settings: Any) -> Any:
    return clframe.stream(
        "point_robot",
        data_dir=folder,
        num_demos=4,
        eval_episodes=1,
        horizon=2,
        num_workers=0,
        **settings,
    )


def test_the_loss_is_that_of_demonstrations_which_are_not_learned(tmp_path: Path) -> None:
    stream = small(tmp_path, val_demos=1)
    result = clframe.fit(
        stream,
        strategy="naive",
        model={"name": "mlp", "hidden": [8]},
        max_epochs=4,
        check_val_every_n_epoch=2,
    )
    losses = result.metrics["validation"]["losses"]
    assert [len(curve) for curve in losses] == [3] * len(stream.experiences)
    assert [len(c) for e in result.curves.values() for c in e.values()] == [3] * len(losses)
    assert losses[0][-1] < losses[0][0]
    final = sum(curve[-1] for curve in losses) / len(losses)
    assert result.metrics["validation"]["final"] == pytest.approx(final)
    # By hand: the last demonstration of the last task, through the model as it is now.
    task = stream.tasks[stream.experiences[-1].tasks[0].index]
    how = task.evaluation
    demos = demonstrations.read(collect.path_of(how.robot, tmp_path, how.goal_seed), 4)
    states = torch.from_numpy(demos[-1].observations["state"])[:, None]
    number = torch.full((len(states),), task.index)
    assert result.model is not None
    with torch.inference_mode():
        outputs = result.model(how.inputs({"state": states}, number))
    error = (outputs - torch.from_numpy(demos[-1].actions)).square().mean()
    assert losses[-1][-1] == pytest.approx(float(error), rel=1e-4)
    learned = sum(len(demo) for demo in demos[:-1])
    assert len(stream.experiences[-1].data) == learned


def test_something_must_be_left_to_learn_from(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="leave at least one"):
        small(tmp_path, val_demos=4)
