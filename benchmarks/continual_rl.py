"""Five tasks of Continual World in small, learned by reward, in the form of its table.

    python benchmarks/continual_rl.py --out runs/continual_rl --seeds 0 1 2 [--markdown FILE]

Each cell is ``clframe fit experiment=continual_rl/cw5_small_<method> seed=N`` (see grid.py for what
is run and kept); the single-task runs that forward transfer is measured against are
``experiment=continual_rl/cw5_small_naive stream.tasks=[<task>]``. The table is printed and written
to ``table.md`` in the output folder, everything that was measured to ``table.json``; with
``--markdown`` a page is written, and its numbers next to it.

Published: the CW20 table of Continual World's repository (Wołczyk et al., 2021), and ClonEx-SAC's
(Wolczyk et al., 2022), with a million steps per task. Fewer, easier tasks, a smaller network and
far fewer steps are another problem, so the numbers are side by side to compare the order of
methods and not their values.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence
from typing import Any

import continual_world
import grid
import robot_grid

from clframe.config.compose import compose
from clframe.worlds.metaworld import versions

METHODS = ("naive", "ewc", "packnet", "replay", "multitask")
COLUMNS = continual_world.COLUMNS
PUBLISHED: dict[str, tuple[float | None, ...]] = {
    **continual_world.PUBLISHED,
    # ClonEx-SAC, which also explores by its old policies.
    "replay": (0.87, None, 0.54),
}


def tasks() -> list[str]:
    """The tasks of the protocol, in its order."""
    stream: Any = compose(["experiment=continual_rl/cw5_small_naive"]).stream
    return list(stream["tasks"])


def make_cells(methods: Sequence[str], alone: Sequence[str]) -> dict[str, list[str]]:
    """The settings of every cell: methods, and tasks learned alone."""
    cells = {f"cw5_{method}": [f"experiment=continual_rl/cw5_small_{method}"] for method in methods}
    for task in alone:
        cells[f"single_{task}"] = [
            "experiment=continual_rl/cw5_small_naive",
            f"stream.tasks=[{task}]",
        ]
    return cells


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run; the source names versions and not demonstrations."""
    return continual_world.measure(results)


def table(found: grid.Found) -> str:
    """Return all methods with values, next to the published ones."""
    lines = [
        "| | | five tasks in small | | | published for CW20 | | | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| method | seeds | performance | forgetting | forward transfer "
        "| performance | forgetting | forward transfer | minutes a run |",
    ]
    reference = continual_world.references(found)
    for method in METHODS:
        runs = list(found.get(f"cw5_{method}", {}).values())
        if not runs:
            continue
        judged = [continual_world.judge(run, reference, method == "multitask") for run in runs]
        cells = [grid.mean_and_error([one.get(name) for one in judged]) for name in COLUMNS]
        known = ["-" if value is None else f"{value:.2f}" for value in PUBLISHED[method]]
        minutes = statistics.mean(run["train_seconds"] + run["eval_seconds"] for run in runs) / 60
        line = [method, str(len(runs)), *cells, *known, f"{minutes:.1f}"]
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def by_task(found: grid.Found) -> str:
    """Success on each task right after it was learned, and at the end."""
    runs = {
        method: list(found[f"cw5_{method}"].values())
        for method in METHODS
        if found.get(f"cw5_{method}")
    }
    lines = [
        f"| task | {' | '.join([*runs, 'alone'])} |",
        f"| {' | '.join(['---'] * (len(runs) + 2))} |",
    ]
    for task in next(iter(runs.values()))[0]["columns"]:
        cells = []
        for method, several in runs.items():
            ends = [run["values"][-1][run["columns"].index(task)] for run in several]
            cells.append(f"{statistics.mean(ends):.2f}")
            if method != "multitask":
                learned = [continual_world._right_after(run, task) for run in several]
                cells[-1] = f"{statistics.mean(learned):.2f} → {cells[-1]}"
        finals = [run["values"][-1][0] for run in found.get(f"single_{task}", {}).values()]
        cells.append(f"{statistics.mean(finals):.2f}" if finals else "-")
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seeds_alone(found: grid.Found) -> str:
    """With how many seeds the tasks were learned alone, at least."""
    least = min(len(found.get(f"single_{task}", {})) for task in tasks())
    return f"{least} seed{'' if least == 1 else 's'}"


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    config: Any = compose(["experiment=continual_rl/cw5_small_naive"])
    known = versions()
    return f"""# Continual World in small, by reward

`{command}`, {datetime.date.today().isoformat()}:
Meta-World {known["metaworld"]} on MuJoCo {known["mujoco"]}.

Soft actor-critic learns five of Meta-World's easy tasks one after the other, each for
{config.learner["steps"]:,} decisions that are held for {config.learner["action_repeat"]} steps
(`experiment=continual_rl/cw5_small_<method>`). Heads, units, the success criterion and the
metrics are from Continual World (Wołczyk et al., 2021); tasks, network and budget are smaller,
critics and temperature start again with each task as well, and the published numbers, for a million
steps on each of 20 tasks, stand here to compare the order of methods and not their values. *replay*
clones the old policies on states that they visited, as ClonEx-SAC does (Wolczyk et al., 2022: the
published row), without its exploration by old policies. *multitask* learns all tasks at once. Mean
± standard error over seeds; what has no row has not been run yet.

{table(found)}

*Performance*: mean final success. *Forgetting*: success right after learning minus final success.
*Forward transfer*: area between the success curves of this run and of runs that learn
one task alone, from scratch and for as long ({seeds_alone(found)}), divided by the area above the
latter. A method that learns all tasks at once has no value for the last two. A task's success is
measured on {config.stream["eval_episodes"]} episodes, always the same ones. Minutes are those of
one thread of a machine that was busy with other work.

## Task by task

Success right after learning → at the end, mean over seeds; *alone*: the final success of the
single-task runs.

{by_task(found)}

The values of each run are in `{numbers_file}`.

## How settings were chosen

By few trials on other goals and another seed (`stream.goal_seed=5 seed=10`), one run each:

- six candidates in turn, `naive`, 5,000 decisions each: `drawer-close`, `reach` and `faucet-close`
  were learned within 2,000 updates, `handle-press-side` within 3,000, `window-close` within 5,000,
  `button-press-topdown` hardly. `drawer-close` was left out since untrained networks close drawers.
- EWC on three tasks of 3,000 decisions: weight 1,000 learned 0.7, 0.9 and 0.5 (`faucet-close`,
  `handle-press`, `window-close`) and forgot nothing; 100,000 learned 1.0, 0.2 and 0.4
  (`drawer-close`, `faucet-close`, `handle-press-side`).
- `learner.cloning=30` on the latter three: 1.0, 0.3 and 0.2, nothing forgotten. The value taken, 3,
  was not tried. Nor were other shares for PackNet to release.
"""


def main() -> None:
    """Run what is missing and print the table."""
    parser = robot_grid.parser(__doc__, "runs/continual_rl", METHODS)
    parser.add_argument("--no-reference", action="store_true", help="leave single-task runs out")
    arguments = parser.parse_args()
    cells = make_cells(arguments.methods, [] if arguments.no_reference else tasks())
    found = robot_grid.run(cells, arguments, measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
