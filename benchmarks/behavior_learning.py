"""BEHAVIOR's twelve activities of Table 2, learned: each alone by PPO, and in turn by imitation.

    python benchmarks/behavior_learning.py --out runs/behavior_learning [--markdown FILE.md]

Each cell is ``clframe fit experiment=behavior/<method> seed=N``, for PPO with one activity each
(see grid.py for what is run and kept). ``--methods`` chooses rows; ``ppo`` is the first table, all
others are rows of the second. The tables are printed and written to ``table.md`` in the output
folder, everything that was measured to ``table.json``; with ``--markdown`` a page is written, and
its numbers next to it.
"""

from __future__ import annotations

import datetime
import statistics
import time
from typing import Any

import grid
import robot_grid

from clframe.streams.behavior import robot_tasks
from clframe.streams.behavior.stream import TWELVE
from clframe.worlds.behavior.layout import VERBS, Primitives
from clframe.worlds.behavior.supplies import gather

PAPER = (1.0, 0.95, 0.83, 0.0, 0.56, 0.94, 0.55, 0.56, 0.0, 0.5, 0.67, 1.0)
"""Q of the paper's Table 2 by PPO with primitives, full observability and no physics."""
CONTINUAL = ("naive", "ewc", "packnet", "replay", "multitask")
SPEEDS: tuple[tuple[str, str, int, Primitives], ...] = (
    ("b100", "bringing_in_wood", 13, "six"),
    ("b100", "setting_up_candles", 13, "six"),
    ("b100", "making_tea", 35, "all"),
    ("b100", "assembling_gift_baskets", 35, "all"),
    ("b1k", "boil_water", 66, "all"),
)
METHODS = ("ppo", *CONTINUAL)


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: Q after every experience, seconds, where the data is from."""
    matrix, timing = results["matrix"], results["timing"]
    values = zip(matrix["rows"], matrix["values"], strict=True)
    return {
        "measure": matrix["measure"],
        "columns": matrix["columns"],
        "values": [row for name, row in values if name != "before"],
        "train_seconds": round(timing["train_seconds"], 1),
        "eval_seconds": round(timing["eval_seconds"], 1),
        "source": results["source"],
    }


def alone(found: grid.Found) -> str:
    """Return the first table: each activity by PPO, next to the paper."""
    lines = [
        "| activity | paper | PPO here, each seed | mean | at least the paper's |",
        "| --- | --- | --- | --- | --- |",
    ]
    reached = measured = 0
    for activity, published in zip(TWELVE, PAPER, strict=True):
        runs = found.get(f"ppo_{activity}", {}).values()
        finals = [run["values"][-1][0] for run in runs]
        if not finals:
            lines.append(f"| {activity} | {published:.2f} | not measured yet | | |")
            continue
        mean = statistics.mean(finals)
        each = ", ".join(f"{value:.2f}" for value in finals)
        measured += 1
        reached += mean >= published
        yes = "yes" if mean >= published else "no"
        lines.append(f"| {activity} | {published:.2f} | {each} | {mean:.2f} | {yes} |")
    return "\n".join([*lines, "", f"At least the paper's: {reached} of {measured} activities."])


def in_turn(found: grid.Found) -> str:
    """The second table: all activities in turn, by imitation."""
    lines = [
        "| method | final Q of each seed | final Q | right after learning | forgetting |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method in CONTINUAL:
        runs = [run["values"] for run in found.get(f"in_turn_{method}", {}).values()]
        if not runs:
            lines.append(f"| {method} | not measured yet | | | |")
            continue
        finals = [statistics.mean(values[-1]) for values in runs]
        learned = [_learned(values) for values in runs]
        lost = [_learned(values) - statistics.mean(values[-1]) for values in runs]
        each = ", ".join(f"{value:.2f}" for value in finals)
        ends = [grid.mean_and_error(values) for values in (finals, learned, lost)]
        lines.append(f"| {method} | {each} | {' | '.join(ends)} |")
    return "\n".join(lines)


def _learned(values: list[list[float]]) -> float:
    """Q of each activity right after it was learned, mean over activities."""
    if len(values) == 1:  # all at once
        return statistics.mean(values[0])
    return statistics.mean(row[k] for k, row in enumerate(values))


def speed(group: str, name: str, slots: int, primitives: Primitives, steps: int = 8000) -> float:
    """Steps a second of processor time along the planner's route, as a stream's task."""
    env = robot_tasks.environment((group, name), True, 500, slots, primitives)
    actions = list(robot_tasks.expert(env))
    began = time.process_time()
    done = 0
    while done < steps:
        env.reset()
        for action in actions:
            env.step(action)
        done += len(actions)
    return done / (time.process_time() - began)


def speeds() -> str:
    """The third table."""
    lines = ["| activity | things | choices | steps a second |", "| --- | --- | --- | --- |"]
    for group, name, slots, primitives in SPEEDS:
        things = len(gather(robot_tasks.problem_of((group, name), True)).types)
        rate = speed(group, name, slots, primitives)
        choices = slots * len(VERBS[primitives])
        lines.append(f"| {name} | {things} | {choices:,} | {rate:,.0f} |")
    return "\n".join(lines)


def table(found: grid.Found) -> str:
    """Both tables."""
    return f"{alone(found)}\n\n{in_turn(found)}"


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    return f"""# BEHAVIOR's twelve activities, learned

`{command}`, {datetime.date.today().isoformat()}. The twelve activities of
Srivastava et al., "BEHAVIOR" (2021), Table 2, as `stream=behavior_12`: no physics, the paper's six
primitives (navigateTo, grasp, placeOnTop, placeInside, open, close), all things observed. The
measure is Q at the end of an episode of at most 100 primitives, over 20 instances on which nothing
is learned, always the same ones.

## Each alone by PPO

`experiment=behavior/ppo stream.activities=[NAME]`, next to the paper's last row (PPO, primitives,
no physics, full observability, in iGibson 2.0). The households are not the paper's: see
[behavior.md](../behavior.md) for what is simulated. Which column of the paper's table belongs to
which activity could not be checked against its text here.

{alone(found)}

## In turn by imitation

`experiment=behavior/<method>`: 20 demonstrations of each activity by the planner, in the order of
the first table; a perceptron with two layers of 256 leaky units and a head for each activity, 50
epochs.
The strengths of EWC and PackNet were chosen on other instances and another seed
([strengths.md](strengths.md)). Mean ± standard error over seeds; forgetting is what an activity
loses from right after it was learned to the end.

{in_turn(found)}

What is not in the tables was not measured yet. The values of each run are in `{numbers_file}`.

## Speed

Steps a second of processor time of one core, with the observed vector, the mask of choices and Q,
along the planner's routes:

{speeds()}
"""


def main() -> None:
    """Run what is missing and print the tables."""
    arguments = robot_grid.parser(__doc__, "runs/behavior_learning", METHODS).parse_args()
    cells = {
        f"in_turn_{name}": [f"experiment=behavior/{name}"]
        for name in arguments.methods
        if name != "ppo"
    }
    if "ppo" in arguments.methods:
        for activity in TWELVE:
            chosen = f"stream.activities=[{activity}]"
            cells[f"ppo_{activity}"] = ["experiment=behavior/ppo", chosen]
    found = robot_grid.run(cells, arguments, measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
