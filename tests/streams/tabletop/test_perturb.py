"""Perturbed tasks: what changes, what does not, and how they become a tensor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.errors import RunFolderError, SettingError
from clframe.evaluation.forgetting_tensor import ForgettingTensor
from clframe.metrics import robustness
from clframe.report.html import report_html
from clframe.robot.perturbation import PerturbSettings
from clframe.runs.reader import read_run
from clframe.streams.tabletop import tasks
from clframe.worlds.perturbation import Perturbation
from clframe.worlds.tabletop.env import TabletopEnv, make
from clframe.worlds.tabletop.gripper import HAND
from clframe.worlds.tabletop.perturb import AXES
from clframe.worlds.tabletop.wording import paraphrase

SIZE = 24
PHYSICS = [axis for axis in AXES if axis != "wording"]


def env(*perturbations: Perturbation) -> TabletopEnv:
    return make(
        "tabletop_goal", "1", cameras=("agentview",), size=SIZE, perturbations=perturbations
    )


def episode(env: TabletopEnv, seed: int = 5) -> list[dict[str, Any]]:
    seen = [env.reset(seed=seed)[0]]
    rng = np.random.default_rng(0)
    seen += [env.step(rng.uniform(-1, 1, 7))[0] for _ in range(3)]
    return seen


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    return all(
        np.array_equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a
    )


@pytest.fixture(scope="module")
def plain() -> TabletopEnv:
    return env()


def test_level_0_is_the_task_itself_to_the_bit(plain: TabletopEnv) -> None:
    nothing = env(*(Perturbation(axis, 0) for axis in AXES))
    assert same(episode(plain), episode(nothing))
    assert nothing.language == plain.language


@pytest.mark.parametrize("axis", PHYSICS)
def test_an_axis_changes_episodes_that_follow_from_the_seed(plain: TabletopEnv, axis: str) -> None:
    changed = env(Perturbation(axis, 1.0))
    first = episode(changed)
    assert same(first, episode(changed))
    assert not same(first, episode(plain))
    assert not changed.world.satisfied()


@pytest.mark.parametrize("axis", ["camera", "light", "texture", "noise"])
def test_what_is_only_seen_leaves_the_world_alone(plain: TabletopEnv, axis: str) -> None:
    changed = env(Perturbation(axis, 1.0))
    worlds = []
    for one in (plain, changed):
        episode(one)
        worlds.append(one.simulator_state())
    assert np.array_equal(*worlds)


def test_the_layout_spreads_things_but_not_the_hand(plain: TabletopEnv) -> None:
    half, whole = env(Perturbation("layout", 0.5)), env(Perturbation("layout", 1.0))
    far = {}
    for name, one in (("0.5", half), ("1", whole)):
        off = []
        for seed in range(20):
            plain.reset(seed=seed)
            one.reset(seed=seed)
            assert np.allclose(one.world.position(HAND), plain.world.position(HAND))
            off += [
                np.abs((one.world.position(thing) - plain.world.position(thing))[:2]).max()
                for thing in plain.world.plan.objects
            ]
        far[name] = np.median(off)
    assert 0.005 < far["0.5"] < far["1"] < 0.07


def test_the_hand_starts_elsewhere_and_things_where_they_were(plain: TabletopEnv) -> None:
    plain.reset(seed=1)
    for level in (0.5, 1.0):
        moved = env(Perturbation("start", level))
        moved.reset(seed=1)
        gap = np.linalg.norm(moved.world.position(HAND) - plain.world.position(HAND))
        assert gap == pytest.approx(0.12 * level, abs=0.01)
        for thing in plain.world.plan.objects:
            assert np.allclose(moved.world.position(thing), plain.world.position(thing), atol=1e-3)


def test_sensor_noise_has_its_size_and_leaves_absent_things_zero(plain: TabletopEnv) -> None:
    noisy = env(Perturbation("noise", 1.0))
    errors = []
    for seed in range(60):
        clean, seen = plain.reset(seed=seed)[0]["state"], noisy.reset(seed=seed)[0]["state"]
        assert (seen[clean == 0] == 0).all()
        errors.append((seen - clean)[:3])
    assert np.std(errors) == pytest.approx(0.005, rel=0.2)


def test_the_same_is_asked_for_in_other_words() -> None:
    texts = {
        task.instruction for suite in ("tabletop_goal", "tabletop_90") for task in tasks(suite)
    }
    for text in texts:
        said = [paraphrase(text, level) for level in (0.0, 0.3, 0.6, 1.0)]
        assert said[0] == text
        assert text not in said[1:]
        # What tells tasks apart is still there.
        for word in ("left", "right", "front", "drawer", "red", "yellow"):
            assert (word in said[-1].split()) == (word in text.split())
    assert len({paraphrase(text, 1.0) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"perturb": ["camera"]}, "makes no difference to a policy without cameras"),
        ({"perturb": ["camera"], "cameras": ["wrist"]}, "add agentview"),
        ({"perturb": ["wording"]}, "does not receive the instruction"),
        ({"perturb": ["lihgt"]}, "did you mean 'light'"),
        ({"perturb": ["start"], "perturb_levels": [1.5]}, "must be in 0..1, got 1.5"),
        ({"perturb": ["start"], "perturb_levels": [0.0]}, "is the normal evaluation"),
        ({"perturb": ["start", "start"]}, "holds a value twice"),
        ({"perturb": ["start"], "perturb_episodes": 0}, "perturb_episodes must be at least 1"),
    ],
)
def test_what_cannot_be_perturbed_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        clframe.stream("tabletop_goal", **settings)


def test_other_words_reach_the_policy_as_another_vector() -> None:
    stream = clframe.stream(
        "tabletop_goal", tasks=[1, 7], perturb=["wording"], task_input="language"
    )
    for task in stream.tasks:
        how = task.evaluation
        said = how.under(how.perturbations[-1])
        before, after = how.inputs.tasks[task.index], said.inputs.tasks[task.index]
        assert before.shape == after.shape
        assert not bool((before == after).all())
        assert said.seeds == how.seeds


def test_metrics_by_hand() -> None:
    rng = np.random.default_rng(0)
    R, P = rng.random((3, 3)), rng.random((3, 3, 2, 2))
    found = robustness(R, P, ["a", "b"], [[1], [0], [2]])
    rows = {1: 0, 0: 1, 2: 2}
    then = sum(R[rows[k], k] for k in range(3))
    hard = sum(P[rows[k], k, a, b] for k in range(3) for a in (0, 1) for b in (0, 1)) / 4
    assert found["learned"] == pytest.approx(hard / then)
    skill = (R[2, 0] + R[2, 1]) / (R[1, 0] + R[0, 1])
    left = (P[2, 0].sum() + P[2, 1].sum()) / (P[1, 0].sum() + P[0, 1].sum())
    assert found["skill_left"] == pytest.approx(skill)
    assert found["lead"] == pytest.approx(skill - left)
    of_b = P[2, :, 1].sum() / 2 / R[2].sum()
    assert found["axes"]["b"]["final"] == pytest.approx(of_b)
    assert robustness(np.zeros((1, 1)), np.zeros((1, 1, 1, 1)), ["a"])["learned"] is None


def test_a_run_has_a_tensor(tmp_path: Path) -> None:
    result = clframe.fit(
        clframe.stream(
            "tabletop_goal",
            data_dir=tmp_path,
            tasks=[7, 9],
            num_demos=1,
            eval_episodes=2,
            horizon=3,
            num_workers=0,
            perturb=["start", "noise"],
            perturb_episodes=1,
        ),
        strategy="naive",
        max_epochs=1,
        run_dir=tmp_path / "run",
        evaluate_tasks="learned",
        check_val_every_n_epoch=1,
    )
    assert result.tensor.axes == ["start", "noise"]
    assert result.tensor.levels == [0.5, 1.0]
    unmeasured = np.isnan(result.tensor.values)
    assert unmeasured[:2, 1].all()
    assert not unmeasured[-1].any()
    saved = json.loads((tmp_path / "run" / "results.json").read_text())
    assert set(saved["tensor"]) == {"axes", "levels", "values"}
    assert np.shape(saved["tensor"]["values"]) == (3, 2, 2, 2)
    kept = saved["measured"]["rollouts"]  # episodes that end at the horizon have a progress, too
    assert all(0 <= x <= 1 for x in kept["progress"][-1][0])
    assert len(kept["progress"][-1][0]) == len(kept["success"][-1][0]) == 2
    loaded = clframe.Result.load(tmp_path / "run")
    assert np.array_equal(loaded.tensor.values, result.tensor.values, equal_nan=True)
    events = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in events if '"evaluation"' in line]
    assert "success@noise=0.5" in rows[-1]["measures"][result.matrix.columns[0]]
    # While a task is learned it is measured as it is, which takes a fifth of the episodes.
    assert all(len(v) == 2 for tasks in result.curves.values() for v in tasks.values())
    assert "Under perturbation" in report_html([read_run(tmp_path / "run")])
    saved["tensor"]["values"][0] = []
    (tmp_path / "run" / "SHA256SUMS").unlink(missing_ok=True)
    (tmp_path / "run" / "results.json").write_text(json.dumps(saved))
    with pytest.raises(RunFolderError, match=r"tensor\.values\[0\]"):
        clframe.Result.load(tmp_path / "run")


def test_a_tensor_survives_its_file() -> None:
    tensor = ForgettingTensor(["a", "b"])
    tensor.add_row({"a": {"success": 1.0, "success@x=1": 0.5, "steps": 3.0, "steps@x=1": 9.0}})
    tensor.add_row({"b": {"success": 1.0, "success@y=0.25": 0.75}})
    again = ForgettingTensor.from_json(["a", "b"], json.loads(json.dumps(tensor.to_json())))
    assert np.array_equal(again.values, tensor.values, equal_nan=True)
    assert tensor.values[0, 0, 0].tolist()[1] == 0.5
    assert not ForgettingTensor(["a"])


def test_settings_give_every_axis_at_every_level() -> None:
    assert [*map(str, PerturbSettings(["a", "b"], (0.5, 1.0)).perturbations)] == [
        *("a=0.5", "a=1", "b=0.5", "b=1")
    ]
