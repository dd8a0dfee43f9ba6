"""How many of BEHAVIOR's activities run: instances, starts, plans to Q = 1, and speed.

Every published activity is set up three times. It counts as solved if every instance starts
unsolved and the planner brings it to Q = 1. The page lists what is not solved, with the reason.

    python benchmarks/behavior.py [--corpus b100] [--instances 3] [--seconds 10]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from clframe.errors import ClframeError
from clframe.worlds.behavior.corpus import CORPORA, activities, load_activity
from clframe.worlds.behavior.env import BehaviorEnv
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.sampling import sample
from clframe.worlds.behavior.tracker import GoalTracker
from clframe.worlds.behavior.verbs import act

RESULTS = Path(__file__).parent.parent / "docs" / "results"
TARGETS = {"b100": 98, "b1k": 730}


def measure(corpus: str, row: dict[str, Any], seed: int, seconds: float) -> None:
    """Set up, check and solve one instance of an activity that has not failed before."""
    if row["reason"]:
        return
    try:
        instance = sample(load_activity(corpus, row["name"]), seed)
    except ClframeError as error:
        row["reason"] = str(error)
        return
    tracker = GoalTracker(instance.household)
    if tracker.score(tracker.truth(instance.start))[0] == 1.0:
        row["reason"] = "solved at the start"
        return
    found = plan(instance, seconds)
    row["seconds"].append(round(found.seconds, 3))
    if found.score == 1.0:
        row["solved"] += 1
        row["steps"].append(len(found.steps))
    else:
        row["reason"] = _reason(found.score, found.obstacle)


def _reason(score: float, obstacle: Any) -> str:
    if obstacle is None:
        return f"Q = {score:.2f}: the literals are reached one by one, but not together"
    (literal, wanted), why = obstacle
    text = " ".join(literal) if wanted else f"not {' '.join(literal)}"
    return f"Q = {score:.2f}: ({text}): {why}"


def speed(corpus: str, name: str, steps: int = 20_000) -> tuple[float, float]:
    """Steps a second of processor time along a plan: bare, and with observations and Q."""
    env = BehaviorEnv((corpus, name))
    route = plan(env.instance).steps
    actions = [env.action(verb, slot) for verb, slot in route]
    rounds = steps // len(route) + 1
    began = time.process_time()
    for _ in range(rounds):
        state = env.instance.start.copy()
        for verb, slot in route:
            act(env.household, state, verb, slot)
    bare = rounds * len(route) / (time.process_time() - began)
    rounds = rounds // 5 + 1
    began = time.process_time()
    for _ in range(rounds):
        env.reset()
        for action in actions:
            env.step(action)
    return bare, rounds * len(route) / (time.process_time() - began)


def page(record: dict[str, Any]) -> str:
    """The results page."""
    lines = [
        "# BEHAVIOR's activities without physics",
        "",
        "`python benchmarks/behavior.py`. Solved means: every instance that was tried starts",
        "unsolved and the planner brings it to Q = 1 within the processor time given. After one",
        "that is not solved, the activity's others are not tried.",
        "",
        "| corpus | activities | instances each | at most | solved | target "
        "| primitives, median (most) | planning, median (most) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for corpus, part in record["corpora"].items():
        rows = part["rows"]
        steps = [count for row in rows for count in row["steps"]]
        times = [value for row in rows if not row["reason"] for value in row["seconds"]]
        solved = sum(not row["reason"] for row in rows)
        lines.append(
            f"| {CORPORA[corpus]} | {len(rows)} | {part['instances']} | {part['seconds']:g} s "
            f"| {solved} | {TARGETS[corpus]} | {statistics.median(steps):g} ({max(steps)}) "
            f"| {statistics.median(times):.3f} s ({max(times):.2f} s) |"
        )
    lines += ["", "Steps a second of one core along the planner's routes:", ""]
    lines += ["| activity | bare | with observations and Q |", "| --- | --- | --- |"]
    for name, (bare, full) in record["speed"].items():
        lines.append(f"| {name} | {bare:,.0f} | {full:,.0f} |")
    for corpus, part in record["corpora"].items():
        unsolved = [row for row in part["rows"] if row["reason"]]
        if not unsolved:
            continue
        lines += ["", f"## {CORPORA[corpus]}: not solved", ""]
        lines += ["| activity | instances solved | what stays, and why |", "| --- | --- | --- |"]
        lines += [f"| {row['name']} | {row['solved']} | {row['reason']} |" for row in unsolved]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure round by round, and write docs/results/behavior.md and .json after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=tuple(CORPORA), action="append")
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    stored = given.out / "behavior.json"
    record: dict[str, Any] = {"corpora": {}, "speed": {}}
    if stored.exists():  # a corpus that is not asked for keeps its last results
        record = json.loads(stored.read_text(encoding="utf-8"))
    names = {"b100": ("making_tea", "assembling_gift_baskets"), "b1k": ("boil_water",)}
    for corpus in given.corpus or CORPORA:
        record["speed"].update({name: speed(corpus, name) for name in names[corpus]})
        rows = [
            {"name": name, "solved": 0, "steps": [], "seconds": [], "reason": ""}
            for name in activities(corpus)
        ]
        for seed in range(given.instances):
            for row in rows:
                measure(corpus, row, seed, given.seconds)
            part = {"instances": seed + 1, "seconds": given.seconds, "rows": rows}
            record["corpora"][corpus] = part
            record["corpora"] = dict(sorted(record["corpora"].items()))
            (given.out / "behavior.md").write_text(page(record), encoding="utf-8")
            stored.write_text(json.dumps(record) + "\n", encoding="utf-8")
            solved = sum(not row["reason"] for row in rows)
            print(f"{CORPORA[corpus]}, instance {seed}: {solved} solved", flush=True)


if __name__ == "__main__":
    main()
