"""A plain training loop with a strategy attached, beside the same strategy in clframe's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import clframe
from clframe.attached.session import Attachment
from clframe.core.stream import Scenario, Stream
from clframe.testing import prepare_toy, run_built, toy_stream

Weights = dict[str, Tensor]
EPOCHS = 2
BATCH = 16


def own_batches(cl: Attachment, experience: Any) -> Iterator[Any]:
    return cl.batches()


def plain_loop(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    cl: Attachment,
    stream: Stream,
    batches: Callable[[Attachment, Any], Iterator[Any]] = own_batches,
    whole: bool = False,
) -> None:
    """What anybody writes, but for the two lines that say where an experience begins and ends."""
    for experience in stream:
        with cl.experience(experience.name, experience.data):
            for _ in range(EPOCHS):
                for x, y in batches(cl, experience):
                    optimizer.zero_grad()
                    loss = functional.cross_entropy(model(x), y)
                    if whole:
                        loss = cl.loss(loss)
                    loss.backward()
                    optimizer.step()


def settings_of(stream: Stream) -> dict[str, Any]:
    """What attach has to know to do as clframe.fit does on this stream."""
    tasks = [task.outputs for task in stream.tasks]
    return {
        "scenario": stream.scenario,
        "tasks": tasks if stream.scenario == "task" else 20,
        "batch_size": BATCH,
        "max_epochs": EPOCHS,
    }


def adam(model: nn.Module) -> torch.optim.Optimizer:
    """As clframe makes it for prepare_toy."""
    return torch.optim.Adam(model.parameters(), lr=0.01, fused=True)


class Pair:
    """One stream, one beginning; a run of clframe's own, and models to train by hand.

    Args:
        plugins: Makes the strategy.
        scenario: Of the toy stream.
        n_experiences: Of the toy stream.
    """

    def __init__(
        self, plugins: Callable[[], list[Any]], scenario: Scenario, n_experiences: int = 3
    ) -> None:
        self.plugins = plugins
        self.stream = toy_stream(scenario, n_experiences)
        built = prepare_toy(plugins(), self.stream, max_epochs=EPOCHS, batch_size=BATCH)
        self.start = copy.deepcopy(built.learner.model)
        run_built(built)
        self.expected: Weights = built.learner.model.state_dict()

    def attached(self, **settings: Any) -> tuple[nn.Module, torch.optim.Optimizer, Attachment]:
        """A model as it was at the beginning, with the strategy attached."""
        model = copy.deepcopy(self.start).train()
        optimizer = adam(model)
        values = {**settings_of(self.stream), **settings}
        return model, optimizer, clframe.attach(model, optimizer, self.plugins(), **values)

    def by_hand(self, **loop: Any) -> Weights:
        """What the plain loop ends with."""
        model, optimizer, cl = self.attached()
        with cl:
            plain_loop(model, optimizer, cl, self.stream, **loop)
        return model.state_dict()


def equal(one: Weights, other: Weights) -> bool:
    """Whether all weights are the same to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.fixture(scope="session")
def attaching() -> Any:
    """The helpers of this file, for the tests beside it."""
    from types import SimpleNamespace

    return SimpleNamespace(
        Pair=Pair, equal=equal, plain_loop=plain_loop, adam=adam, settings_of=settings_of
    )
