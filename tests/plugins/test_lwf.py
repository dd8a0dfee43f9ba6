from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from clframe import Learner, Plugin, SettingError, Stream, Term, hookimpl
from clframe.core.step import Step
from clframe.data.concat import JoinedData
from clframe.data.dataset import Data, MapData, TensorData, keep_inputs
from clframe.plugins.lwf import LwF
from clframe.run import set_up
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream


def third_experience(plugin: LwF, stream: Stream) -> tuple[Learner, torch.nn.Module, Step]:
    """A learner in its third experience, its old model, and a step on the new data."""
    learner = prepare_toy([plugin], stream).learner
    set_up(learner, stream, None)
    torch.manual_seed(1)
    for experience in stream.experiences[:2]:
        learner.begin(experience)
        learner.seen.append(experience)
    old = copy.deepcopy(learner.model)
    learner.begin(stream.experiences[2])
    learner.plugins.hook.before_experience(learner=learner, experience=stream.experiences[2])
    with torch.no_grad():
        for p in learner.parameters():
            p.add_(0.1 * torch.randn_like(p))
    data = stream.experiences[2].data
    batch = next(data.batches(torch.tensor([3, 0, 7, 8]), 4))
    return learner, old, learner.run_parts([batch])


def cross_entropy_of(q: list[float], p: list[float]) -> float:
    import math

    return -sum(a * math.log(b) for a, b in zip(q, p, strict=True) if a > 0)


def softmax(logits: list[float], temperature: float) -> list[float]:
    import math

    powers = [math.exp(z / temperature) for z in logits]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("temperature", [2.0, 0.5])
@pytest.mark.parametrize("weighting", ["van_de_ven", "paper"])
@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_distillation_by_hand(
    scenario: Any, weighting: Any, temperature: float, reduction: Any
) -> None:
    plugin = LwF(temperature=temperature, weighting=weighting, reduction=reduction)
    learner, old, step = third_experience(plugin, toy_stream(scenario))
    heads: list[tuple[list[int], list[int]]] = {  # units of the old model, units of the new one
        "task": [([0, 1], [0, 1]), ([2, 3], [2, 3])],
        "domain": [([0, 1], [0, 1])],
        "class": [([0, 1, 2, 3], [0, 1, 2, 3, 4, 5] if weighting != "paper" else [0, 1, 2, 3])],
    }[scenario]
    values = []
    for before, after in heads:
        for x in step.batch.x:
            q = softmax(old(x[None])[0, before].tolist(), temperature)
            p = softmax(learner.model(x[None])[0, after].tolist(), temperature)
            terms = cross_entropy_of(q + [0.0] * (len(p) - len(q)), p)
            values.append(terms / len(p) if reduction == "mean" else terms)
    mean = sum(values) / len(values)
    found = plugin.penalty(learner, step)
    if weighting == "paper":
        assert isinstance(found, torch.Tensor)
        assert found.item() == pytest.approx(mean * len(heads), rel=1e-5)
    else:
        assert isinstance(found, Term)
        assert found.weight == 2
        assert found.value.item() == pytest.approx(temperature**2 * mean, rel=1e-5)


def test_gradient_reaches_the_outputs_of_earlier_tasks() -> None:
    plugin = LwF()
    learner, _, step = third_experience(plugin, toy_stream("task"))
    term = plugin.penalty(learner, step)
    assert isinstance(term, Term)
    term.value.backward()
    gradient = learner.named_trainable()["head.weight"].grad
    assert gradient is not None
    assert (gradient[:4].abs().sum(1) > 0).all()
    assert (gradient[4:] == 0).all()


@pytest.mark.parametrize(("reduction", "outputs"), [("sum", 1), ("mean", 3)])
def test_heads_of_unequal_size(reduction: Any, outputs: int) -> None:
    plugin = LwF(reduction=reduction)
    learner, old, step = third_experience(plugin, toy_stream("task"))
    first, second = learner.stream.tasks[:2]
    object.__setattr__(first, "outputs", (0, 1, 2))
    object.__setattr__(second, "outputs", (3,))
    plugin._choose_outputs(learner, learner.stream.experiences[2])
    x = step.batch.x[:1]
    q = softmax(old(x)[0, :3].tolist(), 2.0)
    p = softmax(learner.model(x)[0, :3].tolist(), 2.0)
    # A head of one output has nothing to distil: its part of the mean over heads is 0.
    found = plugin.penalty(learner, learner.run_parts([_first(step.batch)]))
    assert isinstance(found, Term)
    assert found.value.item() == pytest.approx(4 * cross_entropy_of(q, p) / outputs / 2, rel=1e-5)


def _first(batch: Any) -> Any:
    return type(batch)(batch.x[:1], batch.y[:1], batch.task[:1])


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_kept_answers_equal_live_ones(scenario: Any) -> None:
    kept, live = LwF(), LwF(cache=False)
    learner, _, step = third_experience(kept, toy_stream(scenario))
    third_experience(live, toy_stream(scenario))
    assert torch.allclose(
        kept.targets(learner, step.batch), live.targets(learner, step.batch), atol=1e-6
    )
    assert kept.kept is not None
    assert live.kept is None
    with_cache, first = toy_run([LwF()], toy_stream(scenario))
    without, second = toy_run([LwF(cache=False)], toy_stream(scenario))
    assert with_cache.matrix.values == pytest.approx(without.matrix.values, abs=0.02)
    for p, q in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-3)


class Counted(torch.nn.Module):
    """Counts the samples that a model sees."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.samples = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.samples += len(x)
        out: torch.Tensor = self.inner(x)
        return out


def test_the_teacher_sees_each_sample_once() -> None:
    plugin = LwF()
    learner, _, _ = third_experience(plugin, toy_stream("class"))
    assert plugin.teacher is not None
    counted = plugin.teacher = Counted(plugin.teacher)
    data = learner.stream.experiences[2].data
    for _ in range(3):
        for batch in data.batches(torch.randperm(len(data)), 16):
            plugin.penalty(learner, learner.run_parts([batch]))
    assert counted.samples == len(data)


class Noise:
    """A transform that says it is random."""

    random = True

    def __call__(self, x: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)


def test_answers_to_random_inputs_are_not_kept() -> None:
    plugin = LwF()
    learner, _, _ = third_experience(plugin, toy_stream("class"))
    plain = torch.zeros(4, 8)
    for transform, keeps in ((Noise(), False), (keep_inputs, True)):
        data = TensorData(plain, torch.zeros(4, dtype=torch.long), 0, None, transform)
        plugin.targets(learner, next(data.batches(torch.arange(4), 4)))
        assert (plugin.kept is not None) == keeps


class Pairs:
    """A map-style data set."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(index)]), index


def test_batches_say_where_their_samples_come_from() -> None:
    x, y = torch.arange(6.0)[:, None], torch.arange(6)
    order = torch.tensor([4, 0, 5, 2])
    tensors = TensorData(x, y, 0, None, keep_inputs)
    joined = JoinedData([tensors.subset(y[:3]), tensors.subset(y[3:])])
    for data, repeatable in ((tensors, True), (MapData(Pairs(), y), False), (joined, True)):
        assert data.repeatable == repeatable
        for batch in data.batches(order, 3):
            assert batch.data is data
            assert batch.positions is not None
            assert torch.equal(batch.x[:, 0].long(), batch.positions)


class Doubling(Plugin):
    """Adds the first experience's data to every later one."""

    @hookimpl
    def extra_data(self, learner: Learner) -> Data | None:
        return learner.seen[0].data if learner.seen else None


def test_data_joined_by_another_plugin_is_answered_by_its_own_positions() -> None:
    class Checking(LwF):
        def targets(self, learner: Learner, batch: Any) -> torch.Tensor:
            found = super().targets(learner, batch)
            assert torch.allclose(found, self._answer(learner, batch.x, batch.task), atol=1e-5)
            return found

    _, learner = toy_run([Checking(), Doubling()], toy_stream("class"))
    assert len(learner.seen) == 3


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("weighting", ["van_de_ven", "paper"])
def test_contract(scenario: Any, weighting: Any) -> None:
    check_plugin(LwF(weighting=weighting), toy_stream(scenario))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingError, match=r"lwf\.temperature must be above 0"):
        LwF(temperature=0.0)


def test_the_papers_form_leaves_unseen_classes_out_even_where_all_outputs_compete() -> None:
    plugin = LwF(weighting="paper")
    learner, _, _ = third_experience(plugin, toy_stream("class"))
    learner.active_outputs = "all"
    plugin.before_experience(learner, learner.stream.experiences[2])
    assert plugin.units.tolist() == [[0, 1, 2, 3]]
    distils_all = LwF(weighting="van_de_ven")
    distils_all.before_experience(learner, learner.stream.experiences[2])
    assert distils_all.units.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_only_samples_of_the_experience_are_distilled() -> None:
    learner, _, step = third_experience(LwF(), toy_stream("class"))
    replayed = next(learner.stream.experiences[0].data.batches(torch.arange(5), 5))
    both = learner.run_parts([step.batch, replayed])
    alone = learner.plugins.hook.penalty(learner=learner, step=step)
    beside = learner.plugins.hook.penalty(learner=learner, step=both)
    torch.testing.assert_close(beside[0].value, alone[0].value)
