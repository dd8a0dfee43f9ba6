from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import clframe
from clframe import Learner, Plugin, PluginError, SettingError, hookimpl
from clframe.core import hooks
from clframe.core.stream import Experience, Stream, Task
from clframe.plugins.packnet import PackNet
from clframe.testing import check_plugin, interrupted_run, toy_run, toy_stream


def image_stream(n_experiences: int = 3) -> Stream:
    """The toy stream's samples as 1x4x4 images, for convolutions."""
    stream = toy_stream("task", n_experiences, features=16)

    def fold(x: Any, task: Tensor) -> Tensor:
        return x.reshape(-1, 1, 4, 4)  # type: ignore[no-any-return]

    for experience in stream.experiences:
        experience.data.transform = fold
    for task in stream.tasks:
        task.data.transform = fold
    return dataclasses.replace(stream, input_shape=(1, 4, 4))


class Memory(Plugin):
    """Keeps each task's scores, and the frozen weights, as they were when it was learned."""

    def __init__(self, packnet: PackNet) -> None:
        self.packnet = packnet
        self.scores: dict[int, Tensor] = {}
        self.frozen: dict[int, dict[str, Tensor]] = {}
        self.others: dict[str, Tensor] = {}
        self.compared = 0

    def scores_of(self, learner: Learner, task: Task) -> Tensor:
        x = next(iter(task.data.batches(torch.arange(80), 80))).x
        learner.eval()
        with torch.no_grad(), hooks.in_task(learner, task):
            scores = hooks.predict(learner, x, task)
        learner.train()
        return scores

    @hookimpl
    def after_evaluation(self, learner: Learner, row: str) -> None:
        if row == "before":
            return
        weights = dict(learner.model.named_parameters())
        # By the layer's name, or by the parameter's own where a layer has several.
        weights |= {name.removesuffix(".weight"): weight for name, weight in weights.items()}
        owners = self.packnet.owners
        for name, owner in owners.items():
            if name == "(head)":
                continue
            for pack, kept in self.frozen.items():
                now = weights[name][owner == pack]
                assert torch.equal(now.view(torch.int32), kept[name].view(torch.int32))
                self.compared += now.numel()
        if self.packnet.packs not in self.frozen:
            self.frozen[self.packnet.packs] = {
                name: weights[name][owner == self.packnet.packs].clone()
                for name, owner in owners.items()
                if name != "(head)"
            }
        rest = {k: v for k, v in learner.model.state_dict().items() if "head" not in k}
        rest = {k: v for k, v in rest.items() if not {k, k.removesuffix(".weight")} & owners.keys()}
        if self.others:
            assert all(torch.equal(rest[k], v) for k, v in self.others.items())
        elif self.packnet.form == "paper":
            self.others = {k: v.clone() for k, v in rest.items()}
        for index, before in self.scores.items():
            now = self.scores_of(learner, learner.stream.tasks[index])
            assert torch.equal(now, before), f"task {index} changed"
        for task in learner.seen[-1].tasks:
            self.scores.setdefault(task.index, self.scores_of(learner, task))


OPTIMIZERS: list[Any] = [
    {"name": "sgd", "lr": 0.05, "weight_decay": 0.1, "momentum": 0.9},
    {"name": "adamw", "lr": 0.01, "weight_decay": 0.3},
    "adam",
]


def run(plugins: Any, stream: Stream, model: Any = None, **settings: Any) -> Any:
    return clframe.fit(
        stream,
        plugins,
        model or {"name": "mlp", "hidden": [32, 32]},
        **{"max_epochs": 3, "batch_size": 16, **settings},
        run_dir=False,
        progress=False,
        logger=None,
    )


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("form", ["paper", "libero"])
def test_frozen_weights_and_old_outputs_stay_bit_for_bit(optimizer: Any, form: Any) -> None:
    packnet = PackNet(form=form)
    memory = Memory(packnet)
    run([packnet, memory], toy_stream("task"), optimizer=optimizer)
    assert memory.compared > 800
    assert len(memory.scores) == 3


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_so_they_do_with_convolutions_and_batch_norm(optimizer: Any) -> None:
    packnet = PackNet()
    memory = Memory(packnet)
    model = {"name": "cnn", "channels": [8, 16], "features": 32, "norm": True}
    run([packnet, memory], image_stream(), model, optimizer=optimizer)
    assert memory.compared > 500
    assert any("running_mean" in name for name in memory.others)
    assert any(".bias" in name for name in memory.others)


def test_composed_with_other_losses_they_stay_too() -> None:
    class Pull(Plugin):
        """Pulls every weight towards 1 and writes gradients behind everybody's back."""

        @hookimpl
        def penalty(self, learner: Learner) -> Tensor:
            return sum(((p - 1) ** 2).sum() for p in learner.model.parameters())  # type: ignore[return-value]

        @hookimpl(trylast=True)
        def after_backward(self, learner: Learner) -> None:
            for parameter in learner.model.parameters():
                parameter.grad = torch.full_like(parameter, 0.1)

    packnet = PackNet()
    memory = Memory(packnet)
    run([packnet, Pull(), memory, "dgr"], toy_stream("task"))
    assert memory.compared > 1000


def test_each_task_gets_the_share_that_was_asked_for() -> None:
    packnet = PackNet(prune=0.75)
    _, learner = toy_run([packnet], toy_stream("task"))
    owner = packnet.owners["features.1"]
    total = owner.numel()
    shares = [float((owner == pack).sum()) / total for pack in (1, 2, 3, 0)]
    assert shares == pytest.approx([0.25, 0.75 * 0.25, 0.75**2 * 0.25, 0.75**3], abs=1 / total)
    weight = dict(learner.model.named_parameters())["features.1.weight"]
    assert (weight[owner == 0] == 0).all()
    assert packnet.owners["(head)"].tolist() == [1, 1, 2, 2, 3, 3]


def test_the_smallest_weights_are_released() -> None:
    packnet = PackNet(prune=0.5)
    packnet.packs = 1
    weight = torch.tensor([[0.1, -0.9, 0.3], [-0.2, 0.8, -0.7]])
    owner = torch.zeros(2, 3, dtype=torch.int16)
    packnet._prune_layer(weight, owner)
    assert owner.tolist() == [[0, 1, 0], [0, 1, 1]]
    assert weight.tolist() == [
        [0, pytest.approx(-0.9), 0],
        [0, pytest.approx(0.8), pytest.approx(-0.7)],
    ]
    packnet.packs = 2
    weight[owner == 0] = torch.tensor([0.1, 0.5, 5.0])
    packnet._prune_layer(weight, owner)  # round(1.5) = 2 of 3 are released
    assert owner.tolist() == [[0, 1, 0], [2, 1, 1]]


def test_only_own_and_earlier_weights_are_used_on_a_task() -> None:
    packnet = PackNet()
    stream = toy_stream("task")
    _, learner = toy_run([packnet], stream)
    weight = dict(learner.model.named_parameters())["features.1.weight"]
    owner, before = packnet.owners["features.1"], weight.detach().clone()
    for task in stream.tasks:
        with packnet.weights_of(task):
            used = owner.ne(0) & owner.le(task.index + 1)
            assert torch.equal(weight, torch.where(used, before, 0.0))
        assert torch.equal(weight, before)


def test_a_task_that_is_not_learned_sees_all_weights() -> None:
    packnet, stream = PackNet(), toy_stream("task")
    part = dataclasses.replace(stream, experiences=stream.experiences[:2])
    _, learner = toy_run([packnet], part)
    weight = dict(learner.model.named_parameters())["features.1.weight"]
    before = weight.detach().clone()
    with packnet.weights_of(stream.tasks[2]):
        assert torch.equal(weight, before)


def test_running_out_of_weights_names_the_layer_and_the_way_out() -> None:
    with pytest.raises(
        PluginError,
        match=r"no free weight left in layer 'features\.1' \(128 weights\) for experience 'exp1' "
        r"after 1 tasks: raise prune \(now 0\) or take a wider model",
    ):
        toy_run([PackNet(prune=0.0)], toy_stream("task"))


def test_a_task_that_comes_back_keeps_its_first_weights() -> None:
    stream = toy_stream("task", 2)
    again = Experience(2, "again", stream.experiences[0].tasks, stream.experiences[0].load)
    stream = dataclasses.replace(stream, experiences=[*stream.experiences, again])
    packnet = PackNet()
    result, _ = toy_run([packnet], stream)
    assert packnet.packs == 2
    assert packnet.pack_of_task == {0: 1, 1: 2}
    assert (result.matrix.values[-1] == result.matrix.values[-2]).all()


@pytest.mark.parametrize("form", ["paper", "libero"])
def test_it_keeps_the_contract(form: Any) -> None:
    check_plugin(PackNet(form=form), toy_stream("task"))


def test_continued_runs_freeze_the_same_weights() -> None:
    stream = toy_stream("task")
    whole, _ = toy_run([PackNet(post_steps=5)], stream, reset_optimizer=True)
    parts = interrupted_run([PackNet(post_steps=5)], stream, reset_optimizer=True)
    assert (whole.matrix.values == parts.matrix.values).all()


def test_retraining_lasts_as_long_as_asked() -> None:
    def steps(**settings: Any) -> int:
        _, learner = toy_run([PackNet(**settings)], toy_stream("task"), max_epochs=4)
        return learner.global_steps

    per_epoch, tasks = 5, 3
    assert steps(post_epochs=0) == 4 * per_epoch * tasks
    assert steps(post_epochs=3) == 7 * per_epoch * tasks
    assert steps(post_steps=2) == (4 * per_epoch + 2) * tasks
    assert steps() == 6 * per_epoch * tasks
    assert steps(form="libero") == 8 * per_epoch * tasks


def test_libero_form_never_trains_biases_and_norms() -> None:
    torch.manual_seed(0)
    model = clframe.models.cnn.cnn((1, 4, 4), 6, channels=(4,), features=8, norm=True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    run([PackNet(form="libero")], image_stream(), model)
    after = model.state_dict()
    for name in ("features.1.weight", "features.1.bias", "features.5.bias"):
        assert torch.equal(after[name], before[name]), name
    assert torch.equal(after["features.1.running_mean"], torch.zeros(4))
    assert torch.equal(after["features.1.running_var"], torch.ones(4))


class Recurrent(nn.Module):
    """A model with parameters that are neither convolution nor linear."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Embedding(1, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.linear = nn.Linear(8, 16)
        self.head = nn.Linear(16, 6)

    def features(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(self.lstm((x + self.place.weight)[:, None])[0][:, 0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))  # type: ignore[no-any-return]


def test_other_parameters_are_frozen_after_the_first_task_in_the_papers_form() -> None:
    packnet = PackNet()
    memory = Memory(packnet)
    run([packnet, memory], toy_stream("task"), Recurrent(), optimizer=OPTIMIZERS[1])
    assert any("lstm.bias" in name for name in memory.others)
    assert len(memory.scores) == 3


def test_recurrent_layers_and_embeddings_are_shared_out_like_other_layers() -> None:
    packnet, model = PackNet(), Recurrent()
    run([packnet], toy_stream("task"), model)
    for name in ("lstm.weight_ih_l0", "lstm.weight_hh_l0", "place.weight"):
        owner = packnet.owners[name]
        assert set(owner.unique().tolist()) == {0, 1, 2, 3}, name
        assert (dict(model.named_parameters())[name][owner == 0] == 0).all()
    theirs = PackNet(form="libero")
    run([theirs], toy_stream("task"), Recurrent())
    assert not any("lstm" in name or "place" in name for name in theirs.owners)


def test_tasks_are_not_forgotten() -> None:
    stream = toy_stream("task", 4)
    packed = run([PackNet()], stream, optimizer={"name": "adam", "lr": 0.01}, max_epochs=8)
    values = packed.matrix.values
    assert values[-1].mean() > 0.9
    for task in range(4):
        assert len(set(values[task + 1 :, task])) == 1


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(SettingError, match=r"packnet\.prune must be at least 0 and below 1"):
        PackNet(prune=1.0)
    with pytest.raises(PluginError, match="works in the task scenario"):
        toy_run([PackNet()], toy_stream("class"))
