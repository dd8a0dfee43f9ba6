"""Data sets of LeRobot as a stream."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clframe
from clframe.cli.main import main
from clframe.robot.demonstrations import Demonstration
from clframe.robot.observation_windows import STATE
from clframe.robot.offline_evaluation import Answers, HeldOut, answer, evaluate, measures, sums

pytest.importorskip("pyarrow", reason="data sets of LeRobot are Parquet files")

from clframe.robot.formats.lerobot.write import write
from clframe.robot.formats.recording import Recording

SIDE = 16


def recording(name: str, turn: float, episodes: int, seed: int, scale: float = 1.0) -> Recording:
    """A task whose action is the state, turned: one can be learned, and not for another task."""
    rng = np.random.default_rng(seed)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    demos = []
    for number in range(episodes):
        state = rng.uniform(-0.7, 0.7, (20 + 3 * number, 2)).astype(np.float32)
        bright = (128 + 127 * state[:, :1]).astype(np.uint8)
        image = np.broadcast_to(bright[:, None, None], (len(state), SIDE, SIDE, 3)).copy()
        actions = (scale * state @ matrix.T).astype(np.float32)
        demos.append(Demonstration(actions, {"state": state, "top_rgb": image}))
    return Recording(name, f"turn by {turn:g}", {}, demos)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sets") / "turns"
    write(out, [recording("none", 0, 5, 1), recording("half", np.pi, 5, 2)])
    return out


def test_measures_are_those_of_their_formulas() -> None:
    rng = np.random.default_rng(0)
    shown = rng.standard_normal((200, 3))
    chosen = shown + rng.normal(0, [0.05, 0.3, 0.1], (200, 3))
    found = measures(sums(Answers(chosen, shown), 0.2))
    rest = ((shown - chosen) ** 2).sum() / ((shown - shown.mean(0)) ** 2).sum()
    assert found["action_r2"] == pytest.approx(1 - rest)
    within = [
        all(abs(a - b) <= 0.2 for a, b in zip(x, y, strict=True))
        for x, y in zip(chosen, shown, strict=True)
    ]
    assert found["within"] == pytest.approx(sum(within) / 200)
    assert found["action_error"] == pytest.approx(np.abs(shown - chosen).mean())
    parts = [Answers(chosen[:70], shown[:70]), Answers(chosen[70:], shown[70:])]
    assert measures(sum(sums(part, 0.2) for part in parts)) == pytest.approx(found)
    mean = np.broadcast_to(shown.mean(0), shown.shape)
    assert measures(sums(Answers(mean, shown), 0.2))["action_r2"] == pytest.approx(0, abs=1e-9)
    assert measures(sums(Answers(-shown, shown), 0.2))["action_r2"] == 0
    assert measures(sums(Answers(shown, shown), 0.2)) == {
        "action_r2": 1.0,
        "within": 1.0,
        "action_error": 0.0,
    }


def test_an_experience_for_every_task(folder: Path) -> None:
    stream = clframe.stream("lerobot", path=str(folder), held_out=0.3)
    assert [task.name for task in stream.tasks] == ["turn_by_0", "turn_by_3_14159"]
    assert stream.experiences[1].info["language"] == "turn by 3.14159"
    data = stream.experiences[0].data
    how: Any = stream.tasks[0].evaluation
    held_out = [len(demo) for demo in how.read()]
    assert held_out
    assert set(held_out) < {20, 23, 26, 29, 32}
    assert len(data) == sum((20, 23, 26, 29, 32)) - sum(held_out)
    learned = {tuple(row) for row in data.gather(torch.arange(len(data)))[STATE][:, 0].tolist()}
    measured = np.concatenate([demo.observations[STATE] for demo in how.read()])
    assert not learned & {tuple(row) for row in measured.tolist()}


def test_episodes_that_are_added_move_no_others(tmp_path: Path) -> None:
    def measured(episodes: int, seed: int) -> list[int]:
        folder = tmp_path / f"{episodes}"
        if not folder.exists():
            write(folder, [recording("none", 0, episodes, 1)])
        stream = clframe.stream("lerobot", path=str(folder), held_out=0.3, seed=seed)
        how: Any = stream.tasks[0].evaluation
        return [len(demo) for demo in how.read()]

    for seed in range(3):
        before, after = measured(10, seed), measured(14, seed)
        assert [length for length in after if length < 20 + 3 * 10] == before


def test_an_experience_for_every_data_set(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "more"
    write(other, [recording("none", 0, 3, 3)])
    stream = clframe.stream("lerobot", path=[str(folder), str(other)], by="dataset")
    assert [task.name for task in stream.tasks] == ["turns", "more"]
    together = clframe.stream("lerobot", path=[str(folder), str(other)], by="task")
    assert len(together.tasks) == 2  # the same instruction is the same task
    alone = clframe.stream("lerobot", path=str(folder))
    assert len(together.experiences[0].data) > len(alone.experiences[0].data)


def test_actions_of_any_unit_are_learned_between_minus_one_and_one(tmp_path: Path) -> None:
    write(tmp_path / "degrees", [recording("none", 0, 3, 1, scale=90.0)])
    write(tmp_path / "units", [recording("none", 0, 3, 1)])
    scaled = clframe.stream("lerobot", path=str(tmp_path / "degrees")).experiences[0].data
    kept = clframe.stream("lerobot", path=str(tmp_path / "units")).experiences[0].data
    assert float(scaled.labels.abs().max()) <= 1 + 1e-6
    raw = recording("none", 0, 3, 1, scale=90.0).demos
    every = np.concatenate([demo.actions for demo in raw])
    low, high = every.min(0), every.max(0)
    first = np.concatenate([demo.actions for demo in raw[:2]])
    wanted = (first - (low + high) / 2) / ((high - low) / 2)
    np.testing.assert_allclose(scaled.labels, wanted, atol=1e-5)
    np.testing.assert_array_equal(
        kept.labels, np.concatenate([d.actions for d in recording("none", 0, 3, 1).demos[:2]])
    )


def test_a_policy_learns_and_forgets(folder: Path, tmp_path: Path) -> None:
    result = clframe.fit(
        clframe.stream("lerobot", path=str(folder), task_input="none"),
        "naive",
        max_epochs=60,
        run_dir=tmp_path / "run",
        progress=False,
    )
    values = result.matrix.values
    assert result.matrix.measure == "action_r2"
    assert values[1, 0] > 0.9
    assert values[2, 1] > 0.9
    assert values[2, 0] < 0.1  # the opposite is done now
    assert main(["rollout", str(tmp_path / "run")]) == 2


def test_a_policy_that_sees_and_remembers(folder: Path) -> None:
    stream = clframe.stream("lerobot", path=str(folder), cameras=["top"], size=SIDE)
    found: dict[str, Any] = {}

    class Look(clframe.Plugin):
        @clframe.hookimpl
        def after_evaluation(self, learner: Any, row: str, results: Any) -> None:
            found.update(learner=learner, results=results)

    clframe.fit(
        stream,
        ["naive", Look()],
        model={"name": "resnet_t", "size": "small", "window": 3, "act": "mode_mean"},
        max_epochs=1,
        batch_size=32,
        run_dir=False,
        progress=False,
    )
    learner = found["learner"]
    task = learner.stream.tasks[0]
    how = task.evaluation
    assert isinstance(how, HeldOut)
    demos = list(how.read()) + stream.read(0)[:2]
    learner.eval()
    with torch.inference_mode():
        # Side by side, with others that are longer, or alone: the same actions.
        together = answer(learner, task, how, demos).chosen
        alone = [answer(learner, task, how, [demo]).chosen for demo in demos]
        np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)
        assert evaluate(learner, task, how)["action_r2"] == found["results"][task.name]["action_r2"]


def spoil_stats(root: Path) -> None:
    (root / "meta/stats.json").write_text(json.dumps({"action": {"min": [0.0]}}))


def old(root: Path) -> None:
    path = root / "meta/info.json"
    path.write_text(path.read_text().replace('"v3.0"', '"v2.1"'))


@pytest.mark.parametrize(
    ("spoil", "settings", "sentence"),
    [
        (None, ["stream.cameras=[tpo]"], "has no camera 'tpo'; did you mean 'top'"),
        (None, ["stream.held_out=1"], "stream.held_out must be between 0 and 1"),
        (None, ["stream.max_episodes=1"], "stream.max_episodes must be"),
        (None, ["stream.by=robot"], "'by' must be one of task, dataset"),
        (None, ["learner=sac"], "has only recordings"),
        (spoil_stats, [], "must have the min of the 2 numbers of 'action'"),
        (old, [], "is a LeRobot dataset v2.1, not v3.0"),
        (lambda root: (root / "meta/info.json").unlink(), [], "has no meta/info.json"),
    ],
)
def test_mistakes_are_one_sentence(
    spoil: Any,
    settings: list[str],
    sentence: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "copy"
    shutil.copytree(folder, root)
    if spoil is not None:
        spoil(root)
    words = ["fit", "stream=lerobot", f"stream.path={root}", "run_dir=false", "logger=none"]
    assert main([*words, *settings]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


def test_data_sets_that_differ_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = recording("odd", 0, 2, 1)
    for demo in odd.demos:
        demo.observations["state"] = demo.observations["state"][:, :1]
    write(tmp_path / "odd", [odd])
    write(tmp_path / "single", [recording("one", 0, 1, 1)])
    words = ["fit", "stream=lerobot", "run_dir=false", "logger=none"]
    assert main([*words, f"stream.path=[{folder},{tmp_path / 'odd'}]"]) == 2
    assert "'observation.state' has the shape [1]" in capsys.readouterr().err
    assert main([*words, f"stream.path={tmp_path / 'single'}"]) == 2
    assert "has only one episode" in capsys.readouterr().err
