"""Avalanche as its documentation shows it: metrics, and loggers that print and save."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from avalanche.benchmarks.classic import SplitMNIST
from avalanche.evaluation.metrics import (
    accuracy_metrics,
    forgetting_metrics,
    loss_metrics,
    timing_metrics,
)
from avalanche.logging import CSVLogger, InteractiveLogger
from avalanche.models import SimpleMLP
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import EWC, LwF, Naive, Replay, SynapticIntelligence
from case import measure

STRATEGIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "naive": (Naive, {}),
    "replay": (Replay, {"mem_size": 2000}),
    "ewc": (EWC, {"ewc_lambda": 1.0, "mode": "separate"}),
    "online_ewc": (EWC, {"ewc_lambda": 1.0, "mode": "online", "decay_factor": 0.9}),
    "si": (SynapticIntelligence, {"si_lambda": 1.0}),
    "lwf": (LwF, {"alpha": 1.0, "temperature": 2.0}),
}


def run(method: str, data_dir: str, seed: int) -> list[float]:
    """Train on one pair of digits after the other."""
    with tempfile.TemporaryDirectory() as folder:
        # With its own transform, which normalises; the others do so, too.
        benchmark = SplitMNIST(5, fixed_class_order=list(range(10)), dataset_root=data_dir)
        model = SimpleMLP(num_classes=10, hidden_size=400, hidden_layers=2, drop_rate=0.0)
        evaluation = EvaluationPlugin(
            accuracy_metrics(minibatch=True, epoch=True, experience=True, stream=True),
            loss_metrics(minibatch=True, epoch=True, experience=True, stream=True),
            timing_metrics(epoch=True),
            forgetting_metrics(experience=True, stream=True),
            loggers=[InteractiveLogger(), CSVLogger(log_folder=str(Path(folder) / "log"))],
        )
        make, settings = STRATEGIES[method]
        strategy = make(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
            criterion=torch.nn.CrossEntropyLoss(),
            train_mb_size=128,
            train_epochs=1,
            eval_mb_size=128,
            evaluator=evaluation,
            **settings,
        )
        results: dict[str, float] = {}
        for experience in benchmark.train_stream:
            strategy.train(experience)
            results = strategy.eval(benchmark.test_stream)
    name = "Top1_Acc_Exp/eval_phase/test_stream/Task000/Exp{:03d}"
    return [float(results[name.format(number)]) for number in range(5)]


if __name__ == "__main__":
    measure(run)
