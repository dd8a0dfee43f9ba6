"""A method attached to a plain loop gives the weights of clframe.fit, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from clframe.attached.checks import reason_against
from clframe.core.registry import discover
from clframe.data.sampler import epoch_order
from clframe.plugins import EWC, LwF, Replay
from clframe.strategies import compose
from tests.helpers import methods

REGISTRY = discover()
ATTACHABLE = [
    name for name in methods.METHODS if not reason_against(REGISTRY.get("plugin", name).factory)
]
NINE = ("agem", "der", "ewc", "lwf", "mas", "packnet", "replay", "si")


def test_the_nine_methods_attach() -> None:
    assert set(NINE) < set(ATTACHABLE)


@pytest.mark.parametrize("name", ATTACHABLE)
def test_a_plain_loop_ends_with_the_weights_of_fit(attaching: Any, name: str) -> None:
    scenarios = REGISTRY.get("plugin", name).factory.scenarios
    scenario = "class" if "class" in scenarios else scenarios[0]
    pair = attaching.Pair(lambda: [methods.make(name)], scenario)
    # Their parts weigh 1 : 2 and 16 : 5, which is exact in the loss and not behind it.
    assert attaching.equal(pair.by_hand(whole=name in ("lwf", "mir")), pair.expected)


@pytest.mark.parametrize("scenario", ["domain", "task"])
@pytest.mark.parametrize("strategy", ["online_ewc", "agem", "lwf"])
def test_other_scenarios(attaching: Any, strategy: str, scenario: Any) -> None:
    pair = attaching.Pair(lambda: compose(strategy, REGISTRY)[1], scenario)
    assert attaching.equal(pair.by_hand(whole=strategy == "lwf"), pair.expected)


def test_composed_plugins_act_together(attaching: Any) -> None:
    pair = attaching.Pair(lambda: [EWC(weight=10.0), Replay(size=20)], "class")
    assert attaching.equal(pair.by_hand(), pair.expected)


def test_terms_come_in_by_the_backward_pass_alone(attaching: Any) -> None:
    """Weights that are no powers of two round once more; with two experiences they are."""
    three = attaching.Pair(lambda: [LwF()], "class")
    by_hand = three.by_hand()
    for name, expected in three.expected.items():
        torch.testing.assert_close(by_hand[name], expected, rtol=1e-4, atol=1e-5)
    two = attaching.Pair(lambda: [LwF()], "class", 2)
    assert attaching.equal(two.by_hand(), two.expected)


@pytest.mark.parametrize("make", [Replay, LwF])
def test_a_data_loader_of_the_hosts(attaching: Any, make: Any) -> None:
    """The host's own loader over the same data: its batches are told with their positions."""
    pair = attaching.Pair(lambda: [make()], "class")

    class Order(torch.utils.data.Sampler[list[int]]):
        def __init__(self, experience: Any, cl: Any) -> None:
            self.experience, self.cl = experience, cl

        def __iter__(self) -> Iterator[list[int]]:
            n = len(self.experience.data)
            order = epoch_order(n, 0, self.experience.index, self.cl.epoch)
            return iter([part.tolist() for part in order.split(16)])

    model, optimizer, cl = pair.attached()
    with cl:
        for experience in pair.stream:
            data = experience.data
            samples = torch.utils.data.TensorDataset(
                data.source.to(torch.device("cpu")), data.labels
            )
            with cl.experience(experience.name, samples):
                loader = DataLoader(samples, batch_sampler=Order(experience, cl))
                for _ in range(2):
                    for x, y in cl.loader(loader):
                        optimizer.zero_grad()
                        cl.loss(torch.nn.functional.cross_entropy(model(x), y)).backward()
                        optimizer.step()
    assert attaching.equal(model.state_dict(), pair.expected)
