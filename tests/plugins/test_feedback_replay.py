from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import clframe
from clframe import Learner, Plugin, PluginError, Step, hookimpl
from clframe.plugins.feedback_replay import FeedbackReplay
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream


def small(**settings: Any) -> FeedbackReplay:
    return FeedbackReplay(**{"hidden": (32,), "latent": 8, **settings})


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_it_keeps_the_contract(scenario: Any) -> None:
    check_plugin(small(), toy_stream(scenario))


def test_the_learners_optimizer_trains_the_feedback_connections() -> None:
    prepared = prepare_toy([small()], toy_stream("class"))
    prepared.learner.plugins.hook.configure(learner=prepared.learner, stream=prepared.stream)
    names = {name for name, _ in prepared.learner.named_parameters()}
    assert {"feedback.latent.mean.weight", "feedback.decoder.0.weight"} <= names
    optimizer = prepared.learner.configure_optimizers()
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert all(id(p) in trained for p in prepared.learner.parameters())


def log_softmax(row: np.ndarray) -> np.ndarray:
    return np.asarray(row - row.max() - np.log(np.exp(row - row.max()).sum()))


def test_the_loss_of_a_step_is_the_formula_of_the_paper() -> None:
    """1/t (L_V + L_class) + (1 - 1/t) (L_V + L_distil), written out with numpy."""
    plugin = small()
    kept: dict[int, tuple[Step, nn.Module, nn.Module, torch.Tensor]] = {}
    previous: list[nn.Module] = []

    class Watch(Plugin):
        @hookimpl(tryfirst=True)
        def penalty(self, learner: Learner) -> None:
            self.noise = learner.generator.get_state()  # as it is before the latent draw

        @hookimpl
        def after_backward(self, learner: Learner, step: Step) -> None:
            t = len(learner.seen) + 1
            models = copy.deepcopy((learner.model, plugin.feedback))
            kept[t] = (step, *models, self.noise)

        @hookimpl
        def after_experience(self, learner: Learner) -> None:
            previous.append(copy.deepcopy(learner.model))

    toy_run([Watch(), plugin], toy_stream("class"), max_epochs=1)
    for t, (step, model, feedback, noise) in kept.items():
        x = torch.cat([part.x for part in step.parts])
        n = len(step.batch)
        weights = np.array([1 / t / n] * n + [(1 - 1 / t) / n] * (len(x) - n))
        assert len(x) == (n if t == 1 else 2 * n)
        with torch.no_grad():
            features = model.features(x)  # type: ignore[operator]
            logits = model.head(features).double().numpy()[:, : 2 * t]  # type: ignore[operator]
            mean = feedback.latent.mean(features)  # type: ignore[operator]
            log_variance = feedback.latent.log_variance(features)  # type: ignore[operator, union-attr]
            generator = torch.Generator()
            generator.set_state(noise)
            z = mean + log_variance.exp().sqrt() * torch.randn(mean.shape, generator=generator)
            decoded = feedback.decoder(z).double().numpy()  # type: ignore[operator]
        pixels = x.shape[1]
        m, v = mean.double().numpy(), log_variance.double().numpy()
        error = ((decoded - x.double().numpy()) ** 2).sum(1)
        divergence = 0.5 * (m**2 + np.exp(v) - v - 1).sum(1)
        losses = (error + divergence) / pixels
        for i in range(len(x)):
            if i < n:
                losses[i] -= log_softmax(logits[i])[int(step.batch.y[i])]
            else:
                with torch.no_grad():
                    old = previous[t - 2](x[i : i + 1])[0].double().numpy()[: 2 * (t - 1)]
                p = np.exp(log_softmax(old / 2))
                losses[i] -= 4 * (p * log_softmax(logits[i] / 2)[: len(p)]).sum()
        assert float(step.loss.detach()) == pytest.approx((weights * losses).sum(), rel=1e-4)  # type: ignore[union-attr]


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(PluginError, match="'features' and a linear 'head', which Sequential lacks"):
        clframe.fit(
            toy_stream("class"), small(), nn.Sequential(nn.Linear(8, 6)), run_dir=False, logger=None
        )
