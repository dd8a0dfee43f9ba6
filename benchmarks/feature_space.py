"""Classifiers in a fixed feature space beside methods that learn by steps, on the same inputs.

    python benchmarks/feature_space.py --data-dir DIR --out runs/feature_space --seeds 0 1 2

Class-incremental MNIST (raw pixels; five pairs of digits in an order drawn from the seed) and
class-incremental CIFAR-10 on the frozen features of an EfficientNet-Lite0 at 96 pixels (the extra
``pretrained``; computed once, some six CPU minutes, and kept in DIR). DIR holds both data sets
(``clframe data get mnist``, ``clframe data get cifar10``). Each cell is one ``clframe fit``; see
grid.py for what is run and kept.
"""

from __future__ import annotations

import datetime
import json
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

import grid

ONE_PASS = ("ncm", "slda", "fecam", "ranpac", "randumb")
BY_STEPS = ("naive", "ewc", "lwf", "er", "der", "icarl", "joint")
STREAMS = {
    "mnist": ["stream=split_mnist", "scenario=class", "stream.class_order=shuffled"],
    "cifar10": [
        *("stream=split_cifar10", "scenario=class", "stream.class_order=shuffled"),
        *("model=frozen", "model.size=96"),
    ],
}
STEPS = {
    # As the published protocol of each table: 2,000 steps of 128.
    "mnist": ["model.hidden=[400,400]", "max_epochs=null", "trainer.max_steps=2000"],
    "cifar10": ["model.hidden=[256]", "max_epochs=5"],
}


def settings(data: str, method: str) -> list[str]:
    """The settings of one cell."""
    if method in BY_STEPS:
        name = {"joint": "cumulative"}.get(method, method)
        return [*STREAMS[data], f"strategy={name}", *STEPS[data], "trainer.batch_size=128"]
    own = [*STREAMS[data], f"strategy={method}"]
    if data == "mnist" and method != "randumb":
        own.append(f"strategy.{method}.features=raw")
    if method == "fecam":  # features of Lite0 are below zero, too
        own.append("strategy.fecam.power=1" if data == "cifar10" else "strategy.fecam.power=0.5")
    if data == "cifar10" and method == "randumb":
        own.append("strategy.randumb.features=model")
    return own


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run."""
    values = results["matrix"]["values"]
    return {
        "final": values[-1],
        "train_seconds": round(results["timing"]["train_seconds"], 1),
        "eval_seconds": round(results["timing"]["eval_seconds"], 1),
        "source": results["source"],
    }


def table(found: grid.Found, data: str) -> str:
    """One row per method."""
    lines = [
        "| method | passes | final accuracy of each seed, % | mean | seconds of learning, median |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method in (*ONE_PASS, *BY_STEPS):
        runs = list(found.get(f"{data}_{method}", {}).values())
        if not runs:
            continue
        finals = [100 * statistics.mean(run["final"]) for run in runs]
        seconds = statistics.median(run["train_seconds"] for run in runs)
        passes = "one" if method in ONE_PASS else "many"
        each = ", ".join(f"{value:.1f}" for value in finals)
        lines.append(
            f"| {method} | {passes} | {each} | {statistics.mean(finals):.2f} | {seconds:.0f} |"
        )
    return "\n".join(lines)


def page(found: grid.Found, command: str) -> str:
    """The results page."""
    return f"""# Learning in a fixed feature space

`{command}`, {datetime.date.today().isoformat()}; one thread per run. Class-incremental, five
experiences of two classes in an order drawn from the seed; final mean accuracy over all classes.
What each method is: [feature_space.md](../feature_space.md). `joint` learns all data seen so far.
All settings are the defaults, but those that the script names; none was chosen on test images.
`ranpac` chooses its ridge on a fifth of each experience's training data.

## MNIST, raw pixels

One-pass methods take pixels as they are; the others train a perceptron of two layers of 400 by
2,000 steps of 128 per experience.

{table(found, "mnist")}

## CIFAR-10, frozen features

Features of an EfficientNet-Lite0 with ImageNet weights at 96 pixels, computed once (their time
is not in the table). The others train a layer of 256 and the head on the same features, five epochs
per experience.

{table(found, "cifar10")}

The values of each run are in `feature_space.json`.
"""


def main() -> None:
    """Run what is missing and write the tables."""
    parser = grid.parser(__doc__, "runs/feature_space")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--data", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    parser.add_argument("--methods", nargs="+", default=[*ONE_PASS, *BY_STEPS])
    parser.add_argument("--markdown", type=Path, help="write the page here, its numbers beside it")
    arguments = parser.parse_args()
    cells = {
        f"{data}_{method}": settings(data, method)
        for data in arguments.data
        for method in arguments.methods
    }
    known = grid.read_known(arguments.known)
    extra = [f"data_dir={arguments.data_dir}", *arguments.set]
    grid.run_all(cells, arguments.seeds, known, arguments.out, arguments.jobs, extra)
    found = grid.collect(arguments.out, known, measure)
    text = "\n\n".join(table(found, data) for data in STREAMS)
    print(text)
    grid.write(arguments.out, found, text, "feature_space.py")
    if arguments.markdown:
        words = [w if w != arguments.data_dir else "DIR" for w in sys.argv[1:]]
        command = shlex.join(["python", "benchmarks/feature_space.py", *words])
        arguments.markdown.write_text(page(found, command))
        numbers = arguments.markdown.with_suffix(".json")
        numbers.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
