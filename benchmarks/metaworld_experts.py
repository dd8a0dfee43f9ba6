"""Meta-World's scripted experts on all 50 tasks: how often they succeed, what that costs.

    python benchmarks/metaworld_experts.py --episodes 50 --markdown FILE --json FILE

One process; costs are CPU time. Episodes are those that demonstrations are made from. Next to the
success stands that of Meta-World's own classes stepped without clframe (MuJoCo 3.3.0, 30 goals),
and where the two differ by more than chance would let them (two-sided Fisher test, p < 0.01, which
one of 50 tasks may well do) the row says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from clframe.robot import collect
from clframe.robot.task import DEMONSTRATION, episode_seeds, seed_key
from clframe.streams.metaworld.stream import ALL, robot_task
from clframe.worlds import metaworld as simulation

PLAIN_GOALS = 30
PLAIN = {
    "box-close": 0.83,
    "disassemble": 0.97,
    "hand-insert": 0.97,
    "peg-insert-side": 0.87,
    "peg-unplug-side": 0.90,
    "soccer": 0.93,
    "stick-pull": 0.90,
    "push-back": 0.97,
    "shelf-place": 0.93,
    "sweep-into": 0.93,
}
"""Success of the plain classes; every task that is not named succeeded on all goals."""


def measure(name: str, episodes: int) -> dict[str, Any]:
    """Record a number of episodes of a task's expert."""
    task = robot_task(name)
    started = time.process_time()
    environment = task.environment()
    seeds = episode_seeds(episodes, *seed_key(task, 0, DEMONSTRATION))
    demos = [collect.record(task, environment, seed) for seed in seeds]
    seconds = time.process_time() - started
    environment.close()
    kept = [demo for demo in demos if demo is not None]
    return {
        "successes": len(kept),
        "episodes": episodes,
        "steps": statistics.mean(len(demo) - collect.AFTER_SUCCESS for demo in kept),
        "cpu_seconds": round(seconds, 2),
    }


def p_value(row: dict[str, Any], plain: float) -> float:
    """Fisher's exact test of the success against that of the plain classes."""
    from scipy.stats import fisher_exact

    there = round(plain * PLAIN_GOALS)
    pair = [
        [row["successes"], row["episodes"] - row["successes"]],
        [there, PLAIN_GOALS - there],
    ]
    return float(fisher_exact(pair).pvalue)


def table(found: dict[str, dict[str, Any]]) -> str:
    """All tasks, and the means."""
    lines = [
        "| task | success | plain classes | steps to success | CPU s for 50 demonstrations | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    costs, rates = [], []
    for name, row in found.items():
        plain = PLAIN.get(name, 1.0)
        rate = row["successes"] / row["episodes"]
        cost = 50 * row["cpu_seconds"] / row["successes"]
        rates.append(rate)
        costs.append(cost)
        remark = "differs" if p_value(row, plain) < 0.01 else ""
        lines.append(
            f"| {name} | {rate:.2f} | {plain:.2f} | {row['steps']:.0f} | {cost:.1f} | {remark} |"
        )
    plain = statistics.mean(PLAIN.get(name, 1.0) for name in found)
    longest = max(found, key=lambda name: costs[list(found).index(name)])
    lines += [
        "",
        f"Mean success {statistics.mean(rates):.3f} (plain classes {plain:.3f}). 50 demonstrations "
        f"take {statistics.median(costs):.1f} s at the median, {max(costs):.1f} s at most "
        f"({longest}), {sum(costs):.0f} s for {len(found)} tasks.",
    ]
    return "\n".join(lines)


def page(found: dict[str, dict[str, Any]], versions: dict[str, str], episodes: int) -> str:
    """The results page."""
    return f"""# Meta-World's experts

`python benchmarks/metaworld_experts.py --episodes {episodes}`, Meta-World {versions["metaworld"]},
MuJoCo {versions["mujoco"]}, one process, CPU time. The experts act through the stream's
environments, on the goals that demonstrations are made from. *Plain classes* is Meta-World's own
environment without clframe, MuJoCo 3.3.0, {PLAIN_GOALS} other goals. A row *differs* where chance
alone is unlikely (Fisher, p < 0.01). The time of 50 demonstrations follows from that of the
successes here.

{table(found)}
"""


def main() -> None:
    """Measure all tasks and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--tasks", nargs="+", default=list(ALL), choices=ALL, metavar="TASK")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    found = {}
    for name in arguments.tasks:
        found[name] = measure(name, arguments.episodes)
        row = found[name]
        print(
            f"{name}: {row['successes']}/{row['episodes']}, {row['cpu_seconds']} s",
            flush=True,
        )
    print("\n" + table(found))
    versions = simulation.versions()
    if arguments.json:
        content = json.dumps({"versions": versions, "tasks": found}, indent=1)
        arguments.json.write_text(content + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(page(found, versions, arguments.episodes))


if __name__ == "__main__":
    main()
