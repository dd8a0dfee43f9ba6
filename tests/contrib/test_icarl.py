from __future__ import annotations

from typing import Any

import pytest
import torch
from clframe_contrib.icarl import ICaRL  # type: ignore[import-not-found]
from torch import nn

import clframe
from clframe import Batch, Data, Learner, Plugin, PluginError, Step, hookimpl
from clframe.run import run
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize(
    "settings", [{"size": 20}, {"per_class": 4}, {"per_class": 4, "selection": "random"}]
)
def test_keeps_the_contract(scenario: Any, settings: dict[str, Any]) -> None:
    check_plugin(ICaRL(**settings), toy_stream(scenario))


class LossByHand(Plugin):
    """Recomputes the loss sample by sample and output by output."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self.former: dict[str, torch.Tensor] = {}
        self.checked = 0

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        self.former = {k: v.clone() for k, v in learner.model.state_dict().items()}

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        assert learner.experience is not None
        x, y = step.batch.x, step.batch.y
        new = learner.experience.outputs
        old = [u for past in learner.seen for u in past.outputs]
        with torch.no_grad():
            now = learner.model(x).sigmoid().double()
            then = torch.func.functional_call(learner.model, self.former, (x,)).double()
            then = 1 / (1 + (-then / self.temperature).exp())
        total = 0.0
        for row, label in enumerate(y.tolist()):
            for unit in [*new, *old]:
                q = float(then[row, unit]) if unit in old else float(unit == label)
                p = now[row, unit]
                total -= float(q * p.log() + (1 - q) * (1 - p).log())
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(total / len(y), rel=1e-4)
        if learner.seen:
            self.checked += int((y < new[0]).sum() > 0)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_loss_against_a_plain_loop(temperature: float) -> None:
    watch = LossByHand(temperature)
    toy_run([ICaRL(size=30, temperature=temperature), watch], toy_stream("class"))
    assert watch.checked > 5  # exemplars of old classes took part


def test_prediction_is_the_nearest_mean_of_exemplars() -> None:
    plugin = ICaRL(per_class=6)
    stream = toy_stream("class")
    result, learner = toy_run([plugin], stream)
    learner.eval()
    with torch.no_grad():

        def unit(x: torch.Tensor) -> torch.Tensor:
            features = learner.model.features(x)  # type: ignore[operator]
            out: torch.Tensor = features / features.norm(dim=1, keepdim=True)
            return out

        labels = plugin.buffer.column("labels")
        exemplars = plugin.buffer.inputs[: len(plugin.buffer)]
        means = torch.stack([unit(exemplars[labels == c]).mean(0) for c in range(6)])
        means /= means.norm(dim=1, keepdim=True)
        for column, task in enumerate(stream.tasks):
            data = task.data
            distance = torch.cdist(unit(data.gather(torch.arange(len(data)))), means)
            right = (distance.argmin(1) == data.labels).double().mean()
            assert result.matrix.values[-1][column] == pytest.approx(float(right), abs=0.013)


class ChoiceByHand(Plugin):
    """Herds the new data of an experience in a plain loop, as Algorithm 4 of the paper says."""

    def __init__(self, per_class: int) -> None:
        self.per_class = per_class
        self.chosen: dict[int, list[list[float]]] = {}

    @hookimpl(trylast=True)
    @torch.no_grad()
    def after_experience(self, learner: Learner, data: Data) -> None:
        x = data.gather(torch.arange(len(data)))
        features = learner.model.features(x).double()  # type: ignore[operator]
        features = features / features.norm(dim=1, keepdim=True)
        for label in data.labels.unique().tolist():
            rows = (data.labels == label).nonzero().flatten().tolist()
            mu = features[rows].mean(0)
            mu = mu / mu.norm()
            kept: list[int] = []
            for k in range(1, self.per_class + 1):
                distance = {
                    row: (mu - features[[*kept, row]].sum(0) / k).norm().item()
                    for row in rows
                    if row not in kept
                }
                kept.append(min(distance, key=lambda row: distance[row]))
            self.chosen[label] = x[kept].tolist()


def kept_by_class(plugin: ICaRL) -> dict[int, list[list[float]]]:
    labels = plugin.buffer.column("labels")
    inputs = plugin.buffer.inputs[: len(plugin.buffer)]
    return {c: inputs[labels == c].tolist() for c in range(6)}


def test_herding_against_a_plain_loop() -> None:
    plugin, watch = ICaRL(per_class=6), ChoiceByHand(6)
    toy_run([plugin, watch], toy_stream("class"))
    for label, rows in kept_by_class(plugin).items():
        assert sorted(rows) == sorted(watch.chosen[label])


def test_random_exemplars_are_of_each_class_and_not_the_herded_ones() -> None:
    plugin, watch = ICaRL(per_class=6, selection="random"), ChoiceByHand(6)
    stream = toy_stream("class")
    toy_run([plugin, watch], stream)
    same = 0
    for label, rows in kept_by_class(plugin).items():
        data = stream.experiences[label // 2].data
        on_offer = data.gather((data.labels == label).nonzero().flatten()).tolist()
        assert len({tuple(row) for row in rows}) == 6
        assert all(row in on_offer for row in rows)
        same += sum(row in watch.chosen[label] for row in rows)
    assert same < 24  # of 36; chance would give about one in each class


def test_exemplars_share_the_room() -> None:
    plugin = ICaRL(size=20)
    toy_run([plugin], toy_stream("class"))
    assert sorted(plugin.buffer.column("labels").bincount().tolist()) == [3, 3, 3, 3, 4, 4]


def test_a_model_without_features_is_refused() -> None:
    prepared = prepare_toy([ICaRL()], toy_stream())
    prepared.learner.model = nn.Linear(8, 6)
    with pytest.raises(PluginError, match="'icarl' needs a model with 'features'"):
        run(prepared.learner, prepared.stream, "toy")


def test_domain_incremental_streams_are_refused() -> None:
    with pytest.raises(PluginError, match="'icarl' works in the class and task scenario"):
        toy_run([ICaRL()], toy_stream("domain"))


def test_a_masked_output_costs_nothing() -> None:
    plugin = ICaRL()
    masked = torch.finfo(torch.float32).min
    outputs = torch.tensor([[0.5, masked, -1.0]], requires_grad=True)
    label, task = torch.tensor([0]), torch.tensor([0])
    loss = plugin.loss(outputs, Batch(torch.zeros(1, 2), label, task))
    plain = nn.functional.binary_cross_entropy_with_logits(
        outputs[:, [0, 2]], torch.tensor([[1.0, 0.0]]), reduction="sum"
    )
    assert loss.item() == pytest.approx(plain.item())


@pytest.mark.slow
def test_it_keeps_digits() -> None:
    result = clframe.fit(
        clframe.stream("split_mnist", scenario="class"), {"icarl": {"size": 500}},
        {"name": "mlp", "hidden": [100]}, max_steps=60, batch_size=64,
        optimizer={"name": "adam", "lr": 0.003}, run_dir=False, progress=False, logger=None,
    )  # fmt: skip
    assert result.matrix.values[-1].mean() > 0.6
