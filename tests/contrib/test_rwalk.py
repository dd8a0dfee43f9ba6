from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from clframe_contrib.rwalk import RWalk  # type: ignore[import-not-found]
from torch.nn import functional

from clframe import Learner, Plugin, SettingError, Step, hookimpl
from clframe.testing import check_plugin, prepare, run_built, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_it_keeps_the_contract(scenario: Any) -> None:
    check_plugin(RWalk(weight=10.0, interval=3), toy_stream(scenario))


class ByHand(Plugin):
    """Fisher information and scores of one flat vector, in a plain NumPy loop."""

    def __init__(self, weight: float, alpha: float, interval: int, epsilon: float) -> None:
        self.weight, self.alpha, self.interval, self.epsilon = weight, alpha, interval, epsilon
        self.fisher: Any = None
        self.scores: Any = None
        self.strength: Any = None
        self.anchor: Any = None
        self.penalties: list[tuple[float, float]] = []

    def flat(self, learner: Learner) -> Any:
        return np.concatenate(
            [p.detach().double().numpy().ravel() for p in learner.model.parameters()]
        )

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        self.window: list[tuple[Any, Any]] = []
        self.gained = 0.0 * self.flat(learner)
        self.origin = self.start = self.flat(learner)

    @hookimpl(tryfirst=True)
    def after_backward(self, learner: Learner, step: Step) -> None:
        # The gradient of the cross-entropy alone, from a pass of its own.
        outputs = learner(step.batch.x, step.batch.task)
        plain = functional.cross_entropy(outputs, step.batch.y)
        grads = torch.autograd.grad(plain, list(learner.model.parameters()))
        self.gradient = np.concatenate([g.double().numpy().ravel() for g in grads])
        self.start = self.flat(learner)
        if self.strength is not None:
            expected = self.weight * float((self.strength * (self.start - self.anchor) ** 2).sum())
            assert step.loss is not None
            self.penalties.append((float(step.loss.detach() - plain.detach()), expected))

    @hookimpl(trylast=True)
    def after_step(self, learner: Learner) -> None:
        self.window.append((self.gradient, self.flat(learner) - self.start))
        if self.fisher is None:
            self.fisher = self.gradient**2
        if len(self.window) == self.interval:
            self.close(learner)

    def close(self, learner: Learner) -> None:
        now = self.flat(learner)
        for i in range(len(now)):
            path = sum(-g[i] * move[i] for g, move in self.window)
            distance = 0.5 * self.fisher[i] * (now[i] - self.origin[i]) ** 2
            self.gained[i] += max(0.0, path / (distance + self.epsilon))
            mean = sum(g[i] ** 2 for g, _ in self.window) / len(self.window)
            self.fisher[i] = self.alpha * mean + (1 - self.alpha) * self.fisher[i]
        self.window, self.origin = [], now

    @hookimpl(tryfirst=True)
    def after_experience(self, learner: Learner) -> None:
        if self.window:
            self.close(learner)
        first = self.scores is None
        self.scores = self.gained if first else (self.scores + self.gained) / 2
        self.strength = sum((v - v.min()) / (v.max() - v.min()) for v in (self.fisher, self.scores))
        self.anchor = self.flat(learner)


def test_scores_and_fisher_against_a_plain_loop() -> None:
    settings = {"weight": 3.0, "alpha": 0.7, "interval": 4, "epsilon": 1e-3}
    plugin, watch = RWalk(**settings), ByHand(**settings)  # type: ignore[arg-type]
    # Ten steps an experience: two full windows and one that is cut short.
    toy_run([plugin, watch], toy_stream("domain"))
    for ours, theirs in (
        (plugin.fisher, watch.fisher),
        (plugin.scores, watch.scores),
        (plugin.strength, watch.strength),
        (plugin.anchor, watch.anchor),
    ):
        flat = torch.cat([value.flatten() for value in ours.values()]).double().numpy()
        assert flat == pytest.approx(theirs, rel=1e-3, abs=1e-5 * np.abs(theirs).max())
    assert len(watch.penalties) == 20
    for got, expected in watch.penalties:
        assert got == pytest.approx(expected, rel=1e-3, abs=1e-6)


def after_three_permutations(strategy: list[Plugin]) -> Any:
    built = prepare(
        {"name": "permuted_mnist", "n_experiences": 3},
        strategy,
        {"name": "mlp", "hidden": [50]},
        scenario="domain",
        optimizer={"name": "adam", "lr": 0.003},
        trainer={"max_steps": 100, "batch_size": 64},
    )
    return run_built(built).matrix.values[-1]


def test_it_forgets_less_than_fine_tuning() -> None:
    naive, ours = after_three_permutations([]), after_three_permutations([RWalk(weight=0.3)])
    assert ours[0] > naive[0] + 0.04
    assert ours.mean() > naive.mean() + 0.01


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(SettingError, match=r"rwalk.alpha must be at most 1, got 1.5"):
        RWalk(alpha=1.5)
