"""A run that is killed at any step ends with the same bits, in the middle of an episode, too."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clframe import DataError, Plugin
from clframe.build import Built
from clframe.checkpoint.settings import CheckpointSettings
from clframe.cli.main import main
from clframe.plugins.ewc import EWC
from clframe.plugins.multitask import Multitask
from clframe.plugins.packnet import PackNet
from clframe.plugins.replay import Replay
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.testing import Kill, Killed, prepare


def small(plugins: list[Plugin], **learner: Any) -> Built:
    """Two tasks of 20 updates each, with episodes of 7 decisions."""
    return prepare(
        {"name": "point_robot", "n_tasks": 2, "eval_episodes": 2, "horizon": 7},
        plugins,
        {"name": "actor", "hidden": [8], "heads": "task"},
        learner={
            "name": "sac",
            **{"steps": 26, "start_steps": 6, "epoch_steps": 8, "update_ratio": 1.0},
            **learner,
        },
        batch_size=8,
        check_val_every_n_epoch=1,
    )


def killed(folder: Path, plugins: list[Plugin], every: int, after: int, **learner: Any) -> Built:
    where = RunFolder(folder)
    where.saving = CheckpointSettings(every_n_steps=every)
    for _ in range(100):
        built = small([*copy.deepcopy(plugins), Kill(after)], **learner)
        try:
            run(built.learner, built.stream, "small", where)
        except Killed:
            continue
        return built
    raise AssertionError("the run never came to its end")


@pytest.mark.usefixtures("quick_python")
@pytest.mark.parametrize(
    ("plugins", "learner"),
    [
        ([Replay(size=20)], {}),
        ([PackNet(), EWC()], {"update_ratio": 0.5}),
        ([Multitask()], {"num_envs": 3}),
        ([], {"memory": 9, "overlap": True, "num_envs": 2, "buffer_size": 14}),
        ([], {"reset": [], "buffer_size": 11, "update_ratio": 2.0, "action_repeat": 2}),
    ],
    ids=["replay", "packnet_ewc", "multitask", "overlap", "no_reset"],
)
def test_a_killed_run_ends_with_the_same_bits(
    tmp_path: Path, plugins: list[Plugin], learner: dict[str, Any]
) -> None:
    whole = small([*copy.deepcopy(plugins), Kill(10**9)], **learner)
    result = run(whole.learner, whole.stream, "small")
    # Every start of a run that overlaps waits for worker processes.
    after = 11 if learner.get("overlap") else 4
    again = killed(tmp_path, plugins, every=3, after=after, **learner)
    assert again.learner.state.curves == result.curves
    assert np.array_equal(again.learner.state.matrix.values, result.matrix.values, equal_nan=True)
    state = again.learner.state_dict()
    for name, value in whole.learner.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert torch.equal(whole.learner.generator.get_state(), again.learner.generator.get_state())
    # A checkpoint holds how many transitions there were, and a file all of them.
    newest = max((tmp_path / "checkpoints").glob("*.pt"))
    saved = torch.load(newest, weights_only=True)["plugins"]["interaction"]["transitions"]
    assert saved["columns"] == {}
    assert saved["added"] == 2 * 26
    assert saved["mark"]["bytes"] == (tmp_path / "transitions.bin").stat().st_size
    mine, theirs = (b.learner.interaction for b in (whole, again))  # type: ignore[attr-defined]
    for name, column in mine.transitions.newest(100).items():
        assert torch.equal(column, theirs.transitions.newest(100)[name]), name
    for name in ("decisions", "updates", "made", "begun", "episodes"):
        assert getattr(mine, name) == getattr(theirs, name), name


def test_an_environment_that_does_not_repeat_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clframe.worlds.point_robot import PointEnvironment

    plain, drift = PointEnvironment.step, iter(np.linspace(0, 1, 10_000))

    def unrepeatable(self: PointEnvironment, action: Any) -> Any:
        self.position = self.position + next(drift) * 1e-3
        return plain(self, action)

    monkeypatch.setattr(PointEnvironment, "step", unrepeatable)
    with pytest.raises(DataError, match=r"task 'turn_0_of_2' does not repeat an episode: after "):
        killed(tmp_path, [], every=3, after=4)


def test_transitions_that_are_not_what_was_written_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        *("fit", "stream=point_robot", "stream.n_tasks=1", "stream.eval_episodes=1"),
        *("stream.horizon=7", "model.hidden=[8]", "trainer.batch_size=8", "logger=none"),
        *("learner=sac", "learner.steps=30", "learner.start_steps=5"),
        *("checkpoint.every_n_steps=5", "checkpoint.keep=3", f"run_dir={tmp_path}"),
    ]
    assert main(words) == 0
    assert re.search(r"  [\d,]+ decisions/s  [\d,]+ updates/s\n", capfd.readouterr().err)
    for path in sorted((tmp_path / "checkpoints").iterdir())[-4:]:
        path.unlink()
    (tmp_path / "results.json").unlink()
    file = tmp_path / "transitions.bin"
    kept = file.read_bytes()

    def refused(*more: str) -> str:
        capfd.readouterr()
        assert main(["fit", f"resume={tmp_path}", *more]) == 2
        return capfd.readouterr().err.splitlines()[-1]

    file.write_bytes(kept[:100] + bytes([kept[100] ^ 1]) + kept[101:])
    assert f"'{file}' is not what the run had written. Put back a copy" in refused()
    file.write_bytes(kept[: len(kept) // 2])
    assert f"'{file}' has {len(kept) // 2} bytes, but the run had written" in refused()
    sentence = refused("resume.allow=[files]")
    assert f"'{file}' holds 15 transitions, but the run had 30 and learns from them" in sentence
    file.unlink()
    assert f"'{file}' is missing" in refused()
    file.write_bytes(kept)
    assert main(["fit", f"resume={tmp_path}"]) == 0
    assert file.read_bytes() == kept
