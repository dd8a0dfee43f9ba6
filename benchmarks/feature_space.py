"""Compare classifiers in a fixed feature space with methods that learn by steps, on equal inputs.

    python benchmarks/feature_space.py --data-dir DIR --out runs/feature_space --seeds 0 1 2

Class-incremental MNIST (raw pixels; five pairs of digits in an order drawn from the seed; methods
that learn by steps are in three_scenarios.md) and class-incremental CIFAR-10 on the frozen features
of an EfficientNet-Lite0 at 96 pixels (the extra ``pretrained``; computed once, some ten CPU
minutes, and kept in DIR; classes in their natural order, so that all seeds share them). DIR holds
both data sets (``clframe data get cifar10``; MNIST in MNIST/raw). Each cell is one ``clframe fit``;
see grid.py for what is run and kept.

    python benchmarks/feature_space.py --data-dir DIR --out runs/choose --choose --seeds 10

runs the values of CHOICES on a seed that is not in the table; ``--chosen runs/choose/table.json``
then takes the best of each method, and the defaults without it.
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
    "cifar10": ["stream=split_cifar10", "scenario=class", "model=frozen", "model.size=96"],
}
METHODS = {"mnist": ONE_PASS, "cifar10": (*ONE_PASS, *BY_STEPS)}
STEPS = ["model.hidden=[256]", "max_epochs=5", "trainer.batch_size=128"]
MEMORY = {
    "er": ["strategy.replay.per_class=100"],
    "der": ["strategy.der.size=1000"],
    "icarl": ["strategy.icarl.per_class=100"],
}
"""1,000 samples in all, for each method that stores any."""
CHOICES = {
    "ewc": [f"strategy.ewc.weight={weight}" for weight in ("1e2", "1e4", "1e6")],
    "lwf": [f"strategy.lwf.weight={weight}" for weight in (1, 10)],
    "er": [f"optimizer.lr={rate}" for rate in (1e-3, 1e-4)],
    "der": [f"strategy.der.alpha={alpha}" for alpha in (0.1, 0.5, 1.0)],
    "icarl": [f"optimizer.lr={rate}" for rate in (1e-3, 1e-4)],
}
"""What was tried, one setting of each method."""


def settings(data: str, method: str) -> list[str]:
    """The settings of one cell."""
    if method in BY_STEPS:
        name = {"joint": "cumulative"}.get(method, method)
        return [*STREAMS[data], f"strategy={name}", *STEPS, *MEMORY.get(method, ())]
    own = [*STREAMS[data], f"strategy={method}"]
    if data == "mnist" and method != "randumb":
        own.append(f"strategy.{method}.features=raw")
    if method == "fecam":  # features of Lite0 are below zero, too
        own.append("strategy.fecam.power=1" if data == "cifar10" else "strategy.fecam.power=0.5")
    if method == "randumb":
        # The paper has 25,000; this much is a minute.
        own.append("strategy.randumb.embedding=4000")
        own.append(f"strategy.randumb.features={'model' if data == 'cifar10' else 'raw'}")
    if method == "ranpac":
        own.append("strategy.ranpac.projection=4000")  # the paper has 10,000
    return own


def choices() -> dict[str, list[str]]:
    """The cells among which values are chosen."""
    return {
        f"cifar10_{method}@{number}": [*settings("cifar10", method), choice]
        for method, values in CHOICES.items()
        for number, choice in enumerate(values)
    }


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
    for method in METHODS[data]:
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


def tried(found: grid.Found) -> dict[str, dict[str, float]]:
    """By method and setting, what each value that was tried ended with."""
    finals: dict[str, dict[str, float]] = {}
    for cell, runs in sorted(found.items()):
        if "@" in cell:
            method, _, number = cell.removeprefix("cifar10_").partition("@")
            final = statistics.mean(statistics.mean(run["final"]) for run in runs.values())
            finals.setdefault(method, {})[CHOICES[method][int(number)]] = final
    return finals


def best(finals: dict[str, dict[str, float]]) -> dict[str, str]:
    """The best setting of each method.

    >>> best({"ewc": {"a=1": 0.2, "a=2": 0.3}})
    {'ewc': 'a=2'}
    """
    return {method: max(values, key=values.__getitem__) for method, values in finals.items()}


def tried_table(finals: dict[str, dict[str, float]]) -> str:
    """What was tried, in percent."""
    lines = ["| method | setting | final accuracy, % |", "| --- | --- | --- |"]
    for method, values in finals.items():
        lines += [f"| {method} | `{word}` | {100 * v:.2f} |" for word, v in values.items()]
    return "\n".join(lines)


CHOSEN = """Those of the methods by steps were
chosen on seed 10, which is not in the tables, by accuracy on the same test images."""
NOT_CHOSEN = "Nothing was\nchosen by trials, so EWC and LwF may have stronger settings."


def page(found: grid.Found, command: str, finals: dict[str, dict[str, float]]) -> str:
    """The results page."""
    return f"""# Learning in a fixed feature space

`{command}`, {datetime.date.today().isoformat()}; one thread per run on a machine that others used,
too, so that seconds are too many. Class-incremental, five experiences of two classes; final mean
accuracy over all classes. What each method is: [feature_space.md](../feature_space.md). `ranpac`
chooses its ridge on a fifth of each experience's training data.
Settings are the defaults, but for those that the script names. {CHOSEN if finals else NOT_CHOSEN}

## MNIST, raw pixels

Pairs of digits in an order drawn from the seed. RanDumb has 4,000 random features here (the paper
25,000). Methods that learn by steps, with the digits in their natural
order: [three_scenarios.md](three_scenarios.md)
(class: er 89.5, icarl 92.2, lwf 25.6, ewc 20.0, joint 98.2).

{table(found, "mnist")}

## CIFAR-10, frozen features

Features of an EfficientNet-Lite0 with ImageNet weights at 96 pixels, computed once (their time is
not in the table). The methods that learn by steps train a layer of 256 and the head on the same
features, five epochs per experience, and store 1,000 samples where they store any; `joint` learns
all data seen so far.

{table(found, "cifar10")}

Settings that were tried on seed 10:

{tried_table(finals) if finals else "None were."}

The values of each run are in `feature_space.json`.
"""


def main() -> None:
    """Run what is missing and write the tables."""
    parser = grid.parser(__doc__, "runs/feature_space")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--data", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    parser.add_argument("--methods", nargs="+", default=[*ONE_PASS, *BY_STEPS])
    parser.add_argument("--choose", action="store_true", help="run CHOICES instead")
    parser.add_argument("--markdown", type=Path, help="write the page here, its numbers next to it")
    parser.add_argument("--chosen", type=Path, help="table.json of a run with --choose")
    arguments = parser.parse_args()
    finals = tried(grid.read_known(arguments.chosen))
    taken = best(finals)
    cells = {
        f"{data}_{method}": [*settings(data, method), *([taken[method]] if method in taken else [])]
        for data in arguments.data
        for method in METHODS[data]
        if method in arguments.methods
    }
    if arguments.choose:
        cells = choices()
    known = grid.read_known(arguments.known)
    extra = [f"data_dir={arguments.data_dir}", *arguments.set]
    grid.run_all(cells, arguments.seeds, known, arguments.out, arguments.jobs, extra)
    found = grid.collect(arguments.out, known, measure)
    text = "\n\n".join(table(found, data) for data in STREAMS)
    text = tried_table(tried(found)) if arguments.choose else text
    print(text)
    grid.write(arguments.out, found, text, "feature_space.py")
    if arguments.markdown:
        words = [w if w != arguments.data_dir else "DIR" for w in sys.argv[1:]]
        command = shlex.join(["python", "benchmarks/feature_space.py", *words])
        arguments.markdown.write_text(page(found, command, finals))
        numbers = arguments.markdown.with_suffix(".json")
        numbers.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
