"""Naive learning, EWC and replay on split MNIST, and a plot of their matrices.

python examples/replay_and_ewc.py matrix.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

import clframe

STRATEGIES = {"naive": "naive", "ewc": "EWC", "er": "experience replay"}


def main(out: str | Path = "matrix.png", max_epochs: int = 5, scenario: str = "class") -> Path:
    """Learn the stream with each strategy and draw the train-test matrices side by side."""
    results = {
        name: clframe.fit(
            "split_mnist",
            name,
            scenario=scenario,
            max_epochs=max_epochs,
            run_dir=False,
            progress=False,
        )
        for name in STRATEGIES
    }
    pyplot.rcParams["svg.hashsalt"] = "clframe"
    figure, axes = pyplot.subplots(1, len(results), figsize=(11, 4.2), layout="constrained")
    for axis, (name, result) in zip(axes, results.items(), strict=True):
        values = result.matrix.learned
        image = axis.imshow(values, cmap="viridis", vmin=0, vmax=1)
        for (row, column), value in zip(
            [(i, j) for i in range(len(values)) for j in range(len(values[0]))],
            values.flat,
            strict=True,
        ):
            axis.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                color="black" if value > 0.6 else "white",
                fontsize=9,
            )
        tasks = result.matrix.columns
        axis.set_xticks(range(len(tasks)), tasks)
        axis.set_yticks(range(len(tasks)), [f"after {task}" for task in tasks])
        if axis is not axes[0]:
            axis.set_yticklabels([])
        axis.set_xlabel("tested on")
        final = result.metrics["gem"]["acc"]
        axis.set_title(f"{STRATEGIES[name]}\n{final:.2f} on average at the end", fontsize=11)
    figure.colorbar(image, ax=axes, label="accuracy", shrink=0.8)
    figure.savefig(out, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return Path(out)


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
