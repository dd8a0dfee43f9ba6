"""The suites as streams: lazy, in a chosen order, and learned from end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clframe
from clframe.core.results import Result
from clframe.errors import SettingError
from clframe.streams.tabletop import SUITES, tasks
from clframe.streams.tabletop.stream import normalizer, summaries
from clframe.worlds.tabletop.observation import suite_layout


def test_every_suite_is_a_stream() -> None:
    assert set(summaries()) == {*SUITES, "tabletop_files"}
    stream = clframe.stream("tabletop_long")
    assert [task.name for task in stream.tasks] == [task.name for task in tasks("tabletop_long")]
    assert stream.tasks[8].info["language"] == "put both moka pots on the stove"
    assert stream.n_outputs == 7


def test_a_part_of_a_suite_in_another_order() -> None:
    stream = clframe.stream("tabletop_goal", tasks=["8", "turn_on_the_stove"], order="reversed")
    assert [e.name for e in stream.experiences] == [
        "put_the_bowl_on_the_plate",
        "turn_on_the_stove",
    ]
    with pytest.raises(SettingError, match="stream 'tabletop_goal' has no task '99'"):
        clframe.stream("tabletop_goal", tasks=["99"])
    with pytest.raises(SettingError, match="There is no order"):
        clframe.stream("tabletop_goal", order="sorted")
    with pytest.raises(
        SettingError, match=r"start_noise must be between 0 and 0.1 meters, got 0.5"
    ):
        clframe.stream("tabletop_goal", start_noise=0.5)
    with pytest.raises(SettingError, match="horizon must be at most 600"):
        clframe.stream("tabletop_goal", horizon=601)


def test_generated_tasks_as_a_stream() -> None:
    stream = clframe.stream("tabletop_generated", n_tasks=3, suite_seed=5)
    layout = suite_layout("tabletop_generated", 3, 5).of("arm")
    assert len(stream) == 3
    assert stream.input_shape == (layout.size + 3,)  # and the one-hot code of the task


@pytest.mark.parametrize("suite", ["tabletop_goal", "tabletop_90"])
def test_the_scaling_fits_the_state(suite: str) -> None:
    layout = suite_layout(suite)
    full, hidden = normalizer(layout), normalizer(layout, objects_visible=False)
    assert full.scale.shape == full.center.shape == (layout.size,)
    assert np.isfinite(full.scale).all()
    assert np.isfinite(hidden.scale).sum() == 18


def test_a_run_from_end_to_end(tmp_path: Path) -> None:
    result = clframe.fit(
        clframe.stream(
            "tabletop_goal",
            tasks=["7"],
            num_demos=2,
            eval_episodes=2,
            horizon=20,
            num_workers=0,
            data_dir=tmp_path,
        ),
        model="policy",
        max_epochs=1,
        run_dir=False,
        progress=False,
    )
    assert result.matrix.values.shape == (2, 1)
    assert len(list(tmp_path.rglob("turn_on_the_stove_demo.hdf5"))) == 1


def test_own_task_files_are_a_stream(tmp_path: Path) -> None:
    given = tasks("tabletop_goal")[7].text
    for name in ("one", "two"):
        (tmp_path / f"{name}.bddl").write_text(given)
    files = [str(tmp_path / "two.bddl"), str(tmp_path / "one.bddl")]
    stream = clframe.stream("tabletop_files", files=files)
    assert [task.name for task in stream.tasks] == ["two", "one"]
    assert stream.tasks[0].info["language"] == "turn on the stove"
    with pytest.raises(SettingError, match="two tasks 'two'"):
        clframe.stream("tabletop_files", files=[files[0], files[0]])
    changed = given.replace("(:language Turn on the stove)", "(:language Switch on the stove)")
    assert changed != given
    (tmp_path / "one.bddl").write_text(changed)
    other = clframe.stream("tabletop_files", files=files)
    families = [s.tasks[1].evaluation.robot.family for s in (stream, other)]
    assert families[0] != families[1]  # else the demonstrations of another task would be taken


def test_a_policy_goes_from_one_suite_to_another(tmp_path: Path) -> None:
    def fitted(suite: str, task: int, run: str, pretrain: Path | None = None) -> Result:
        stream = {
            "name": suite,
            "tasks": [task],
            "layout": "common",
            "task_input": "language",
            "num_demos": 1,
            "eval_episodes": 1,
            "horizon": 3,
            "num_workers": 0,
        }
        return clframe.fit(
            stream,
            model="policy",
            max_epochs=1,
            run_dir=tmp_path / run,
            data_dir=tmp_path,
            logger=None,
            progress=False,
            pretrain=pretrain,
        )

    fitted("tabletop_90", 20, "first")
    result = fitted("tabletop_goal", 7, "second", tmp_path / "first")
    assert result.pretrain is not None
    assert result.pretrain["stream"] == "tabletop_90"
