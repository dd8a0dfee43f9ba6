from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from clframe import Learner, Plugin, SettingError, hookimpl
from clframe.core.registry import discover
from clframe.data.dataset import Data
from clframe.plugins._fisher import fisher
from clframe.plugins._quadratic import Quadratic, _QuadraticPenalty
from clframe.plugins.ewc import EWC
from clframe.testing import check_plugin, toy_run, toy_stream


class OnePage(Plugin):
    """EWC as its paper has it, with nothing done for speed: one sample, one class at a time.

    What clframe/plugins/ewc.py does over four files must be equal to this.
    """

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.terms: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []

    @hookimpl
    def penalty(self, learner: Learner) -> torch.Tensor | None:
        """Kirkpatrick et al., eq. 3: weight/2 sum_k sum_i F_i^k (theta_i - theta_i^k)^2."""
        values = [
            (fisher[name] * (theta - anchor[name]) ** 2).sum()
            for fisher, anchor in self.terms
            for name, theta in learner.named_trainable().items()
        ]
        return self.weight / 2 * torch.stack(values).sum() if values else None

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """F_i = mean over samples x of sum_y p(y|x) (d log p(y|x) / d theta_i)^2."""
        theta = learner.named_trainable()
        parameters = list(theta.values())
        fisher = {name: torch.zeros_like(p) for name, p in theta.items()}
        for sample in data.batches(torch.arange(len(data)), batch_size=1):
            log_p = learner.run_model(sample.x, sample.task)[0].log_softmax(1)[0]
            for label in log_p.exp().nonzero().flatten():  # classes that compete for the sample
                gradient = torch.autograd.grad(log_p[label], parameters, retain_graph=True)
                for name, g in zip(theta, gradient, strict=True):
                    fisher[name] += log_p[label].exp().detach() * g**2 / len(data)
        self.terms.append((fisher, {name: p.detach().clone() for name, p in theta.items()}))


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_training_equals_that_of_ewc_on_one_page(scenario: Any) -> None:
    stream = toy_stream(scenario, samples=20)
    _, reference = toy_run([OnePage(weight=100.0)], stream)
    _, learner = toy_run([EWC(weight=100.0)], stream)
    _, naive = toy_run([], stream)
    theirs = reference.named_trainable()
    for name, p in learner.named_trainable().items():
        assert torch.allclose(p, theirs[name], atol=1e-5), name
    # A check that notices: the penalty does change what is learned.
    assert any((p - theirs[name]).abs().max() > 1e-2 for name, p in naive.named_trainable().items())


def five_terms(
    model: nn.Module, scale: float
) -> tuple[list[dict[str, torch.Tensor]], list[dict[str, torch.Tensor]]]:
    """Strengths (many of them zero, some tiny) and anchors near the model's parameters."""
    generator = torch.Generator().manual_seed(0)
    strengths, anchors = [], []
    for _ in range(5):
        noise = {n: torch.randn(p.shape, generator=generator) for n, p in model.named_parameters()}
        strengths.append(
            {n: scale * (v.clamp(min=0) ** 4).to(p_dtype(model)) for n, v in noise.items()}
        )
        anchors.append(
            {
                n: (p + 0.01 * torch.randn(p.shape, generator=generator)).detach()
                for n, p in model.named_parameters()
            }
        )
    return strengths, anchors


def p_dtype(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("weight", [1.0, 1e8])
def test_folded_penalty_equals_the_sum_over_five_tasks(
    dtype: torch.dtype, tolerance: float, weight: float
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 4)).to(dtype)
    strengths, anchors = five_terms(model, 1e-6)
    folded = Quadratic()
    for strength, anchor in zip(strengths, anchors, strict=True):
        folded.add(strength, anchor)
    value = folded.value(model, weight / 2)
    value.backward()

    explicit = torch.zeros((), dtype=torch.float64)
    for name, p in model.named_parameters():
        gradient = torch.zeros_like(p, dtype=torch.float64)
        size = torch.zeros_like(p, dtype=torch.float64)
        for strength, anchor in zip(strengths, anchors, strict=True):
            f, d = strength[name].double(), p.detach().double() - anchor[name].double()
            explicit += weight / 2 * (f * d * d).sum()
            gradient += weight * f * d
            size += weight * f * d.abs()
        assert p.grad is not None
        # Terms of both signs meet in a sum, so its error is measured by the terms' size.
        assert float((p.grad - gradient).abs().max()) <= tolerance * float(size.max())
    assert value.item() == pytest.approx(explicit.item(), rel=tolerance)


def test_no_penalty_before_the_first_experience_is_learned() -> None:
    naive, _ = toy_run([], toy_stream("task", n_experiences=1))
    ewc, _ = toy_run([EWC(weight=1e12)], toy_stream("task", n_experiences=1))
    assert (naive.matrix.values == ewc.matrix.values).all()


@pytest.mark.parametrize(
    ("form", "decay", "share", "factor"),
    [
        ("van_de_ven", 0.5, 1.0, 0.25),
        ("libero_paper", 0.5, 0.5, 0.5),
        ("libero_code", 0.5, 1.0, 1.0),
    ],
)
def test_online_forms(
    form: Any, decay: float, share: float, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fishers: list[dict[str, torch.Tensor]] = []
    anchor: dict[str, torch.Tensor] = {}
    real = fisher

    def recorded(learner: Learner, *arguments: Any) -> dict[str, torch.Tensor]:
        fishers.append(real(learner, *arguments))
        anchor.update((n, p.detach().clone()) for n, p in learner.named_trainable().items())
        return fishers[-1]

    monkeypatch.setattr("clframe.plugins.ewc.fisher", recorded)
    plugin = EWC(weight=10.0, online=True, gamma=0.5, form=form)
    _, learner = toy_run([plugin], toy_stream("domain", n_experiences=4))
    assert len(fishers) == 3  # none after the last experience, which nothing follows
    with torch.no_grad():
        for p in learner.parameters():
            p.add_(0.1)
    expected = 0.0
    for name, p in learner.named_trainable().items():
        running = torch.zeros_like(p)
        for one in fishers:
            running = decay * running + share * one[name]
        expected += 10.0 * factor * float((running * (p.detach() - anchor[name]) ** 2).sum())
    value = plugin.quadratic.value(learner.model, plugin.factor)
    assert value.item() == pytest.approx(expected, rel=1e-5)


def test_the_base_of_quadratic_penalties_is_no_method() -> None:
    with pytest.raises(TypeError, match="abstract"):
        _QuadraticPenalty()  # type: ignore[abstract]
    names = discover().names("plugin")
    assert not any(name.startswith("_") for name in names)
    assert {"ewc", "si", "mas"} <= set(names)


def test_cost_does_not_grow_with_experiences() -> None:
    plugin = EWC()
    _, learner = toy_run([plugin], toy_stream("domain", n_experiences=6, samples=8))
    kept = sum(v.numel() for v in plugin.quadratic.strength.values())
    assert kept == sum(p.numel() for p in learner.parameters())


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("online", [False, True])
def test_contract(scenario: Any, online: bool) -> None:
    check_plugin(EWC(online=online), toy_stream(scenario))


@pytest.mark.parametrize("estimate", ["sample", "predicted", "true", "batch"])
def test_contract_of_estimates(estimate: Any) -> None:
    check_plugin(EWC(fisher=estimate, samples=30), toy_stream("class"))


@pytest.mark.parametrize(
    "settings",
    [
        {"weight": -1.0},
        {"samples": 0},
        {"online": True, "gamma": 1.5},
        {"gamma": 0.5},
        {"online": True, "form": "libero_paper"},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any) -> None:
    with pytest.raises(SettingError, match=r"ewc\."):
        EWC(**settings)


def test_a_retained_graph_gives_the_same_gradient_again() -> None:
    model = torch.nn.Linear(4, 3)
    form = Quadratic()
    strength = {name: torch.rand_like(p) for name, p in model.named_parameters()}
    form.replace(strength, {name: p + 1.0 for name, p in model.named_parameters()})
    parameters = list(model.parameters())
    expected = [-2.0 * 0.5 * value for value in strength.values()]
    loss = form.value(model, 0.5)
    for factor in (1.0, 3.0):
        found = torch.autograd.grad(factor * loss, parameters, retain_graph=True)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, factor * other)
