"""The hand-written loop: tensors in memory, five pairs of digits, a test after each."""

from __future__ import annotations

import torch
import torchvision
from case import measure
from torch import nn
from torch.nn import functional


def images(pixels: torch.Tensor) -> torch.Tensor:
    """Normalised as is usual for MNIST."""
    return pixels.float().div_(255.0).sub_(0.1307).div_(0.3081)


def run(method: str, data_dir: str, seed: int) -> list[float]:
    """Train on one pair of digits after the other."""
    sets = [torchvision.datasets.MNIST(data_dir, train, download=True) for train in (True, False)]
    (x, y), (test_x, test_y) = [(s.data.flatten(1), s.targets) for s in sets]
    pairs = [(2 * i, 2 * i + 1) for i in range(5)]
    train = [torch.isin(y, torch.tensor(pair)).nonzero().squeeze(1) for pair in pairs]
    test = [torch.isin(test_y, torch.tensor(pair)).nonzero().squeeze(1) for pair in pairs]
    model = nn.Sequential(
        nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    row: list[float] = []
    for indices in train:
        for chosen in indices[torch.randperm(len(indices))].split(128):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images(x[chosen])), y[chosen])
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            row = []
            for indices in test:
                hits = torch.zeros(())
                for chosen in indices.split(1024):
                    logits = model(images(test_x[chosen]))
                    hits += (logits.argmax(1) == test_y[chosen]).sum()
                row.append(float(hits) / len(indices))
    return row


if __name__ == "__main__":
    measure(run)
