from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from clframe_contrib.gss import GSS, cosines, of_each, replaced  # type: ignore[import-not-found]
from clframe_contrib.mir import MIR  # type: ignore[import-not-found]
from torch import Tensor
from torch.nn import functional

import clframe
from clframe import Batch, Learner, Plugin, SettingError, Step, hookimpl
from clframe.testing import check_plugin, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize(
    "plugin", [MIR(size=20, candidates=12, batch_size=5), GSS(size=20, subset=5, batch_size=9)]
)
def test_keep_the_contract(plugin: Plugin, scenario: Any) -> None:
    check_plugin(plugin, toy_stream(scenario))


def active(learner: Learner, logits: Tensor, tasks: Tensor) -> Tensor:
    """Logits with the outputs of other tasks, or of classes to come, shut."""
    open_units = torch.zeros_like(logits, dtype=torch.bool)
    assert learner.experience is not None
    known = [*learner.seen, learner.experience]
    for row, task in enumerate(tasks.tolist()):
        if learner.stream.scenario == "class":
            units = [unit for experience in known for unit in experience.outputs]
        else:
            units = list(learner.stream.tasks[task].outputs)
        open_units[row, units] = True
    return logits.masked_fill(~open_units, -1e30)


class VirtualStep(Plugin):
    """Makes MIR's choice with a copy of the model that really takes the step."""

    def __init__(self, mir: MIR, lr: float) -> None:
        self.mir, self.lr = mir, lr
        self.expected: Tensor | None = None
        self.compared = 0

    @hookimpl(tryfirst=True)
    def extra_batches(self, learner: Learner, batch: Batch) -> None:
        self.expected = None
        n = len(self.mir.buffer)
        if n <= self.mir.batch_size:
            return
        state = learner.generator.get_state()
        pool = torch.randperm(n, generator=learner.generator)[: self.mir.candidates]
        learner.generator.set_state(state)
        x = self.mir.buffer.inputs[pool]
        y, task = self.mir.buffer.column("labels")[pool], self.mir.buffer.column("tasks")[pool]
        moved = copy.deepcopy(learner.model)
        optimizer = torch.optim.SGD(moved.parameters(), lr=self.lr)
        optimizer.zero_grad()
        functional.cross_entropy(active(learner, moved(batch.x), batch.task), batch.y).backward()
        optimizer.step()
        rise = [
            functional.cross_entropy(active(learner, moved(x[i : i + 1]), task[i : i + 1]), y[[i]])
            - functional.cross_entropy(
                active(learner, learner.model(x[i : i + 1]), task[i : i + 1]), y[[i]]
            )
            for i in range(len(pool))
        ]
        order = torch.stack(rise).detach().argsort(descending=True)
        self.expected = x[order[: self.mir.batch_size]]

    @hookimpl
    def after_backward(self, step: Step) -> None:
        if self.expected is not None:
            assert step.parts[1].weight == self.mir.batch_size / len(step.batch)
            assert torch.equal(step.parts[1].x, self.expected)
            self.compared += 1


@pytest.mark.parametrize(("scenario", "lr"), [("class", None), ("task", 0.5)])
def test_mir_replays_what_a_step_would_harm_most(scenario: Any, lr: float | None) -> None:
    mir = MIR(size=30, candidates=12, batch_size=4, lr=lr)
    watch = VirtualStep(mir, 0.01 if lr is None else lr)
    toy_run([watch, mir], toy_stream(scenario))
    assert watch.compared == 3 * 10 - 1


def test_a_virtual_step_leaves_running_statistics_alone() -> None:
    cnn = {"name": "cnn", "channels": [4], "features": 8, "norm": True}
    stream = clframe.stream("split_mnist", scenario="class", n_experiences=2)
    prepared = clframe.testing.prepare(stream, "naive", cnn, max_steps=2)
    clframe.testing.run_built(prepared)
    learner = prepared.learner
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    data = stream.experiences[1].data
    batch, pool = data.batches(torch.arange(40), 20)
    learner.train()
    scores = MIR(lr=0.5).interference(learner, batch, pool)
    assert scores.shape == (20,)
    assert bool(scores.any())
    for name, value in learner.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_mir_needs_a_choice() -> None:
    with pytest.raises(SettingError, match=r"mir.candidates must be above mir.batch_size=10"):
        MIR(candidates=10)


# ---------------------------------------------------------------- GSS


class ByHand(Plugin):
    """Computes GSS's scores with one backward pass per sample, before GSS does."""

    def __init__(self, gss: GSS) -> None:
        self.gss = gss
        self.compared = 0

    def gradient(self, learner: Learner, x: Tensor, y: Tensor, task: Tensor) -> Tensor:
        logits = active(learner, learner.model(x[None]), task[None])
        loss = functional.cross_entropy(logits, y[None])
        wanted = torch.autograd.grad(loss, list(learner.model.parameters()))
        return torch.cat([t.flatten() for t in wanted])

    @hookimpl(tryfirst=True)
    def after_step(self, learner: Learner, step: Step) -> None:
        if not len(self.gss.buffer):
            return
        state = learner.generator.get_state()
        scores = self.gss.scores(learner, step.batch)
        learner.generator.set_state(state)
        subset = torch.randperm(len(self.gss.buffer), generator=learner.generator)
        subset = subset[: self.gss.subset]
        learner.generator.set_state(state)
        held = self.gss.buffer
        old = [
            self.gradient(
                learner, held.inputs[i], held.columns["labels"][i], held.columns["tasks"][i]
            )
            for i in subset
        ]
        batch = step.batch
        for i in range(len(batch)):
            new = self.gradient(learner, batch.x[i], batch.y[i], batch.task[i])
            cosines = [float(new @ g / (new.norm() * g.norm())) for g in old]
            assert float(scores[i]) == pytest.approx(max(cosines) + 1, abs=2e-5)
        self.compared += 1


@pytest.mark.parametrize("scenario", ["class", "task"])
def test_scores_of_gss_against_one_gradient_at_a_time(scenario: Any) -> None:
    gss = GSS(size=20, subset=4)
    watch = ByHand(gss)
    toy_run([watch, gss], toy_stream(scenario), max_epochs=1)
    assert watch.compared == 3 * 5 - 1
    assert len(gss.buffer) == 20


def test_gss_replaces_as_algorithm_2_says() -> None:
    held = torch.tensor([0.2, 1.0, 1.8, 0.0])
    generator = torch.Generator().manual_seed(0)
    # Of samples that come alone: P(i) C_i / (C_i + c) is how often place i is taken.
    c, draws = 0.5, 6000
    places = torch.cat([replaced(held, torch.tensor([c]), generator) for _ in range(draws)])
    expected = held / held.sum() * held / (held + c)
    taken = places.bincount(minlength=5)[:4] / draws
    assert torch.allclose(taken, expected, atol=4 * 0.5 / draws**0.5)
    assert taken[3] == 0
    # Those that are alike are refused, and of several for one place one stays.
    assert replaced(held, torch.tensor([1.0, 1.7]), generator).tolist() == [4, 4]
    many = replaced(held, torch.full((200,), 0.01), generator)
    assert many[many < 4].bincount().tolist() == [1, 1, 1]


def test_a_full_memory_of_gss_keeps_rows_together() -> None:
    gss = GSS(size=15, subset=4)
    stream = toy_stream("class")
    _, learner = toy_run([gss], stream)
    on_offer = {
        tuple(x): int(y)
        for e in stream
        for x, y in zip(
            e.data.gather(torch.arange(len(e.data))).tolist(), e.data.labels, strict=True
        )
    }
    held = gss.buffer.inputs[:15].tolist()
    assert [on_offer[tuple(x)] for x in held] == gss.buffer.column("labels").tolist()
    assert gss.buffer.column("similarity").min() < 1  # some took another's place
    some = of_each(learner, gss.buffer.sample(learner, 6))
    assert torch.allclose(cosines(some, some).diagonal(), torch.ones(6), atol=1e-5)
