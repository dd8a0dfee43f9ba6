"""How strong EWC, SI and MAS should hold a policy, and how much of it PackNet should release.

Candidates are tried on goals that nothing is measured on.

    python benchmarks/strengths.py --out runs/strengths [--markdown docs/results/strengths.md]

Each cell is ``clframe fit experiment=<experiment> <strength> stream.goal_seed=5 seed=10`` (see
grid.py for what is run and kept); of Continual World the first five tasks, by images three. The
best candidate of a method is what its experiment has, and what continual_world.py, tabletop.py,
tabletop_images.py, point_robot.py and behavior_learning.py measure on other goals and seeds. The
table is printed and written to ``table.md`` in the output folder, what was measured to
``table.json``; with ``--markdown`` a page, and its numbers next to it.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import grid
import robot_grid

from clframe.streams.metaworld.stream import CW10

GOAL_SEED = 5
EXPERIMENTS: dict[str, tuple[str, list[str]]] = {
    "point_robot": ("point_robot/", []),
    "tabletop_goal": ("tabletop/goal5_", []),
    "tabletop_images": (
        "tabletop/images_",
        ["stream.tasks=[0,5,7]", "stream.eval_episodes=10", "max_epochs=30"],
    ),
    "cw10": (
        "continual_world/",
        [f"stream.tasks=[{','.join(CW10[:5])}]", "stream.eval_episodes=10"],
    ),
    "behavior_12": ("behavior/", []),
}
"""By stream, the prefix of its experiments' names, and further settings of its runs."""
STRENGTHS = {
    "ewc": "strategy.ewc.weight",
    "si": "strategy.si.c",
    "mas": "strategy.mas.weight",
    "packnet": "strategy.packnet.prune",
}
VARIANTS: dict[str, tuple[str, list[str], tuple[float, ...]]] = {
    "gradient": ("cw10", ["strategy.ewc.step=gradient"], (300, 1000)),
    "floor": ("cw10", ["strategy.ewc.step=gradient", "strategy.ewc.floor=1e-5"], (100, 300)),
    "proximal": ("behavior_12", ["strategy.ewc.step=proximal"], (1000,)),
    "online": ("behavior_12", ["strategy.ewc.online=true"], (1000,)),
}
"""Forms of EWC besides those of the experiments: the stream, settings, and weights; the floor
is that of Continual World's code."""
CANDIDATES: dict[str, dict[str, tuple[float, ...]]] = {
    "point_robot": {
        "ewc": (30, 100, 300, 1000, 3000),
        "si": (1, 10, 100, 1000),
        "mas": (1, 10, 100),
    },
    "tabletop_goal": {
        "ewc": (30, 100, 300, 1000, 3000),
        "si": (1, 10, 100),
        "mas": (1, 10, 100),
    },
    "tabletop_images": {"ewc": (1e4, 1e5, 1e6, 1e7)},
    "cw10": {"ewc": (1000,), "si": (1, 10, 100), "mas": (1, 10, 100)},
    "behavior_12": {"ewc": (100, 300, 1000, 10000), "packnet": (0.8, 0.85, 0.9)},
}


def make_cells(streams: Iterable[str], methods: Sequence[str]) -> dict[str, list[str]]:
    """Return the settings of every candidate, and of a run without a method."""
    cells = {}
    for stream in streams:
        begin, settings = EXPERIMENTS[stream]
        beside = [*settings, f"stream.goal_seed={GOAL_SEED}"]
        cells[f"{stream}_naive"] = [f"experiment={begin}naive", *beside]
        for method in methods:
            for strength in CANDIDATES[stream].get(method, ()):
                cells[f"{stream}_{method}_{strength:g}"] = [
                    f"experiment={begin}{method}",
                    f"{STRENGTHS[method]}={strength:g}",
                    *beside,
                ]
        if "ewc" in methods:
            ewc = [f"experiment={begin}ewc", *beside]
            for variant, (where, form, strengths) in VARIANTS.items():
                for strength in strengths if where == stream else ():
                    weight = f"{STRENGTHS['ewc']}={strength:g}"
                    cells[f"{stream}_{variant}_{strength:g}"] = [*ewc, weight, *form]
    return cells


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: final success or Q of each task, seconds, where the data is from."""
    matrix, timing = results["matrix"], results["timing"]
    return {
        "columns": matrix["columns"],
        "final": matrix["values"][-1],
        "train_seconds": round(timing["train_seconds"], 1),
        "eval_seconds": round(timing["eval_seconds"], 1),
        "source": results["source"],
    }


def final(runs: dict[str, Any]) -> float:
    """Mean final success of a cell's runs."""
    means: list[float] = [statistics.mean(run["final"]) for run in runs.values()]
    return statistics.mean(means)


def candidates(found: grid.Found, stream: str, method: str) -> dict[float, float]:
    """By strength, in order, the final success of a method's candidates."""
    begin = f"{stream}_{method}_"
    return {
        strength: final(found[f"{begin}{strength:g}"])
        for strength in sorted(
            float(cell.removeprefix(begin)) for cell in found if cell.startswith(begin)
        )
    }


def best(tried: dict[float, float]) -> float:
    """The strength that came out best; of several, one in their middle, away from where it falls.

    >>> best({30: 1.0, 100: 1.0, 300: 1.0, 1000: 0.9})
    100
    """
    highest = max(tried.values())
    equals = [strength for strength, value in tried.items() if value == highest]
    return equals[(len(equals) - 1) // 2]


def table(found: grid.Found) -> str:
    """Final success of all candidates, the best in bold."""
    lines = ["| stream | method | strength: final success |", "| --- | --- | --- |"]
    for stream in EXPERIMENTS:
        if naive := found.get(f"{stream}_naive"):
            lines.append(f"| {stream} | naive | {final(naive):.2f} |")
        for method in (*STRENGTHS, *VARIANTS):
            tried = candidates(found, stream, method)
            cells = [f"{strength:g}: {value:.2f}" for strength, value in tried.items()]
            if cells and method in STRENGTHS:
                place = list(tried).index(best(tried))
                cells[place] = f"**{cells[place]}**"
            if cells:
                name = f"ewc, `{' '.join(VARIANTS[method][1])}`" if method in VARIANTS else method
                lines.append(f"| {stream} | {name} | {', '.join(cells)} |")
    return "\n".join(lines)


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    return f"""# Strengths of regularisers on robots

`{command}`, {datetime.date.today().isoformat()}.

Candidates for `strategy.ewc.weight`, `strategy.si.c`, `strategy.mas.weight` and
`strategy.packnet.prune` in the experiments `point_robot/<method>`, `tabletop/goal5_<method>`,
`tabletop/images_<method>` (three of its tasks, half of its epochs, 10 episodes each),
`continual_world/<method>` (the first five tasks, 10 episodes each) and `behavior/<method>`, all
on `stream.goal_seed={GOAL_SEED}` and seed 10, on which nothing else is measured. Final success (of
`behavior_12`: Q), mean over tasks. The best candidate, in bold (of several the middle one), is what
the experiments have, and what [point_robot.md](point_robot.md), [tabletop.md](tabletop.md),
[tabletop_images.md](tabletop_images.md), [continual_world.md](continual_world.md) and
[behavior_learning.md](behavior_learning.md) measure on other goals and seeds. What is not in the
table was not tried. One seed and few episodes: differences of a few hundredths mean nothing.

{table(found)}

On Continual World's tasks EWC as a term of the loss (`step=gradient`), with and without the floor
of Continual World's code, ended lower on push-wall and stick-pull than with the implicit step
(`step=proximal`, what the experiment has). A penalty in the loss fills the second moment that
Adam's steps are divided by, and where it is stiff its steps pass the anchor; the implicit step does
neither.

By images no weight holds an old task. A likely reason, which was not tested: the policy is
LIBERO's, with one head of ReLU units for all tasks, and after the three tasks 28, 50 and 25 % of
the weights of its three hidden layers have no Fisher information at all (read off the checkpoint of
weight 1e7). A new task may change these as it likes, and with them what the head does on old ones.
`tabletop/goal5_<method>` has leaky units and a head for each task instead.

The final success of each task is in `{numbers_file}`.
"""


def main() -> None:
    """Run what is missing and print the table."""
    parser = robot_grid.parser(__doc__, "runs/strengths", list(STRENGTHS))
    parser.set_defaults(seeds=[10])
    parser.add_argument("--streams", nargs="+", default=list(EXPERIMENTS), choices=EXPERIMENTS)
    arguments = parser.parse_args()
    found = robot_grid.run(make_cells(arguments.streams, arguments.methods), arguments, measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
