"""LoRA, adapters, InfLoRA, APER and SLCA through a stream."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clframe_contrib.adapter import Adapter
from clframe_contrib.aper import APER
from clframe_contrib.inflora import InfLoRA, grown, new_directions
from clframe_contrib.lora import LoRA
from clframe_contrib.slca import SLCA, normalized, root
from torch import Tensor, nn

import clframe
from clframe import Plugin, PluginError, SettingError, hookimpl
from clframe.models.tuning.inserts import inserts_of
from clframe.plugins import EWC, LwF, Replay
from clframe.testing import check_plugin, prepare_toy, run_built, toy_run, toy_stream


class Watch(Plugin):
    """Keeps the model's frozen weights after every experience."""

    def __init__(self) -> None:
        self.frozen: list[dict[str, Tensor]] = []

    @hookimpl
    def after_evaluation(self, learner: Any) -> None:
        found = {n: p for n, p in learner.model.named_parameters() if not p.requires_grad}
        self.frozen.append({n: p.detach().clone() for n, p in found.items()})


@pytest.mark.parametrize(
    "plugin",
    [
        LoRA(rank=2, mode="merged"),
        Adapter(hidden=3, place="serial", compete="own"),
        SLCA(samples=8),
    ],
    ids=lambda plugin: plugin.name,
)
def test_keeps_the_contract(plugin: Plugin) -> None:
    check_plugin(plugin, toy_stream("class", samples=20))


def test_lora_per_task_keeps_the_contract_and_forgets_nothing() -> None:
    plugin = LoRA(rank=2, mode="per_task")
    stream = toy_stream("task")
    check_plugin(plugin, stream)
    # Without old momentum, which moves the rows of earlier tasks in the head.
    result, _ = toy_run([copy.deepcopy(plugin)], stream, reset_optimizer=True)
    values = result.matrix.values
    assert all(
        values[row, task] == values[task + 1, task]
        for task in range(3)
        for row in range(task + 1, 4)
    )


@pytest.mark.parametrize("plugin", [LoRA(rank=2), Adapter(hidden=3)], ids=lambda p: p.name)
def test_frozen_weights_stay_bit_for_bit(plugin: Plugin) -> None:
    watch = Watch()
    toy_run(
        [plugin, EWC(weight=1.0), LwF(), Replay(size=10), watch], toy_stream("class", samples=10)
    )
    first = watch.frozen[0]
    assert first
    for later in watch.frozen[1:]:
        assert all(torch.equal(first[name], value) for name, value in later.items())


def test_checkpoints_hold_no_frozen_weights(tmp_path: Path) -> None:
    clframe.fit(
        "split_mnist",
        {"lora": {"targets": ["qkv"], "rank": 2, "export": True}},
        {"name": "vit_tiny", "weights": "fashion"},
        run_dir=tmp_path / "run",
        trainer={"max_steps": 1, "max_epochs": None},
        logger=None,
        progress=False,
    )
    biggest = max(
        p.stat().st_size for p in (tmp_path / "run" / "checkpoints").rglob("*") if p.is_file()
    )
    assert biggest < 139_018 * 4 / 2  # the network alone has 556 kB
    names = sorted(path.name for path in (tmp_path / "run" / "adapter").iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors"]


def test_lora_works_on_a_policy() -> None:
    built = clframe.testing.prepare(
        "point_robot", {"lora": {"rank": 2}}, trainer={"max_steps": 2, "max_epochs": None}
    )
    built.learner.plugins.hook.configure(learner=built.learner, stream=built.stream)
    pairs = inserts_of(built.learner.model)
    linear = [m for m in built.learner.model.features.modules() if type(m) is nn.Linear]  # type: ignore[union-attr]
    assert 0 < len(pairs) == len(linear) - 2 * len(pairs)  # A and B are linear layers, too


class OwnEWC(EWC):
    """A penalty that a user derived, which has its role from its parent."""

    name = "own_ewc"


def test_refusals() -> None:
    with pytest.raises(PluginError, match=r"task-incremental|set scenario=task"):
        toy_run([LoRA(mode="per_task")], toy_stream("class"))
    with pytest.raises(PluginError, match="per_task cannot be combined with 'replay'"):
        toy_run([LoRA(mode="per_task"), Replay(size=5)], toy_stream("task"))
    with pytest.raises(PluginError, match="merged restarts its pairs, which 'ewc'"):
        toy_run([LoRA(mode="merged"), EWC()], toy_stream("task"))
    with pytest.raises(PluginError, match="'inflora' cannot be combined with 'ewc'"):
        toy_run([InfLoRA(), EWC()], toy_stream("task"))
    with pytest.raises(PluginError, match=r"'inflora' cannot be combined with 'own_ewc'.*restart"):
        toy_run([InfLoRA(), OwnEWC()], toy_stream("task"))
    with pytest.raises(PluginError, match="'lora' cannot be combined with 'adapter'"):
        toy_run([LoRA(), Adapter()], toy_stream("task"))
    with pytest.raises(SettingError, match=r"lora.export writes pairs"):
        LoRA(mode="merged", export=True)


# ---------------------------------------------------------------- own classes


def test_samples_compete_among_the_classes_of_their_own_task() -> None:
    stream = toy_stream("class", samples=8)
    built = prepare_toy([LoRA(rank=2, compete="own")], stream)
    learner = built.learner
    run_built(built)
    data = stream.experiences[1].data
    batch = next(iter(data.batches(torch.arange(4), 4)))
    learner.plugins.hook.extra_batches(learner=learner, batch=batch)
    outputs, _ = learner.run_model(batch.x, batch.task)
    assert batch.loss is not None
    logits = outputs.detach().double().numpy()[:, [2, 3]]
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = -np.log(shares[np.arange(4), batch.y.numpy() - 2]).mean()
    assert float(batch.loss(outputs, batch).detach()) == pytest.approx(expected, rel=1e-5)


# ---------------------------------------------------------------- InfLoRA


def test_inflora_subspace_in_numpy() -> None:
    rng = np.random.default_rng(0)
    h1, h2 = rng.normal(size=(8, 3)) @ rng.normal(size=(3, 50)), rng.normal(size=(8, 60))
    s1, s2 = h1 @ h1.T, h2 @ h2.T
    basis = grown(torch.zeros(8, 0).double(), torch.from_numpy(s1), 0.999999, squared=False).numpy()
    u1 = np.linalg.svd(h1)[0][:, :3]
    assert basis.shape == (8, 3)
    assert np.allclose(basis @ basis.T, u1 @ u1.T, atol=1e-8)
    rows = new_directions(torch.from_numpy(s2), torch.from_numpy(basis), 2).numpy()
    assert np.allclose(rows @ h1, 0, atol=1e-6)  # does not touch what the first task feeds in
    # The paper's Eq. 8: the first left singular vectors of (I - M M^T) H_2.
    projected = (np.eye(8) - u1 @ u1.T) @ s2
    u = np.linalg.svd(projected)[0][:, :2]
    assert np.allclose(rows.T @ rows, u @ u.T, atol=1e-8)
    share = 0.8
    wider = grown(torch.from_numpy(basis), torch.from_numpy(s2), share, squared=False).numpy()
    energy = [np.trace(m @ m.T @ s2) / np.trace(s2) for m in (wider, wider[:, :-1])]
    assert wider.shape[1] > 3
    assert energy[0] >= share - 0.05  # the share itself is of singular values
    assert np.allclose(wider.T @ wider, np.eye(wider.shape[1]), atol=1e-10)


def test_inflora_leaves_what_earlier_tasks_feed_in() -> None:
    stream = toy_stream("task", n_experiences=2)
    plugin = InfLoRA(rank=2, threshold=1.0, threshold_end=1.0, targets=["features.1"])
    result, learner = toy_run([plugin], stream)
    assert result.matrix.values[-1].mean() > 0.6
    basis = plugin.bases["features.1"]
    assert torch.allclose(basis.T @ basis, torch.eye(basis.shape[1]), atol=1e-5)
    pair = next(iter(inserts_of(learner.model).values()))
    assert not pair.A[0].weight.requires_grad  # type: ignore[index,union-attr]


# ---------------------------------------------------------------- APER


def test_aper_in_numpy() -> None:
    stream, plugin = toy_stream("class", samples=15), APER(hidden=3, scale=1.0)
    _, learner = toy_run([plugin], stream)
    learner.eval()

    def features(x: Tensor) -> np.ndarray:
        from clframe.models.tuning.inserts import without_inserts

        with torch.no_grad():
            adapted = learner.model.features(x)  # type: ignore[operator]
            with without_inserts(learner.model):
                plain = learner.model.features(x)  # type: ignore[operator]
        assert not torch.allclose(adapted, plain, atol=1e-4)
        return torch.cat([adapted, plain], 1).double().numpy()

    train = [e.data for e in stream.experiences]
    x = features(torch.cat([d.gather(torch.arange(len(d))) for d in train]))
    y = torch.cat([d.labels for d in train]).numpy()
    means = np.stack([x[y == c].mean(0) for c in range(6)])
    data = stream.tasks[1].data
    test = data.gather(torch.arange(len(data)))
    vectors = features(test)
    expected = vectors @ means.T
    expected /= np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(means, axis=1)
    with torch.no_grad():
        scores = plugin.predict(learner, test, stream.tasks[1])
    assert scores is not None
    assert np.allclose(scores.numpy(), expected, atol=1e-4)


# ---------------------------------------------------------------- SLCA


def test_slca_statistics_and_loss_in_numpy() -> None:
    stream, plugin = toy_stream("class", samples=20), SLCA(samples=8, epochs=1)
    _, learner = toy_run([plugin], stream)
    learner.eval()
    data = stream.experiences[-1].data
    with torch.no_grad():
        x = learner.model.features(data.gather(torch.arange(len(data)))).double().numpy()  # type: ignore[operator]
    of_class = x[data.labels.numpy() == 5]
    assert np.allclose(plugin.means[5].numpy(), of_class.mean(0), atol=1e-5)
    assert np.allclose(plugin.covariances[5].numpy(), np.cov(of_class.T), atol=1e-4)
    assert bool(plugin.known.all())
    covariance = plugin.covariances.double()
    matrix = root(covariance)
    assert torch.allclose(matrix @ matrix.mT, covariance, atol=1e-6)
    logits = np.array([[3.0, 4.0, 12.0]])
    together = normalized(torch.from_numpy(logits), [[0, 1, 2]], 0.1).numpy()
    assert np.allclose(together, logits / 13.0 / 0.1)
    apart = normalized(torch.from_numpy(logits), [[0, 1], [2]], 0.1).numpy()
    assert np.allclose(apart, logits / ((5.0 + 12.0) / 2) / 0.1)


def test_slca_learns_features_slowly_and_helps_old_classes() -> None:
    stream = toy_stream("class")
    built = prepare_toy([SLCA(slow=0.0)], stream)
    body = copy.deepcopy(built.learner.model.features.state_dict())  # type: ignore[union-attr]
    aligned = run_built(built)
    after = built.learner.model.features.state_dict()  # type: ignore[union-attr]
    assert all(torch.equal(body[name], after[name]) for name in body)
    rates = [group["lr"] for group in built.learner.optimizer.param_groups]  # type: ignore[union-attr]
    assert rates == [0.01, 0.0]
    naive, _ = toy_run([], stream)
    assert aligned.matrix.values[-1].mean() > naive.matrix.values[-1].mean() + 0.2


@pytest.mark.parametrize("name", ["lora", "adapter", "l2p", "aper", "slca"])
def test_several_processes_and_batched_seeds_are_refused(name: str) -> None:
    from clframe.core.registry import discover
    from clframe.distributed.ranks import check_plugins

    plugin = discover().build("plugin", name, {})
    assert not plugin.capabilities.batched_seeds
    with pytest.raises(PluginError, match=f"'{name}'"):
        check_plugins([plugin], 2)


def test_frozen_weights_of_another_run_are_found_again(tmp_path: Path) -> None:
    small: dict[str, Any] = {
        "model": {"name": "mlp", "hidden": [8]},
        "trainer": {"max_steps": 3, "max_epochs": None},
        "logger": None,
        "progress": False,
    }
    clframe.fit("split_mnist", "naive", run_dir=tmp_path / "first", **small)
    tuned = clframe.fit(
        "split_mnist", "lora", run_dir=tmp_path / "run", pretrain=tmp_path / "first", **small
    )
    model = clframe.load(tmp_path / "run")
    x = torch.rand(4, 1, 28, 28)
    assert tuned.model is not None
    assert torch.equal(model(x), tuned.model.eval()(x))
