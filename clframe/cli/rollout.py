"""``clframe rollout RUN``: run episodes of a run's final policy, with a video of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser, whole
from clframe.errors import SettingError, nearest
from clframe.utils.console import print_out

if TYPE_CHECKING:
    import argparse

    from clframe.core.learner import Learner
    from clframe.core.stream import Task
    from clframe.robot.episodes import Outcome
    from clframe.robot.evaluation import Evaluation


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "rollout",
        "Run episodes of a run's final policy: the success rate of each task, and a video.",
        [
            ("clframe rollout RUN", "the success rate of each task"),
            ("clframe rollout RUN --task push-wall --video push.gif", "records an episode"),
            ("clframe rollout RUN --task push-wall --video push.mp4", "the same (clframe[video])"),
            ("clframe rollout RUN --perturb start=0.5", "episodes away from the demonstrations"),
        ],
    )
    add = parser.add_argument
    add("run", type=Path, help="a run folder")
    parser.add_plugin_path()
    add("--task", metavar="NAME", help="only this task")
    add("--episodes", type=whole(1), metavar="N", help="number; default: the stream's")
    add("--perturb", metavar="AXIS=LEVEL", help="perturb the episodes, as in camera=0.5")
    add(
        "--video", type=Path, metavar="FILE", help="record an episode: FILE.mp4, FILE.gif, a folder"
    )
    add("--every", type=whole(1), metavar="N", help="record every N-th step; default: each")
    add("--saliency", action="store_true", help="show in the video what the policy acts on")
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the success rate of each task, and record a video of an episode."""
    arguments = parser().parse(argv)
    import torch

    from clframe.core import hooks
    from clframe.robot.evaluation import evaluate
    from clframe.robot.task import EVALUATION, episode_seeds, seed_key
    from clframe.robot.workers import environment_pool
    from clframe.utils.statistics import wilson

    if arguments.video is not None:
        from clframe.robot.video.video_files import check_target

        check_target(arguments.video)
    learner, tasks = _load(arguments.run, arguments.task, arguments.plugin_path)
    if arguments.video is not None and len(tasks) > 1:
        raise SettingError(
            f"clframe rollout: --video records one task: add --task; {nearest('', _names(tasks))}"
        )
    if arguments.saliency:
        _check_saliency(arguments, tasks[0][1])
    if arguments.perturb is not None:
        from clframe.worlds.perturbation import Perturbation

        perturbation = Perturbation.parse(arguments.perturb)
        tasks = [(task, how.under(perturbation)) for task, how in tasks]
    first = tasks[0][1]
    pool = environment_pool(first.num_workers, first.num_envs, first.rollouts)
    learner.eval()
    if acts := learner.acts:
        print_out("acts by " + ", ".join(f"{name}={value}" for name, value in acts.items()))
    try:
        with torch.inference_mode():
            for task, how in tasks:
                n = arguments.episodes or how.episodes
                seeds = episode_seeds(n, *seed_key(how.robot, how.goal_seed, EVALUATION))
                with hooks.in_task(learner, task):
                    outcomes = evaluate(learner, task, how, pool, seeds)
                won = sum(outcome.success for outcome in outcomes)
                steps = sum(outcome.steps for outcome in outcomes) / n
                low, high = wilson(won / n, n)
                print_out(
                    f"{task.name:<28} {won}/{n} episodes reach the goal "
                    f"[{low:.2f}, {high:.2f}], mean {steps:.1f} steps"
                    + _measured(outcomes, how.measures[0])
                )
            if arguments.video is not None:
                _record(learner, tasks[0][0], first, arguments)
    finally:
        pool.close()
    return 0


def _measured(outcomes: Sequence[Outcome], measure: str) -> str:
    """Return the mean of a measure that only the environment has, if the matrix holds one."""
    values = [outcome.measures[measure] for outcome in outcomes if measure in outcome.measures]
    finite = [value for value in values if math.isfinite(value)]
    return f", mean {measure} {sum(finite) / len(finite):.3f}" if finite else ""


def _names(tasks: Sequence[tuple[Task, Evaluation]]) -> list[str]:
    return [task.name for task, _ in tasks]


def _load(
    folder: Path, name: str | None, plugin_path: Sequence[str] | None
) -> tuple[Learner, list[tuple[Task, Evaluation]]]:
    """Return the run's learner at its end, and the tasks with environments."""
    from clframe.api import load_learner
    from clframe.robot.evaluation import Evaluation

    learner, _ = load_learner(folder, plugin_path=plugin_path)
    tasks = [
        (task, task.evaluation)
        for task in learner.stream.tasks
        if isinstance(task.evaluation, Evaluation)
    ]
    if not tasks:
        raise SettingError(
            f"run '{folder}' learned '{learner.stream.name}', which has no environments to act in"
        )
    if name is not None:
        if name not in _names(tasks):
            raise SettingError(
                f"run '{folder}' has no task '{name}'; {nearest(name, _names(tasks))}"
            )
        tasks = [tasks[_names(tasks).index(name)]]
    return learner, tasks


def _check_saliency(arguments: argparse.Namespace, how: Evaluation) -> None:
    from clframe.robot.video.saliency import check

    if arguments.video is None:
        raise SettingError("clframe rollout: --saliency is shown in a video: add --video FILE")
    check(how)


def _record(learner: Learner, task: Task, how: Evaluation, arguments: argparse.Namespace) -> None:
    """Record a video of the task's first episode, in this process."""
    from clframe.config.read_config import read_content
    from clframe.robot.video.record_episode import actor, record_episode
    from clframe.robot.video.record_video import RecordVideo
    from clframe.robot.video.video_files import stride, write

    path, environment = arguments.video.expanduser(), how.robot.make()
    rate = environment.rate
    every = arguments.every or stride(path, rate)
    recorded: RecordVideo
    if arguments.saliency:
        from clframe.robot.video.saliency import SalientVideo

        recorded = salient = SalientVideo(environment, every)
        outcome = record_episode(learner, task, how, recorded)
        salient.overlay(learner, task, how)
    else:
        recorded = RecordVideo(environment, every)
        outcome = record_episode(learner, task, how, recorded)
    strategy = read_content(arguments.run)["strategy_name"] or "policy"
    images = recorded.captioned(how.robot.language or task.name, actor(strategy, learner))
    write(path, images, rate / every)
    end = "reaches the goal" if outcome.success else "does not reach the goal"
    print_out(f"the first episode {end}: {len(images)} images in {path}")
