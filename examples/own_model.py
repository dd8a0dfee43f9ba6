"""A network of your own, and a LightningModule that brings its loss and optimizer along.

python examples/own_model.py
"""

from __future__ import annotations

import lightning
import torch
from torch import nn
from torch.nn import functional

import clframe


class Net(nn.Module):
    """Any module with one logit per output; clframe brings loss and optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the ten digits."""
        return self.layers(x)


class Lit(lightning.LightningModule):
    """Brings its own loss (with label smoothing) and optimizer; plugins act on both."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the ten digits."""
        return self.net(x)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        """The loss of a batch, with its logits for the classes that compete."""
        x, y = batch
        return functional.cross_entropy(self(x), y, label_smoothing=0.1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer of all experiences."""
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(max_epochs: int = 3) -> dict[str, float]:
    """The same strategy with both."""
    accuracy = {}
    for model in (Net(), Lit()):
        result = clframe.fit(
            "split_mnist",
            ["lwf", "replay"],
            model=model,
            max_epochs=max_epochs,
            run_dir=False,
            progress=False,
        )
        accuracy[type(model).__name__] = result.metrics["gem"]["acc"]
        print(f"{type(model).__name__:<5}{result.metrics['gem']['acc']:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
