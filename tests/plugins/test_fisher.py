from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from clframe import Learner, PluginError, Stream
from clframe.data.dataset import TensorData, keep_inputs
from clframe.plugins import _per_sample
from clframe.plugins._fisher import fisher
from clframe.run import set_up
from clframe.testing import prepare_toy, toy_stream


def learner_on(stream: Stream, model: nn.Module | None = None, experience: int = 1) -> Learner:
    """A learner that stands in the given experience."""
    learner = prepare_toy([], stream).learner
    if model is not None:
        learner.model = model
        learner._split_model = False
    set_up(learner, stream, None)
    for number in range(experience + 1):
        learner.begin(stream.experiences[number])
    return learner


def brute_force(learner: Learner, stream: Stream, number: int, estimate: str) -> dict[str, Any]:
    """One sample and one class at a time, on the active outputs only, by plain autograd."""
    learner.eval()
    data = stream.experiences[number].data
    tasks = stream.experiences[number].tasks
    units = list(tasks[0].outputs)
    if stream.scenario == "class":
        units = sorted({u for e in stream.experiences[: number + 1] for u in e.outputs})
    parameters = learner.named_trainable()
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    for i in range(len(data)):
        logits = learner.model(data.gather(torch.tensor([i])))[0, units]
        logp = logits - logits.exp().sum().log()
        p = logp.exp().detach()
        if estimate == "exact":
            chosen = [(c, float(p[c])) for c in range(len(units))]
        elif estimate == "predicted":
            chosen = [(int(p.argmax()), 1.0)]
        elif estimate == "true_weighted":
            label = units.index(int(data.labels[i]))
            chosen = [(label, float(p[label]))]
        else:
            chosen = [(units.index(int(data.labels[i])), 1.0)]
        for c, weight in chosen:
            gradients = torch.autograd.grad(
                logp[c], list(parameters.values()), retain_graph=True, allow_unused=True
            )
            for name, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    total[name] += weight * gradient.double() ** 2 / len(data)
    return total


def assert_close(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert list(one) == list(two)
    for name in one:
        a, b = one[name].double(), two[name].double()
        assert float((a - b).abs().max()) <= 2e-5 * float(b.abs().max()), name


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("estimate", ["exact", "predicted", "true", "true_weighted"])
def test_fisher_equals_autograd_sample_by_sample(scenario: Any, estimate: Any) -> None:
    stream = toy_stream(scenario, samples=6)
    learner = learner_on(stream)
    found = fisher(learner, stream.experiences[1].data, estimate, batch_size=5)
    assert learner.training
    assert_close(found, brute_force(learner, stream, 1, estimate))


class Images(nn.Module):
    """Parameters outside linear layers, a norm, and one layer that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.ReLU()
        )
        self.end = nn.Linear(3, 6)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.end(self.layers(x).flatten(1))
        return out


class Recurrent(nn.Module):
    """A layer that vmap has no rule for."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(4, 5, batch_first=True)
        self.end = nn.Linear(5, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.end(self.cell(x.view(len(x), 2, 4))[0][:, -1])
        return out


class Branching(nn.Linear):
    """What vmap refuses: a decision that depends on the sample."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [super(Branching, self).forward(r if r[0] > 0 else 2 * r) for r in x]
        return torch.stack(rows)


class Twice(nn.Module):
    """A linear layer that is used two times: not the outer product of one input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.end = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.end(self.inner(self.inner(x).tanh()))
        return out


def branching() -> nn.Module:
    return Branching(8, 6)


@pytest.mark.parametrize("make", [Images, Recurrent, branching, Twice])
def test_models_beyond_plain_linear_layers(make: Any) -> None:
    stream = toy_stream("class", samples=4)
    torch.manual_seed(0)
    learner = learner_on(stream, make())
    data = stream.experiences[1].data
    assert_close(fisher(learner, data, "exact"), brute_force(learner, stream, 1, "exact"))


def test_the_portion_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = toy_stream("task", samples=6)
    learner = learner_on(stream)
    data = stream.experiences[1].data
    short_cut = fisher(learner, data, "exact", batch_size=5)
    monkeypatch.setattr(_per_sample, "linear_layers", lambda *arguments: None)
    assert_close(fisher(learner, data, "exact", batch_size=3), short_cut)


def test_sampled_labels_agree_with_the_expectation_in_the_mean() -> None:
    stream = toy_stream("class", samples=10)
    learner = learner_on(stream)
    data = stream.experiences[1].data
    # Every sample a thousand times: the mean over drawn labels is near the exact expectation.
    many = data.subset(torch.arange(len(data)).repeat(1000))
    exact, drawn = fisher(learner, data, "exact"), fisher(learner, many, "sample", batch_size=2000)
    for name, value in exact.items():
        assert float((drawn[name] - value).abs().max()) <= 0.05 * float(value.max()), name
    assert not torch.equal(
        fisher(learner, data, "sample")["head.bias"], fisher(learner, data, "sample")["head.bias"]
    )


def test_batch_level_is_the_mean_of_squared_batch_gradients() -> None:
    stream = toy_stream("domain", samples=6)
    learner = learner_on(stream)
    data = stream.experiences[1].data
    learner.generator.manual_seed(3)
    found = fisher(learner, data, "batch", batch_size=5)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(3))
    total = {name: torch.zeros_like(p) for name, p in learner.named_trainable().items()}
    for chunk in (order[:5], order[5:10], order[10:]):
        learner.zero_grad()
        loss = functional.cross_entropy(learner.model(data.gather(chunk)), data.labels[chunk])
        loss.backward()
        for name, p in learner.named_trainable().items():
            assert p.grad is not None
            total[name] += p.grad**2 / 3
    assert_close(found, total)


def test_a_subset_is_drawn_by_the_run_s_generator() -> None:
    stream = toy_stream("domain", samples=20)
    learner = learner_on(stream)
    data = stream.experiences[1].data
    learner.generator.manual_seed(7)
    found = fisher(learner, data, "true", samples=8)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(7))[:8]
    assert_close(found, fisher(learner, data.subset(order), "true"))


def test_outputs_that_are_no_logits_are_refused_with_a_way_out() -> None:
    stream = toy_stream("domain")
    learner = learner_on(stream, nn.Sequential(nn.Linear(8, 2), nn.Unflatten(1, (2, 1))))
    data = TensorData(torch.zeros(3, 8), torch.zeros(3, dtype=torch.long), 0, None, keep_inputs)
    with pytest.raises(PluginError, match="choose fisher=true or fisher=batch"):
        fisher(learner, data, "exact")
