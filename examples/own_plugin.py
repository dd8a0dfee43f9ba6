"""Your own method: one class, checked by clframe, composed with other methods.

python examples/own_plugin.py
clframe fit plugin_path=examples/own_plugin.py strategy=drift+replay strategy.drift.weight=0.1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import clframe
from clframe import Plugin, hookimpl

if TYPE_CHECKING:
    from clframe import Experience, Learner


class Drift(Plugin):
    """Pulls the weights towards where the last experience left them.

    Args:
        weight: Strength of the pull.
    """

    state = ("anchor",)  # saved with a checkpoint and restored on resume

    def __init__(self, weight: float = 0.01) -> None:
        self.weight = weight
        self.anchor: list[torch.Tensor] = []

    @hookimpl
    def after_experience(self, learner: Learner, experience: Experience) -> None:
        """Remember the weights."""
        self.anchor = [p.detach().clone() for p in learner.parameters()]

    @hookimpl
    def penalty(self, learner: Learner) -> torch.Tensor | None:
        """Return a tensor to add to the step's loss."""
        if not self.anchor:
            return None
        pairs = zip(learner.parameters(), self.anchor, strict=True)
        return self.weight * sum((p - old).square().sum() for p, old in pairs)


def main(max_epochs: int = 2) -> dict[str, float]:
    """Check the plugin against the contract, then train with and without it."""
    from clframe.testing import check_plugin

    check_plugin(Drift())
    compositions = {"naive": "naive", "drift": Drift(), "drift+replay": [Drift(), "replay"]}
    accuracy = {}
    for name, strategy in compositions.items():
        result = clframe.fit(
            "split_mnist", strategy, max_epochs=max_epochs, run_dir=False, progress=False
        )
        accuracy[name] = result.metrics["gem"]["acc"]
        print(f"{name:<14}{accuracy[name]:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
