"""CPU time of Avalanche's training iterations as a stream of permuted images goes by."""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import torch
from avalanche.benchmarks import tensors_benchmark
from avalanche.models import SimpleMLP
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche_lib import STRATEGIES

STEPS, BATCH = 5, 128


def images(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up images with labels: what is measured does not depend on their content."""
    generator = torch.Generator().manual_seed(number)
    x = torch.rand(STEPS * BATCH, 1, 28, 28, generator=generator)
    y = torch.randint(0, 10, (STEPS * BATCH,), generator=generator)
    return x, y


class Clock(SupervisedPlugin):  # type: ignore[misc]
    """CPU milliseconds of each iteration, by experience; reading data is not in it."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[int, list[float]] = {}
        self.started = 0.0

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Begin to count."""
        self.started = time.process_time()

    def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Note what it took."""
        taken = 1e3 * (time.process_time() - self.started)
        self.taken.setdefault(strategy.clock.train_exp_counter, []).append(taken)


def main() -> None:
    """Print, as a line of JSON, the milliseconds after each of the given numbers."""
    method, counts = sys.argv[1], [int(n) for n in sys.argv[2:]]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sets = [images(n) for n in range(counts[-1] + 1)]
    benchmark = tensors_benchmark(sets, sets[:1], task_labels=[0] * len(sets))
    model = SimpleMLP(num_classes=10, hidden_size=400, hidden_layers=2, drop_rate=0.0)
    make, settings = STRATEGIES[method]
    clock = Clock()
    strategy = make(
        model=model,
        optimizer=torch.optim.Adam(model.parameters()),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=BATCH,
        train_epochs=1,
        evaluator=EvaluationPlugin(),
        plugins=[clock],
        **settings,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    # Neighbouring experiences steady the figure.
    ms = [
        statistics.median(t for k in range(n - 1, n + 2) for t in clock.taken.get(k, []))
        for n in counts
    ]
    print(json.dumps({"ms": ms, "ratio": ms[-1] / ms[0]}))


if __name__ == "__main__":
    main()
