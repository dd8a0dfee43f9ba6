"""How fast the tabletop world runs, and how often its scripted expert succeeds.

    ``python benchmarks/tabletop_world.py speed [--steps 300] [--robot arm]``
    ``python benchmarks/tabletop_world.py beside --tree FOLDER [--rounds 20] [--steps 5]``
    ``python benchmarks/tabletop_world.py expert [--suites tabletop_goal ...] [--episodes 20]``
        [--first-seed 1000] [--robot arm] [--json FILE]

Speed is CPU time of one core over random actions. ``beside`` times steps with two cameras here and
in another checkout of clframe, taking turns, so that a busy machine slows both down alike. An
episode of the expert counts as a success if the goal holds at some step within the horizon; kinds
are what the goal asks for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from clframe.streams.tabletop import SUITES, TabletopTask, tasks
from clframe.worlds.tabletop.cameras import CAMERAS
from clframe.worlds.tabletop.compiler import ROBOTS, RobotKind
from clframe.worlds.tabletop.env import HORIZON, make
from clframe.worlds.tabletop.expert import Expert
from clframe.worlds.tabletop.world import World

TEN = ("tabletop_spatial", "tabletop_object", "tabletop_goal", "tabletop_long")


def speed(steps: int, robot: RobotKind) -> None:
    """Print steps per second of every ten-task suite, without and with two cameras."""
    print(f"{'suite':20} {'state':>8} {'2 cameras 64x64':>16} {'reset ms':>9}")
    for suite in TEN:
        rates = []
        for cameras, count in (((), steps), (CAMERAS, steps // 4)):
            spent = 0.0
            for number in range(3):
                env = make(suite, str(3 * number), cameras=cameras, robot=robot)
                env.reset(seed=0)
                rng = np.random.default_rng(0)
                start = time.process_time()
                for _ in range(count):
                    env.step(rng.uniform(-0.5, 0.5, 7))
                spent += time.process_time() - start
            rates.append(3 * count / spent)
        start = time.process_time()
        for seed in range(20):
            env.world.reset(np.random.default_rng(seed))
        reset = 50 * (time.process_time() - start)
        print(f"{suite:20} {rates[0]:8.0f} {rates[1]:16.0f} {reset:9.1f}")


# Runs in a checkout that may be older than this file, from before there was a choice of robots.
_CAMERAS = """
import inspect, sys, time
import numpy as np
from clframe.worlds.tabletop.env import TabletopEnv, make
choice = "robot" in inspect.signature(TabletopEnv).parameters
robot = {"robot": sys.argv[2]} if choice or sys.argv[2] != "hand" else {}
envs = [make(s, "3", cameras=("agentview", "wrist"), **robot) for s in sys.argv[3:]]
steps, rng = int(sys.argv[1]), np.random.default_rng(0)
for env in envs:
    env.reset(seed=0)
for _ in sys.stdin:
    start = time.process_time()
    for env in envs:
        for _ in range(steps):
            env.step(rng.uniform(-0.5, 0.5, 7))
    print(1000 * (time.process_time() - start) / (steps * len(envs)), flush=True)
"""


def beside(tree: Path, rounds: int, steps: int, robot: RobotKind) -> None:
    """Print the time of a step in another checkout and here, taking turns."""
    here = Path(__file__).resolve()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _CAMERAS, str(steps), robot, *TEN],
            env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for folder in (tree.resolve(), here.parents[1])
    ]
    times: list[list[float]] = []
    for _ in range(rounds + 1):
        turn = []
        for worker in workers:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write("\n")
            turn.append(float(worker.stdout.readline()))
        times.append(turn)
    for worker in workers:
        worker.communicate()
    before, after = np.array(times[1:]).T  # the first turn warms up
    print(f"median {np.median(before):.2f} and {np.median(after):.2f} ms a step")
    low, middle, high = np.quantile(before / after, [0.25, 0.5, 0.75])
    print(f"times faster, turn by turn: median {middle:.2f}, quartiles {low:.2f} and {high:.2f}")


def kind_of(task: TabletopTask) -> str:
    """What a goal asks for, such as ``in + close``."""
    return " + ".join(sorted(atom[0] for atom in task.problem.goal.atoms))


def episode(world: World, seed: int) -> tuple[bool, int]:
    """Whether the expert succeeds, and after how many steps."""
    world.reset(np.random.default_rng(seed))
    for step, action in enumerate(Expert(world).run(), 1):
        world.step(action)
        if world.satisfied():
            return True, step
        if step == HORIZON:
            break
    return False, HORIZON


def expert(
    suites: list[str], episodes: int, first: int, robot: RobotKind, file: Path | None
) -> None:
    """Print success per suite and per kind, and the tasks that fail at all."""
    record = []
    for suite in suites:
        kinds: dict[str, list[bool]] = defaultdict(list)
        lengths: list[int] = []
        spent = time.process_time()
        for task in tasks(suite, n=30) if suite == SUITES[-1] else tasks(suite):
            world = World(task.problem, robot=robot)
            runs = [episode(world, seed) for seed in range(first, first + episodes)]
            good = [success for success, _ in runs]
            kinds[kind_of(task)].extend(good)
            lengths.extend(steps for success, steps in runs if success)
            record.append({"suite": suite, "task": task.name, "success": sum(good) / episodes})
            if not all(good):
                bad = [first + number for number, success in enumerate(good) if not success]
                print(f"    {sum(good)}/{episodes} {task.name} (failed with seeds {bad})")
        spent = time.process_time() - spent
        all_runs = [success for runs in kinds.values() for success in runs]
        print(
            f"{suite}: {np.mean(all_runs):.3f} of {len(all_runs)} episodes, "
            f"median {np.median(lengths):.0f} steps, {spent / len(all_runs):.2f} s an episode",
            flush=True,
        )
        for kind, good in sorted(kinds.items()):
            print(f"    {kind:24} {np.mean(good):.3f} of {len(good)}")
    if file is not None:
        file.write_text(json.dumps(record, indent=1))


def main() -> None:
    """Run the part that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("speed", "beside", "expert"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tree", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--suites", nargs="+", default=list(TEN))
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--robot", choices=ROBOTS, default="arm")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.part == "speed":
        speed(given.steps, given.robot)
    elif given.part == "beside":
        beside(given.tree, given.rounds, min(given.steps, 5), given.robot)
    else:
        expert(given.suites, given.episodes, given.first_seed, given.robot, given.json)


if __name__ == "__main__":
    main()
