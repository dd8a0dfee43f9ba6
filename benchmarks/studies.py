"""LIBERO's studies at a size for a CPU: one command each, with a table and a figure.

    python benchmarks/studies.py orders|pretraining|loss_vs_success|algorithms|policies
        [--out runs/studies] [--seeds 0 1 2] [--page docs/results/tabletop_studies.md]

What is run is `experiment=tabletop_studies/small` (three tasks, a perceptron that observes the
state) with other settings, for ``policies`` `experiment=tabletop_studies/images`. The table is
printed and the figure written to the output folder. With ``--page`` the measured values are kept
in a JSON file next to the page, the figure is put there, and the page is made again of all studies
that have values. The studies at the paper's size are experiments: docs/tabletop.md names them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grid
import robot_grid
import studies_figures as figures

SMALL = ["experiment=tabletop_studies/small", "stream.goal_seed=3"]
METHODS = {
    "naive": ["strategy=[naive,best_checkpoint]"],
    "er": [
        *("strategy=[er,best_checkpoint]", "strategy.replay.per_class=1000"),
        "strategy.replay.weighting=samples",
    ],
    "ewc": ["strategy=[ewc,best_checkpoint]"],
    "packnet": ["strategy=[packnet,best_checkpoint]", "strategy.packnet.prune=0.75"],
    "multitask": [
        *("strategy=multitask", "evaluation.check_val_every_n_epoch=null"),
        "evaluation.evaluate_every=3",
    ],
}
ORDERS = ("default", "reversed", "odd_then_even")
PRETRAINED = "pretraining_ninety"
"""The cell whose run the others of its study start from."""
# A head for all tasks and an instruction of fixed length, so that weights fit another suite.
_MOVABLE = ["model.heads=shared", "stream.task_input=language", "stream.layout=common"]
COLUMNS = ("fwt", "nbt", "auc", "final")


@dataclass(frozen=True)
class Study:
    """One study.

    Args:
        title: Of its section.
        words: What it asks and what LIBERO found.
        cells: What is run, by the name of a cell, given the output folder and a seed.
        figure: Draws what was measured.
        first: A cell that the others need.
        table: Its table.
    """

    title: str
    words: str
    cells: Callable[[Path, int], dict[str, list[str]]]
    figure: Callable[[grid.Found], Any]
    table: Callable[[grid.Found], str]
    first: str | None = None


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run."""
    matrix, timing = results["matrix"], results["timing"]
    libero = results["metrics"].get("libero", {})
    rows = zip(matrix["rows"], matrix["values"], strict=True)
    values = [row for name, row in rows if name != "before"]
    return {
        "columns": matrix["columns"],
        "values": values,
        "curves": [next(iter(tasks.values())) for tasks in results["curves"].values()],
        "validation": results["metrics"].get("validation", {}).get("losses"),
        "libero": {
            **{name: libero.get(name) for name in ("fwt", "nbt", "auc")},
            "final": statistics.mean(v for v in values[-1] if v is not None),
        },
        "seconds": round(timing["train_seconds"] + timing["eval_seconds"], 1),
        "source": results["source"],
    }


# ------------------------------------------------------------ the studies


def orders(out: Path, seed: int) -> dict[str, list[str]]:
    """Experience replay and PackNet over three orders."""
    return {
        f"orders_{method}-{order}": [*SMALL, *METHODS[method], f"stream.order={order}"]
        for method in ("er", "packnet")
        for order in ORDERS
    }


def pretraining(out: Path, seed: int) -> dict[str, list[str]]:
    """Ten of the ninety at once, then the three tasks with and without these weights."""
    ninety = [
        *("experiment=tabletop_studies/small", "stream.goal_seed=3", *_MOVABLE),
        *("stream=tabletop_90", f"stream.tasks={list(range(0, 90, 9))}"),
        *("strategy=multitask", "evaluation.check_val_every_n_epoch=null"),
        *("evaluation.evaluate_every=10", "stream.eval_episodes=2"),
    ]
    weights = f"pretrain={out.resolve() / PRETRAINED / f's{seed}'}"
    return {
        PRETRAINED: ninety,
        **{
            f"pretraining_{method}-{how}": [*SMALL, *METHODS[method], *_MOVABLE, *more]
            for method in ("naive", "er")
            for how, more in (("scratch", []), ("pretrained", [weights]))
        },
    }


def loss_vs_success(out: Path, seed: int) -> dict[str, list[str]]:
    """Sequential learning, measured every three epochs, a third of the demonstrations held out."""
    often = ["evaluation.check_val_every_n_epoch=3", "stream.val_demos=10"]
    return {"loss_naive": [*SMALL, *METHODS["naive"], *often]}


def algorithms(out: Path, seed: int) -> dict[str, list[str]]:
    """The algorithms of Table 2."""
    return {f"algorithms_{name}": [*SMALL, *settings] for name, settings in METHODS.items()}


def policies(out: Path, seed: int) -> dict[str, list[str]]:
    """The three policies of Table 1, from images."""
    base = ["experiment=tabletop_studies/images", "stream.goal_seed=3"]
    # What each takes of the stem that is faster and of the head that learns in fewer steps.
    helped = {
        "resnet_rnn": ["model.stem=patch"],
        "resnet_t": ["model.stem=patch", "model.readout=all"],
        "vit_t": ["model.readout=all"],
    }
    return {f"policies_{m}": [*base, f"model={m}", *words] for m, words in helped.items()}


def metric_table(found: grid.Found) -> str:
    """FWT, NBT, AUC and the final success of every cell."""
    lines = [
        "| run | seeds | FWT | NBT | AUC | final success | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell, seeds in found.items():
        runs = list(seeds.values())
        numbers = [grid.mean_and_error([run["libero"][name] for run in runs]) for name in COLUMNS]
        time = f"{statistics.mean(run['seconds'] for run in runs):.0f}"
        name = cell.partition("_")[2].replace("-", ", ")
        lines.append(f"| {' | '.join([name, str(len(runs)), *numbers, time])} |")
    return "\n".join(lines)


def loss_table(found: grid.Found) -> str:
    """For each task: how loss and success go together, and where each is best."""
    lines = [
        "| task | seed | rank correlation | success at the lowest loss | best success |",
        "| --- | --- | --- | --- | --- |",
    ]
    for seeds in found.values():
        for seed, run in seeds.items():
            for name, success, loss in figures.loss_curves(run):
                lowest = success[min(range(len(loss)), key=loss.__getitem__)]
                rank = figures.rank_correlation(loss, success)
                shown = "-" if rank is None else f"{rank:.2f}"
                words = name.replace("_", " ")
                lines.append(f"| {words} | {seed} | {shown} | {lowest:.2f} | {max(success):.2f} |")
    return "\n".join(lines)


STUDIES: Mapping[str, Study] = {
    "orders": Study(
        "Task orders (LIBERO, Figure 4)",
        "Does the order of tasks matter? In LIBERO it changes ER's and PackNet's results by more "
        "than the seeds do.",
        orders,
        figures.bars,
        metric_table,
    ),
    "pretraining": Study(
        "Pretraining on the ninety (LIBERO, Figure 5)",
        "Ten tasks of `tabletop_90` at once, then three of `tabletop_goal` with these weights or "
        "without. In LIBERO supervised pretraining did not help, and often harmed.",
        pretraining,
        figures.bars,
        metric_table,
        first=PRETRAINED,
    ),
    "loss_vs_success": Study(
        "Loss against success (LIBERO, Appendix E.2)",
        "Does the loss on held-out demonstrations tell when a policy succeeds? Each point is one "
        "measurement while a task is learned, those of a seed (a color) in order of epochs.",
        loss_vs_success,
        figures.loss_against_success,
        loss_table,
    ),
    "algorithms": Study(
        "Algorithms (LIBERO, Table 2)",
        "Sequential learning, experience replay, EWC and PackNet, and all tasks at once.",
        algorithms,
        figures.bars,
        metric_table,
    ),
    "policies": Study(
        "Policies (LIBERO, Table 1)",
        "ResNet-RNN, ResNet-T and ViT-T in small, each with an encoder that it learns itself from "
        "the images of two cameras: a knob, then a drawer, with the arm, under replay, 1,200 "
        "steps of 16 windows each at most. Other than LIBERO's: ResNets begin with "
        "`model.stem=patch`, heads of transformers read all tokens (`model.readout=all`). In "
        "LIBERO it depends on suite and algorithm which is best.",
        policies,
        figures.bars,
        metric_table,
    ),
}


# ------------------------------------------------------------ running and writing


def run(name: str, arguments: argparse.Namespace) -> grid.Found:
    """Run what is missing of a study."""
    study, found = STUDIES[name], {}
    for seed in arguments.seeds:
        cells = study.cells(arguments.out, seed)
        one = argparse.Namespace(**{**vars(arguments), "seeds": [seed]})
        steps = [{study.first: cells.pop(study.first)}] if study.first else []
        for part in (*steps, cells):
            found = robot_grid.run(part, one, measure)
    wanted = study.cells(arguments.out, 0)
    return {cell: found[cell] for cell in wanted if cell in found}


def page(stored: Mapping[str, grid.Found], stem: str) -> str:
    """The page of all studies that have values."""
    source = next(
        run["source"] for f in stored.values() for seeds in f.values() for run in seeds.values()
    )
    parts = [
        "# LIBERO's studies on a tabletop, small",
        "`python benchmarks/studies.py NAME --page docs/results/tabletop_studies.md` runs a study "
        "and makes this page again from the stored values of all. Three tasks of `tabletop_goal`, "
        f"a perceptron that observes the state, 10 rollouts a point ({source}); start states that "
        "nothing was chosen on (`stream.goal_seed=3`). Small on purpose, so only large "
        "differences mean something. At the paper's size the same are experiments, see "
        "[tabletop.md](../tabletop.md).",
    ]
    for name, found in stored.items():
        study = STUDIES[name]
        parts += [
            f"## {study.title}",
            study.words,
            study.table(found),
            f"![{study.title}]({stem}_{name}.png)",
        ]
        missing = [cell for cell in study.cells(Path(), 0) if cell not in found]
        if missing:
            names = ", ".join(cell.partition("_")[2].replace("-", " ") for cell in missing)
            parts.append(f"Not run yet: {names}.")
    others = [name for name in STUDIES if name not in stored]
    if others:
        parts.append(f"Not run yet at all: {', '.join(others)}.")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run a study, print its table, and write its figure."""
    parser = grid.parser(__doc__, "runs/studies")
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--page", type=Path, help="the page of all studies, and values next to it")
    arguments = parser.parse_args()
    found = run(arguments.study, arguments)
    study = STUDIES[arguments.study]
    grid.write(arguments.out / arguments.study, found, study.table(found), Path(__file__).name)
    print("\n" + study.table(found))
    figures.write(study.figure(found), arguments.out / f"{arguments.study}.png")
    if arguments.page is not None:
        values = arguments.page.with_suffix(".json")
        stored = json.loads(values.read_text()) if values.exists() else {}
        stored[arguments.study] = found
        stored = {name: stored[name] for name in STUDIES if name in stored}
        values.write_text(json.dumps(stored, indent=1, allow_nan=False) + "\n")
        image = f"{arguments.page.stem}_{arguments.study}.png"
        figures.write(study.figure(found), arguments.page.with_name(image))
        arguments.page.write_text(page(stored, arguments.page.stem))


if __name__ == "__main__":
    main()
