"""A-GEM as the program behind the 2022 table runs it, as a plain loop, next to clframe's plugin.

    python benchmarks/agem_form.py --data-dir DIR --seeds 0 1 2 3 4

Class-incremental split MNIST of van de Ven et al. (2022), written from the form of their program
without anything of clframe's training: ten logits that compete from the start, 2,000 steps of 128
samples for each pair of digits, Adam, 100 random samples of each class, of which 128 are taken per
step without repetition, and ``g - g.r / (r.r + 1e-7) r`` where ``g.r < 0``. Pairs and their order
are those of ``experiment=three_scenarios/agem scenario=class`` with the same seed; weights and
batches are drawn by the loop's own generator. One line per seed is printed: the final accuracy.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import clframe

STEPS, BATCH, PER_CLASS, EPSILON = 2000, 128, 100, 1e-7

Samples = tuple[Tensor, Tensor]


def batches(x: Tensor, y: Tensor) -> Iterator[Samples]:
    """Shuffled batches without end, each pass without its last, smaller one."""
    while True:
        order = torch.randperm(len(x))
        for part in order.split(BATCH):
            if len(part) == min(BATCH, len(x)):
                yield x[part], y[part]


def gradient(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the mean cross-entropy, all parameters in one vector."""
    loss = functional.cross_entropy(model(x), y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, now: Samples, kept: Samples) -> None:
    """One pair of digits."""
    current = batches(*now)
    remembered = batches(*kept) if len(kept[0]) else None
    for _ in range(STEPS):
        g = gradient(model, *next(current))
        if remembered is not None:
            r = gradient(model, *next(remembered))
            across = g @ r
            if across < 0:
                g = g - across / (r @ r + EPSILON) * r
        place = 0
        for parameter in model.parameters():
            parameter.grad = g[place : place + parameter.numel()].view_as(parameter)
            place += parameter.numel()
        optimizer.step()


def run(data_dir: Path, seed: int) -> float:
    """The final mean accuracy over the five pairs, in per cent."""
    stream = clframe.stream(
        "split_mnist", data_dir=data_dir, seed=seed, n_experiences=5, class_order="shuffled"
    )
    torch.manual_seed(seed)
    sizes = (784, 400, 400, 10)
    layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.999))
    kept = (torch.empty(0, 784), torch.empty(0, dtype=torch.long))
    for experience in stream.experiences:
        x, y = samples_of(experience.data)
        learn(model, optimizer, (x, y), kept)
        for label in y.unique():
            places = (y == label).nonzero().flatten()
            chosen = places[torch.randperm(len(places))[:PER_CLASS]]
            kept = (torch.cat([kept[0], x[chosen]]), torch.cat([kept[1], y[chosen]]))
    accuracies: list[float] = []
    with torch.no_grad():
        for task in stream.tasks:
            x, y = samples_of(task.data)
            accuracies.append((model(x).argmax(1) == y).float().mean().item())
    return 100 * statistics.mean(accuracies)


def samples_of(data: clframe.Data) -> Samples:
    """All inputs as rows, and labels."""
    batch = next(data.batches(torch.arange(len(data)), len(data)))
    return batch.x.flatten(1), batch.y


def main() -> None:
    """Run the seeds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    finals = []
    for seed in arguments.seeds:
        finals.append(run(arguments.data_dir, seed))
        print(f"seed {seed}: {finals[-1]:.2f}", flush=True)
    spread = f", standard deviation {statistics.stdev(finals):.2f}" if len(finals) > 1 else ""
    print(f"mean {statistics.mean(finals):.2f}{spread}")


if __name__ == "__main__":
    main()
