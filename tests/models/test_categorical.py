"""The policy that chooses: masks, cloning and Fisher information, each calculated another way."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, kl_divergence
from torch.nn import functional

from clframe import SettingError
from clframe.data.dataset import TensorData
from clframe.errors import PluginError
from clframe.models.categorical import categorical
from clframe.plugins._fisher import fisher
from clframe.robot.learner import ImitationLearner
from clframe.testing import prepare, run_built
from tests.helpers import corridor
from tests.helpers.corridor import CHOICES

pytest.importorskip("gymnasium")


def built(tmp_path: Path, strategy: Any = "naive", **model: Any) -> Any:
    stream = corridor.corridors(tmp_path)
    settings = {"name": "categorical", "hidden": [8], **model}
    return prepare(stream, strategy, settings, max_epochs=3, batch_size=16)


def samples(learner: ImitationLearner, task: int = 0) -> TensorData:
    data: Any = learner.stream.experiences[task].data
    return data


def inputs(learner: ImitationLearner, task: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    data = samples(learner, task)
    batch = next(iter(data.batches(torch.arange(len(data)), len(data))))
    return batch.x, batch.y, batch.task


@pytest.mark.parametrize("heads", ["shared", "task"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_what_is_impossible_is_never_chosen(tmp_path: Path, heads: str, layer_norm: bool) -> None:
    learner: Any = built(tmp_path, heads=heads, layer_norm=layer_norm).learner
    for task in range(2):
        x, _, number = inputs(learner, task)
        outputs, features = learner.run_model(x, number)
        assert torch.equal(outputs, learner.model(x))
        assert torch.equal(outputs, learner.model.head(features))
        possible = x[:, corridor.SEEN : corridor.STATE] == 1
        assert possible.any(1).all()
        assert not possible.all(1).any()
        p = outputs.softmax(1)
        assert torch.equal(p > 0, possible)
        assert torch.isfinite(outputs.log_softmax(1)).all()
        chosen = learner.action_of(outputs, learner.generator)
        assert chosen.dtype == torch.long
        assert possible.gather(1, chosen[:, None]).all()
        # The logits of what is possible are those of a plain perceptron.
        inner = learner.model.features.features
        hidden = inner(x) if heads == "shared" else inner.features(x[:, :-2])
        rows = slice(0, CHOICES) if heads == "shared" else slice(task * CHOICES, None)
        linear = learner.model.head.linear
        plain = functional.linear(hidden, linear.weight[rows], linear.bias[rows])[:, :CHOICES]
        torch.testing.assert_close(outputs[possible], plain[possible])


def test_cloning_a_policy_is_its_divergence_and_cloning_choices_their_likelihood() -> None:
    torch.manual_seed(0)
    model = categorical((6,), 4, hidden=[8])
    outputs = model(torch.randn(9, 6))
    old = torch.randn(9, 4)
    # One that is impossible in half of the rows, in both.
    low = torch.finfo(old.dtype).min
    old[::2, 1] = low
    masked = outputs.index_put((torch.arange(0, 9, 2), torch.tensor(1)), torch.tensor(low))
    keep = [[c for c in range(4) if not (row % 2 == 0 and c == 1)] for row in range(9)]
    expected = [
        kl_divergence(Categorical(logits=old[row, c]), Categorical(logits=masked[row, c]))
        for row, c in enumerate(keep)
    ]
    loss = model.action_loss(masked, old)
    torch.testing.assert_close(loss, torch.stack(expected).mean())
    (gradient,) = torch.autograd.grad(loss, model.head.weight)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 1e-3
    own = model.action_loss(masked, masked.detach())
    assert float(own.detach()) == pytest.approx(0, abs=1e-6)
    choices = torch.tensor([0, 2, 3] * 3)
    of_choices = torch.stack(
        [-Categorical(logits=masked[row, keep[row]]).log_prob(torch.tensor(keep[row].index(c)))
         for row, c in enumerate(choices.tolist())]
    )  # fmt: skip
    torch.testing.assert_close(model.action_loss(masked, choices), of_choices.mean())


@pytest.mark.parametrize("heads", ["shared", "task"])
@pytest.mark.parametrize("labels", ["choices", "logits"])
def test_fisher_information_is_that_of_the_choice(tmp_path: Path, heads: str, labels: str) -> None:
    learner: Any = built(tmp_path, heads=heads).learner
    data = samples(learner)
    x, _, number = inputs(learner)
    outputs = learner.run_model(x, number)[0]
    if labels == "logits":
        data.labels = outputs.detach()
    parameters = learner.named_trainable()
    expected = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for row in range(len(x)):
        possible = (x[row, corridor.SEEN : corridor.STATE] == 1).nonzero().flatten()
        logp = outputs[row, possible].log_softmax(0)
        for choice in range(len(possible)):
            gradients = torch.autograd.grad(
                logp[choice], list(parameters.values()), retain_graph=True
            )
            for name, gradient in zip(parameters, gradients, strict=True):
                expected[name] += logp[choice].exp().detach() * gradient**2 / len(x)
    for name, value in fisher(learner, data, "exact").items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-7)
    assert max(float(value.max()) for value in expected.values()) > 1e-3
    drawn = fisher(learner, data, "sample")
    assert all(torch.isfinite(value).all() for value in drawn.values())
    if labels == "logits":
        with pytest.raises(PluginError, match="fisher=true_weighted needs class labels"):
            fisher(learner, data, "true_weighted")
        for estimate in ("true", "batch"):
            with pytest.raises(
                PluginError, match=f"fisher={estimate} uses the gradient of the lab"
            ):
                fisher(learner, data, estimate)  # type: ignore[arg-type]


def test_choices_are_learned_from_demonstrations(tmp_path: Path) -> None:
    stream = corridor.corridors(tmp_path, tasks=1)
    model = {"name": "categorical", "hidden": [32]}
    built = prepare(stream, "naive", model, max_epochs=60, batch_size=16)
    result = run_built(built)
    assert result.matrix.values[-1, 0] == 1.0
    learner: Any = built.learner
    x, y, number = inputs(learner)
    assert torch.equal(learner.action_of(learner(x, number), learner.generator), y)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"stream": "point_robot"},
            "model=categorical chooses among actions, but those of stream ",
        ),
        ({"stream": "split_mnist"}, "model=categorical needs a stream of robot tasks, which 'spl"),
    ],
)
def test_other_streams_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        prepare(**arguments, model="categorical")


def test_a_mask_of_another_length_is_refused(tmp_path: Path) -> None:
    stream = dataclasses.replace(corridor.corridors(tmp_path), mask=slice(0, 3))
    with pytest.raises(SettingError, match="'corridors' has 16 choices, but its mask is 3 of the"):
        prepare(stream, "naive", "categorical")


def test_labels_that_are_no_choices_are_refused() -> None:
    model = categorical((6,), 4, hidden=[8])
    with pytest.raises(
        SettingError, match=r"by their 4 logits, but the labels have the shape \(2,"
    ):
        model.action_loss(torch.zeros(3, 4), torch.zeros(3, 2))


def test_the_best_ways_are_the_best() -> None:
    """The corridor itself: what breadth-first search says is what its own steps add up to."""
    for task in range(2):
        for start in corridor.STARTS:
            demo = corridor.demonstration(task, start)
            assert len(demo) == corridor.steps_to_goal(start)
            mask = demo.observations["state"][:, corridor.SEEN :]
            assert mask[np.arange(len(demo)), demo.actions[:, 0]].all()
