"""The virtual GPU itself: what it refuses, what it counts, and that it catches stray tensors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clframe import Batch, Learner, Plugin, Step, hookimpl
from clframe.core.stream import Stream
from clframe.testing import toy_run, toy_stream
from tests.helpers.card import StrayTensorError as Stray
from tests.helpers.virtual_device import on_card, virtual_card


def test_tensors_say_where_they_are_and_keep_their_place() -> None:
    with virtual_card():
        x = torch.zeros(3, device="cuda")
        assert x.device == torch.device("cuda", 0)
        assert x.is_cuda
        for made in (x[1:], x + 1, x.clone(), x.new_zeros(2), torch.ones_like(x), x.double()):
            assert on_card(made)
        assert on_card(copy.deepcopy(x))
        assert on_card(torch.tensor([1.0], device=x.device))
        assert on_card(torch.arange(3).to(x))
        assert not on_card(x.cpu())
        assert not on_card(torch.zeros(3))
        layer = nn.Linear(3, 2).to("cuda")
        layer(x).sum().backward()
        assert on_card(layer.weight.grad)
    assert torch.zeros(1).device.type == "cpu"
    assert not torch.cuda.is_available() or torch.cuda.get_device_name() != "virtual card"


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: x + torch.zeros(3),
        lambda x: torch.cat([x, torch.zeros(3)]),
        lambda x: torch.zeros(3).add_(x),
        lambda x: torch.zeros(()).add_(x.sum()),
        lambda x: torch.zeros(3)[torch.zeros(1, dtype=torch.long, device="cuda")],
        lambda x: x.index_select(0, torch.tensor([0])),
        lambda x: nn.functional.linear(x, torch.ones(2, 3)),
        lambda x: torch.equal(x, torch.zeros(3)),
        lambda x: torch.randn(2, device="cuda", generator=torch.Generator()),
        lambda x: torch.randn(2, generator=torch.Generator(device="cuda")),
    ],
)
def test_devices_do_not_mix(mix: Any) -> None:
    with virtual_card():
        x = torch.zeros(3, device="cuda")
        with pytest.raises(Stray, match="Expected"):
            mix(x)
        with torch.inference_mode(), pytest.raises(Stray, match="Expected"):
            mix(torch.zeros(3, device="cuda"))


def test_numbers_of_the_host_and_copies_are_allowed() -> None:
    with virtual_card() as card:
        x = torch.zeros(3, device="cuda")
        x = x * torch.tensor(2.0) + 1
        assert on_card(x)
        assert not card.waits
        x.copy_(torch.ones(3))
        with pytest.raises(TypeError, match="to host memory first"):
            x.numpy()


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: bool((x > 0).any()), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: x[[0, 1]], 1),
        (lambda x: x[torch.tensor([0, 1])], 1),
        (lambda x: torch.ones(3).to(x), 1),
        (lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True), 0),
        (lambda x: torch.where(x > 0, x, 0.0).sum(), 0),
        (lambda x: x.masked_fill(x > 0, 1.0), 0),
        (lambda x: nn.functional.one_hot(x.long(), 4), 0),
        (lambda x: x[1:] + 1, 0),
    ],
)
def test_waits_are_counted(read: Any, count: int) -> None:
    with virtual_card() as card:
        x = torch.ones(3, device="cuda")
        card.waits.clear()
        read(x)
        assert len(card.waits) == count, card.waits


def test_draws_on_the_card_move_its_own_state() -> None:
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with virtual_card():
        torch.cuda.manual_seed(7)
        state = torch.cuda.get_rng_state()
        first = nn.functional.dropout(torch.ones(50, device="cuda"))
        torch.cuda.set_rng_state(state)
        assert first.tolist() == nn.functional.dropout(torch.ones(50, device="cuda")).tolist()
    assert torch.equal(torch.rand(2), expected)


class Wrong(Plugin):
    """Keeps a tensor on the host and uses it with the model's."""

    def __init__(self, place: str = "") -> None:
        self.place = place

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        self.prior = torch.zeros(stream.n_outputs)
        self.generator = torch.Generator().manual_seed(0)

    @hookimpl
    def penalty(self, step: Step) -> Tensor | None:
        return (step.outputs[0].tanh() - self.prior).mean() if self.place == "penalty" else None

    @hookimpl
    def extra_batches(self, batch: Batch) -> Batch | None:
        if self.place != "extra_batches":
            return None
        kept = batch.x.cpu()
        return Batch(kept, batch.y, batch.task)

    @hookimpl
    def after_backward(self, learner: Learner) -> None:
        for parameter in learner.parameters():
            if self.place == "after_backward" and parameter.grad is not None:
                noise = torch.randn(parameter.shape, generator=self.generator)
                parameter.grad.add_(noise)
            if self.place == "generator":
                torch.randn(3, device=parameter.device, generator=self.generator)

    @hookimpl
    def predict(self, learner: Learner, x: Any, task: Any) -> Tensor | None:
        return learner.predict(x, task) + self.prior if self.place == "predict" else None


@pytest.mark.parametrize(
    "place", ["penalty", "extra_batches", "after_backward", "generator", "predict"]
)
def test_a_stray_tensor_of_a_plugin_is_caught(place: str) -> None:
    options = {"max_epochs": 1, "batch_size": 4}
    toy_run([Wrong(place)], toy_stream("task", 2, samples=4), accelerator="cpu", **options)
    with virtual_card(), pytest.raises(Stray, match="Expected"):
        toy_run([Wrong(place)], toy_stream("task", 2, samples=4), accelerator="cuda", **options)


class Curious(Plugin):
    """Looks at the loss in every step."""

    @hookimpl
    def after_step(self, step: Step) -> None:
        self.loss = float(step.loss.detach())  # type: ignore[union-attr]


def test_a_plugin_that_waits_in_every_step_is_found() -> None:
    with virtual_card() as card:
        stream = toy_stream("task", 2, samples=8)
        toy_run([Curious()], stream, accelerator="cuda", max_epochs=1, batch_size=4)
        assert card.per_step() == {"loop.py:step _local_scalar_dense": 1.0}
