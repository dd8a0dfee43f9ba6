from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from clframe_contrib.agem import AGEM, project  # type: ignore[import-not-found]
from clframe_contrib.gem import GEM, solve_dual  # type: ignore[import-not-found]
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import clframe
from clframe import Learner, Plugin, Step, hookimpl
from clframe.testing import check_plugin, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("plugin", [AGEM(per_class=5, sample_size=8), GEM(per_task=10)])
def test_keep_the_contract(plugin: Plugin, scenario: Any) -> None:
    check_plugin(plugin, toy_stream(scenario))


def test_agem_shares_its_memory_by_classes_or_keeps_a_uniform_sample() -> None:
    even, uniform = AGEM(None, 12), AGEM(None, 12, policy="reservoir")
    for plugin in (even, uniform):
        toy_run([plugin], toy_stream("class"))
        assert len(plugin.buffer) == 12
    # Six classes share 12 places; a reservoir knows no classes.
    assert even.buffer.column("groups").unique(return_counts=True)[1].tolist() == [2] * 6
    assert "groups" not in uniform.buffer.columns
    assert uniform.buffer.seen == sum(len(e.data) for e in toy_stream("class"))


def test_projection_against_the_formula_on_one_long_vector() -> None:
    generator = torch.Generator().manual_seed(0)
    for sign in (1.0, -1.0):
        g = torch.randn(12, generator=generator, dtype=torch.float64)
        r = sign * g + 0.3 * torch.randn(12, generator=generator, dtype=torch.float64)
        expected = g - (g @ r) / (r @ r) * r if g @ r < 0 else g.clone()
        pieces = [g[:5].clone(), g[5:].clone().view(7, 1)]
        project(pieces, [r[:5].clone(), r[5:].clone().view(7, 1)])
        assert torch.allclose(torch.cat([p.flatten() for p in pieces]), expected, atol=1e-12)
        assert torch.cat([p.flatten() for p in pieces]) @ r >= -1e-12


def test_a_zero_reference_changes_nothing() -> None:
    g = torch.ones(3)
    project([g], [torch.zeros(3)])
    assert g.tolist() == [1.0, 1.0, 1.0]


class Before(Plugin):
    """Sees the gradient before A-GEM does, and draws the batch that A-GEM will draw."""

    def __init__(self, agem: AGEM) -> None:
        self.agem = agem
        self.expected: torch.Tensor | None = None

    @hookimpl(tryfirst=True)
    def after_backward(self, learner: Learner) -> None:
        self.expected = None
        if not learner.seen:
            return
        state = learner.generator.get_state()
        batch = self.agem.buffer.sample(learner, 8)
        learner.generator.set_state(state)
        g = torch.cat([p.grad.flatten() for p in learner.model.parameters() if p.grad is not None])
        logits = learner.model(batch.x)
        units = torch.zeros_like(logits, dtype=torch.bool)
        for row, task in enumerate(batch.task.tolist()):
            units[row, list(learner.stream.tasks[task].outputs)] = True
        loss = functional.cross_entropy(logits.masked_fill(~units, -1e30), batch.y)
        wanted = torch.autograd.grad(loss, list(learner.model.parameters()))
        r = torch.cat([t.flatten() for t in wanted])
        self.expected = g - torch.minimum(g @ r, torch.zeros(())) / (r @ r) * r


class After(Plugin):
    def __init__(self, before: Before) -> None:
        self.before = before
        self.compared = 0

    @hookimpl(trylast=True)
    def after_backward(self, learner: Learner, step: Step) -> None:
        if self.before.expected is not None:
            got = torch.cat(
                [p.grad.flatten() for p in learner.model.parameters() if p.grad is not None]
            )
            assert torch.allclose(got, self.before.expected, atol=1e-6)
            self.compared += 1


def test_a_step_of_agem_against_a_calculation_of_its_own() -> None:
    agem = AGEM(per_class=5, sample_size=8)
    before = Before(agem)
    after = After(before)
    toy_run([before, agem, after], toy_stream("task"))
    assert after.compared == 20


def brute_force(gram: Any, linear: Any, margin: float) -> Any:
    """The best of all choices of which variables are at their bound."""
    n, best, value = len(linear), None, np.inf
    for free in itertools.product([False, True], repeat=n):
        f = np.array(free)
        v = np.full(n, margin)
        if f.any():
            rest = linear[f] + gram[np.ix_(f, ~f)] @ v[~f]
            v[f] = np.linalg.solve(gram[np.ix_(f, f)], -rest)
        objective = v @ gram @ v / 2 + linear @ v
        if (v >= margin - 1e-12).all() and objective < value:
            best, value = v, objective
    return best


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 2.0]))
def test_the_dual_against_brute_force(n: int, seed: int, margin: float) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n, 4))
    gram = rows @ rows.T + 1e-3 * np.eye(n)
    linear = rows @ generator.normal(size=4)
    ours = solve_dual(gram, linear, margin)
    assert ours == pytest.approx(brute_force(gram, linear, margin), rel=1e-6, abs=1e-6)


class NoHarm(Plugin):
    """Checks, after GEM, that the gradient opposes no past task's."""

    def __init__(self, gem: GEM) -> None:
        self.gem = gem
        self.checked = 0

    @hookimpl(trylast=True)
    def after_backward(self, learner: Learner) -> None:
        grads = [p.grad.clone() for p in learner.model.parameters() if p.grad is not None]
        for past in learner.seen:
            positions = (self.gem.buffer.column("tasks") == past.index).nonzero().squeeze(1)
            batch = self.gem.buffer.batch(learner, positions)
            loss = functional.cross_entropy(learner(batch.x, batch.task), batch.y)
            r = torch.autograd.grad(loss, list(learner.model.parameters()))
            inner = sum(float((a * b).sum()) for a, b in zip(grads, r, strict=True))
            assert inner >= -1e-5
            self.checked += 1


def test_gem_never_opposes_a_past_task() -> None:
    # The small number on the diagonal bends the constraint by as much times v.
    gem = GEM(per_task=10, eps=1e-9)
    watch = NoHarm(gem)
    toy_run([gem, watch], toy_stream("domain"))
    assert watch.checked == 10 * (1 + 2)


def final(strategy: Any, scenario: Any) -> float:
    result = clframe.fit(
        clframe.stream("split_mnist", scenario=scenario), strategy,
        {"name": "mlp", "hidden": [100]}, max_steps=50, batch_size=64,
        optimizer={"name": "adam", "lr": 0.003}, run_dir=False, progress=False, logger=None,
    )  # fmt: skip
    return float(result.matrix.values[-1].mean())


@pytest.mark.slow
def test_they_forget_less_than_fine_tuning() -> None:
    assert final("agem", "domain") > final("naive", "domain") + 0.05
    assert final({"gem": {"per_task": 50}}, "class") > 0.6
