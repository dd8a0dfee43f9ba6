"""clframe as its users write it, with metrics and CSV logging on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from case import measure

import clframe
from clframe.core.registry import discover

STRATEGIES: dict[str, Any] = {
    "naive": "naive",
    "replay": {"replay": {"size": 2000, "policy": "class_balanced", "batch_size": 128}},
    "ewc": {"ewc": {"weight": 2.0, "fisher": "batch"}},
    "online_ewc": {"ewc": {"weight": 2.0, "fisher": "batch", "online": True, "gamma": 0.9}},
    "si": {"si": {"c": 1.0}},
    "lwf": {"lwf": {"weighting": "paper"}},
}


def run(method: str, data_dir: str, seed: int) -> list[float]:
    """Train on one pair of digits after the other."""
    with tempfile.TemporaryDirectory() as folder:
        result = clframe.fit(
            clframe.stream("split_mnist", data_dir=data_dir, scenario="class", normalize=True),
            STRATEGIES[method],
            {"name": "mlp", "hidden": [400, 400]},
            optimizer={"name": "sgd", "lr": 0.05},
            active_outputs="all",
            max_epochs=1,
            batch_size=128,
            seed=seed,
            run_dir=Path(folder) / "run",
        )
    return [float(value) for value in result.matrix.values[-1]]


if __name__ == "__main__":
    discover()  # imports on first use what others import at once
    measure(run)
