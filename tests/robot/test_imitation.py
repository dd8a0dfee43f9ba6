"""Learning by imitation, on a robot that needs no simulator."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clframe
from clframe.data.dataset import Batch
from clframe.errors import DataError, PluginError, SettingError
from clframe.robot import demonstrations
from clframe.robot.demonstrations import Demonstration
from clframe.robot.observation_windows import Normalizer, ObservationTransform, windowed
from clframe.testing import check_stream, prepare, run_built

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")


def learn(strategy: Any = "naive", folder: Path | None = None, **settings: Any) -> Any:
    stream = {"name": "point_robot", "n_tasks": 3, "num_demos": 40, "eval_episodes": 10}
    stream |= settings.pop("stream", {})
    return clframe.fit(
        stream,
        strategy,
        settings.pop("model", None),
        run_dir=folder or False,
        progress=False,
        logger=None,
        optimizer={"name": "adam", "lr": 3e-3},
        **{"max_epochs": 20, **settings},
    )


def final(result: Any) -> float:
    return float(result.matrix.learned[-1].mean())


@pytest.mark.slow
def test_naive_forgets_and_what_should_remember_remembers() -> None:
    naive, joint, replay = learn(), learn("multitask"), learn({"replay": {"size": 600}})
    assert naive.matrix.measure == "success"
    assert naive.matrix.learned[-1, -1] > 0.8
    assert final(naive) < 0.6
    assert final(joint) > 0.9
    assert final(replay) > 0.85


def test_packnet_forgets_nothing() -> None:
    result = learn({"packnet": {"prune": 0.6}})
    learned = np.diag(result.matrix.learned)
    assert (result.matrix.learned[-1] == learned).all()
    assert learned.mean() > 0.8


FEW: dict[str, Any] = {"n_tasks": 2, "num_demos": 3, "eval_episodes": 2}


@pytest.mark.parametrize("strategy", ["ewc", "si", "mas", "cumulative", "agem", "der"])
def test_methods_act_on_it_unchanged(strategy: str) -> None:
    result = learn(strategy, max_epochs=2, stream=FEW)
    assert np.isfinite(result.matrix.values).all()
    again = learn(strategy, max_epochs=2, stream=FEW)
    assert (result.matrix.values == again.matrix.values).all()


@pytest.mark.parametrize("strategy", ["lwf", "dgr", "icarl", "er_ace"])
def test_methods_that_need_classes_say_so(strategy: str) -> None:
    with pytest.raises(PluginError, match="needs labels that are classes"):
        learn(strategy)


@pytest.mark.parametrize(
    ("estimate", "head"), [("sample", "mse"), ("predicted", "mse"), ("exact", "gmm")]
)
def test_fisher_estimates_that_do_not_apply_say_so(estimate: str, head: str) -> None:
    with pytest.raises(PluginError, match="fisher=true or fisher=batch"):
        learn({"ewc": {"fisher": estimate}}, model={"name": "policy", "head": head}, max_epochs=1)


def test_the_exact_fisher_is_that_of_a_gaussian() -> None:
    """Checked by drawing: the mean squared score of actions drawn from the Gaussian itself."""
    from clframe.plugins._fisher import fisher

    prepared = prepare({"name": "point_robot", "n_tasks": 2, "num_demos": 2}, "naive")
    learner = prepared.learner
    data = prepared.stream.experiences[0].data.subset(torch.arange(1))
    learner.engine.bind(learner)
    result = fisher(learner, data, "exact")["head.bias"]
    (batch,) = data.batches(torch.arange(1), 1)
    torch.manual_seed(0)
    outputs = learner(batch.x, batch.task)
    squares = torch.zeros(2)
    for _ in range(4000):
        # The squared error of two numbers is the likelihood of a Gaussian of variance 1.
        drawn = outputs.detach() + torch.randn_like(outputs)
        loss = (outputs - drawn).square().mean()
        (score,) = torch.autograd.grad(loss, learner.model.head.bias, retain_graph=True)  # type: ignore[union-attr, arg-type]
        squares += score.square() / 4000
    torch.testing.assert_close(result, squares, rtol=0.1, atol=0)


def test_the_fisher_is_that_of_the_learners_own_loss() -> None:
    from clframe.plugins._fisher import fisher

    prepared = prepare({"name": "point_robot", "n_tasks": 2, "num_demos": 2}, "naive")
    learner, data = prepared.learner, prepared.stream.experiences[0].data
    learner.engine.bind(learner)
    result = fisher(learner, data, "true")
    expected = {name: torch.zeros_like(p) for name, p in learner.named_trainable().items()}
    for batch in data.batches(torch.arange(len(data)), 1):
        loss = (learner(batch.x, batch.task) - batch.y).square().mean()
        grads = torch.autograd.grad(loss, list(learner.named_trainable().values()))
        for total, grad in zip(expected.values(), grads, strict=True):
            total += grad.square() / len(data)
    for name, value in result.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-8)


@pytest.mark.usefixtures("quick_python")
def test_results_do_not_depend_on_processes_or_on_chance() -> None:
    few = {**FEW, "num_demos": 10, "eval_episodes": 5}
    here = learn(max_epochs=3, stream=few)
    in_workers = learn(max_epochs=3, stream={**few, "num_workers": 2})
    assert (here.matrix.values == in_workers.matrix.values).all()


def test_curves_libero_and_continual_world_are_filled(tmp_path: Path) -> None:
    few = {"num_demos": 3, "eval_episodes": 4}
    result = learn(max_epochs=4, check_val_every_n_epoch=1, stream=few)
    curves = list(result.curves.values())
    assert [len(values) for row in curves for values in row.values()] == [5, 5, 5]
    assert result.metrics["libero"]["fwt"] is not None
    metrics = result.metrics["continual_world"]
    assert metrics["performance"] == pytest.approx(final(result))
    assert metrics["forward_transfer"] is None
    assert result.metrics["gem"]["acc"] == pytest.approx(final(result))


def test_forward_transfer_against_single_task_runs(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="no reference run for turn_0_of_3, turn_1_of_3"):
        learn("continual_world", check_val_every_n_epoch=5)
    with pytest.raises(PluginError, match="check_val_every_n_epoch"):
        learn("continual_world")
    alone = tmp_path / "alone"
    one = {**FEW, "n_tasks": 1}
    short: dict[str, Any] = {"stream": one, "max_epochs": 2, "check_val_every_n_epoch": 1}
    single = learn(folder=alone, **short)
    (curve,) = single.curves["turn_0_of_1"].values()
    result = learn({"continual_world": {"reference": [str(alone)]}}, **short)
    assert curve[0] < 1
    assert result.metrics["continual_world"]["forward_transfer"] == pytest.approx(0.0)


def test_the_best_point_is_kept() -> None:
    class Scripted(clframe.Plugin):
        """Says what success each point has, and what weights were measured."""

        name = "scripted"

        def __init__(self) -> None:
            self.values = iter([0.1, 0.6, 0.9, 0.9, 0.2])
            self.weights: list[torch.Tensor] = []

        @clframe.hookimpl(tryfirst=True)
        def evaluate_task(self, learner: Any) -> dict[str, float]:
            self.weights.append(learner.model.head.weight.detach().clone())
            return {"success": next(self.values, 0.5)}

    scripted = Scripted()
    learn(
        ["best_checkpoint", scripted],
        stream={**FEW, "n_tasks": 1},
        max_epochs=4,
        check_val_every_n_epoch=1,
    )
    # First the row "before", then points 0 to 4 of which the first 0.9 is the second.
    measured = scripted.weights
    assert torch.equal(measured[-1], measured[2])
    assert not torch.equal(measured[-1], measured[3])


def test_best_checkpoint_needs_measurements() -> None:
    with pytest.raises(PluginError, match="check_val_every_n_epoch"):
        learn("best_checkpoint")


WAYS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"task_input": "language"}, {}),
    ({"window": 2}, {"head": "gmm", "modes": 2}),
]


@pytest.mark.parametrize(("stream", "model"), WAYS)
def test_instructions_windows_and_mixtures_are_learned(
    stream: dict[str, Any], model: dict[str, Any]
) -> None:
    """A few epochs lower the error on what was demonstrated."""
    model = {"name": "policy", "hidden": [8], **model}
    learned, untouched = (
        prepare({"name": "point_robot", **FEW, **stream}, "multitask", model, trainer=trainer)
        for trainer in ({"max_epochs": 3}, {"max_epochs": 3})
    )
    run_built(learned)
    (batch,) = untouched.stream.experiences[0].data.batches(torch.arange(20), 20)

    def loss(learner: Any) -> float:
        learner.eval()
        return float(learner.task_loss(learner(batch.x, batch.task), batch).detach())

    assert loss(learned.learner) < loss(untouched.learner)


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "model"), WAYS)
def test_instructions_windows_and_mixtures_learn_the_stream(
    stream: dict[str, Any], model: dict[str, Any]
) -> None:
    model = {"name": "policy", "hidden": [64, 64], **model}
    # One seed of a policy that draws is 0.6 on some processors and 0.97 on others.
    runs = [learn("multitask", stream=stream, model=model, seed=seed) for seed in range(3)]
    assert sum(map(final, runs)) / 3 > 0.7


@pytest.mark.slow
def test_a_policy_that_is_not_given_the_task_cannot_do_all() -> None:
    assert final(learn("multitask", stream={"task_input": "none"})) < 0.5


def test_a_run_continues_where_it_was_stopped() -> None:
    from clframe.plugins.replay import Replay
    from clframe.testing import killed_run, toy_run

    stream = prepare(
        {"name": "point_robot", "n_tasks": 2, "num_demos": 2, "eval_episodes": 4}
    ).stream
    _, whole = toy_run([Replay(size=50)], stream)
    _, pieces = killed_run([Replay(size=50)], stream, every=5, after=9)
    for key, value in whole.state_dict().items():
        assert torch.equal(value, pieces.state_dict()[key])


def test_the_documented_stream_has_a_task_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "robots.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.S)
    space: dict[str, Any] = {}
    exec(compile(block, "robots.md", "exec"), space)
    stream = space["stream"]
    assert [experience.name for experience in stream] == ["turn0", "turn1", "turn2", "turn0 (2)"]
    result = clframe.fit(
        stream,
        {"packnet": {"prune": 0.6}},
        "policy",
        max_epochs=2,
        check_val_every_n_epoch=1,
        run_dir=False,
        progress=False,
        logger=None,
    )
    assert result.matrix.values.shape == (5, 3)
    # Nothing is learned when a task comes back, so its curve is one value.
    area = result.metrics["continual_world"]["area_i"][-1]
    assert area == result.matrix.learned[-1, 0] == result.matrix.learned[0, 0]


# ------------------------------------------------------------ demonstrations and windows


def demo(length: int = 3, start: float = 0.0) -> Demonstration:
    steps = np.arange(length, dtype=np.float32) + start
    return Demonstration(steps[:, None] / 10, {"state": np.stack([steps, steps], 1)}, seed=7)


def test_a_window_is_filled_with_the_first_observation() -> None:
    samples = windowed([demo(3, 1.0), demo(2, 10.0)], 3, ["state"])
    assert samples.inputs["state"][:, :, 0].tolist() == [
        [1, 1, 1],
        [1, 1, 2],
        [1, 2, 3],
        [10, 10, 10],
        [10, 10, 11],
    ]
    torch.testing.assert_close(samples.actions[:, 0], torch.tensor([0.1, 0.2, 0.3, 1.0, 1.1]))


def test_inputs_are_scaled_and_padding_stays_zero() -> None:
    normalizer = Normalizer(np.array([1.0, 1.0], np.float32), np.array([0.5, np.inf], np.float32))
    inputs = ObservationTransform(lambda: normalizer, 2, np.eye(2, dtype=np.float32))
    x = {"state": torch.tensor([[[2.0, 3.0]], [[0.0, 0.0]]])}
    assert inputs(x, torch.tensor([1, 0])).tolist() == [[2.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]]
    assert inputs.size == 4


def test_nothing_of_later_tasks_is_read_for_the_first(tmp_path: Path) -> None:
    def first() -> torch.Tensor:
        stream = clframe.stream("point_robot", n_tasks=2, num_demos=2, data_dir=tmp_path)
        batch = next(iter(stream.experiences[0].data.batches(torch.arange(4), 4)))
        return torch.as_tensor(batch.x)

    before = first()
    (later,) = tmp_path.rglob("turn_1_of_2_demo.hdf5")
    later.unlink()
    assert torch.equal(first(), before)
    assert not later.exists()


def test_files_hold_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a_demo.hdf5"
    demonstrations.write(path, "a", "do a", {"mujoco": "9"}, [demo(3), demo(2)])
    info = demonstrations.read_info(path)
    assert (info.name, info.language, info.demos, info.steps) == ("a", "do a", 2, 5)
    assert info.facts["mujoco"] == "9"
    first, second = demonstrations.read(path)
    assert (len(first), len(second), first.seed) == (3, 2, 7)
    assert np.array_equal(first.observations["state"], demo(3).observations["state"])
    with pytest.raises(DataError, match="holds 2 demonstrations, but 3 are needed"):
        demonstrations.read(path, 3)
    with pytest.raises(DataError, match="no observation 'agentview_rgb'"):
        demonstrations.read(path, names=["agentview_rgb"])


def test_what_was_done_is_stored_beside_what_was_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a_demo.hdf5"
    marks = np.array([False, True, True])
    pushed = dataclasses.replace(
        demo(3),
        executed=demo(3).actions + np.float32(0.01),
        rewards=np.array([0, 0.5, 1], np.float32),
        successes=marks,
        retries=~marks,
    )
    demonstrations.write(path, "a", "do a", {}, [pushed, demo(2)])
    first, second = demonstrations.read(path)
    for name in ("actions", "executed", "rewards", "successes", "retries", "done"):
        assert np.array_equal(getattr(first, name), getattr(pushed, name)), name
    assert np.array_equal(first.done, first.actions + np.float32(0.01))
    assert second.executed is second.retries is None
    assert np.array_equal(second.done, second.actions)
    import h5py

    with h5py.File(path, "a") as file:
        del file["data/demo_0/executed_actions"]
        file["data/demo_0/executed_actions"] = np.zeros((2, 1))
    with pytest.raises(DataError, match=r"demo_0/executed_actions has the shape \(2, 1\)"):
        demonstrations.read(path)


def test_attempts_that_were_given_up_are_left_out_unless_kept(tmp_path: Path) -> None:
    def steps(**settings: Any) -> int:
        stream = clframe.stream(
            "point_robot", n_tasks=1, num_demos=2, data_dir=tmp_path, **settings
        )
        return len(stream.experiences[0].data)

    whole = steps(retries="keep")
    assert steps() == whole  # the point never fails
    (path,) = tmp_path.rglob("*.hdf5")
    first, second = demonstrations.read(path)
    marks = np.arange(len(first)) < 3
    marked = dataclasses.replace(first, retries=marks)
    info = demonstrations.read_info(path)
    demonstrations.write(path, info.name, info.language, info.facts, [marked, second])
    assert steps(retries="keep") == whole
    assert steps() == steps(retries="cut") == whole - 3
    with pytest.raises(SettingError, match="retries"):
        steps(retries="weigh")


def test_the_layout_is_that_of_robomimic(tmp_path: Path) -> None:
    import json

    import h5py

    path = tmp_path / "a_demo.hdf5"
    demonstrations.write(path, "a", "do a", {}, [demo(3)])
    with h5py.File(path) as file:
        data = file["data"]
        assert data.attrs["num_demos"] == 1
        assert data.attrs["total"] == 3
        assert json.loads(data.attrs["problem_info"])["language_instruction"] == "do a"
        assert json.loads(data.attrs["env_args"])["env_name"] == "a"
        assert set(data["demo_0"]) == {"actions", "obs", "rewards", "dones"}
        assert data["demo_0"]["dones"][:].tolist() == [0, 0, 1]
        assert data["demo_0"].attrs["num_samples"] == 3


def test_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    import h5py

    path = tmp_path / "a_demo.hdf5"
    with pytest.raises(DataError, match="there is no demonstration file"):
        demonstrations.read(path)
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="not an HDF5 file"):
        demonstrations.read(path)
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.zeros((3, 2))
        file["data/demo_0/obs/state"] = np.zeros((2, 4))
    with pytest.raises(DataError, match="2 rows for 3 actions"):
        demonstrations.read(path)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(SettingError, match=r"stream.window must be at least 1, got 0"):
        learn(stream={"window": 0})


def test_labels_are_actions() -> None:
    stream = clframe.stream("point_robot", n_tasks=2, num_demos=1)
    check_stream(stream)
    batch: Batch = next(iter(stream.experiences[1].data.batches(torch.arange(2), 2)))
    assert batch.y.shape == (2, 2)
    assert batch.task.tolist() == [1, 1]
