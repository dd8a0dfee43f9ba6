"""The evaluator of robot tasks: the share of episodes that reach the goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch

from clframe.core.plugin import Plugin
from clframe.core.tensor import perturbed_measure
from clframe.hookspecs import hookimpl
from clframe.robot.episodes import Outcome
from clframe.robot.evaluation import Evaluation, evaluate
from clframe.robot.workers import environment_pool
from clframe.utils.console import notice

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.engine import Engine
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream, Task
    from clframe.utils.processes import WorkerPool


class Rollouts(Plugin):
    """Measures the success rate on a task by running its episodes."""

    def __init__(self) -> None:
        self.pool: WorkerPool | None = None

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Only where a task is an environment."""
        return cls() if any(task.load is None for task in context.stream.tasks) else None

    @hookimpl(trylast=True)
    def evaluate_task(self, learner: Learner, task: Task) -> dict[str, float] | None:
        """Means over episodes, which several ranks share: first what fills the matrix.

        Beside the success rate and the length of an episode there is what its environment measures.
        """
        evaluation = task.info.get("evaluation")
        if not isinstance(evaluation, Evaluation):
            return None
        if self.pool is None:
            how = evaluation.num_workers, evaluation.num_envs, evaluation.rollouts
            self.pool = environment_pool(*how)
        measures = _measure(learner, task, evaluation, self.pool)
        # Where a task is measured while it is learned, how well it is learned is what counts.
        if learner.experience is None or learner.experience in learner.seen:
            first = evaluation.measures[0]
            for perturbation in evaluation.perturbations:
                found = _measure(learner, task, evaluation.under(perturbation), self.pool)
                name = perturbed_measure(first, perturbation.axis, perturbation.level)
                measures[name] = found[first]
        return measures

    @hookimpl
    def after_prepare(self, stream: Stream) -> None:
        """Say what perturbations cost, and look for the cluster before anything is learned."""
        evaluation = stream.tasks[0].info.get("evaluation")
        if not isinstance(evaluation, Evaluation):
            return
        if evaluation.rollouts == "ray":
            from clframe.robot.farm import check_cluster

            check_cluster()
        if evaluation.perturbations:
            each = evaluation.perturb_episodes or evaluation.episodes
            n = len(evaluation.perturbations)
            notice(
                f"each task of a row takes {evaluation.episodes} episodes and, for stream.perturb, "
                f"{n * each} more ({n} perturbations, {each} each)"
            )

    @hookimpl
    def teardown(self) -> None:
        """End the worker processes."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None


def _measure(
    learner: Learner, task: Task, evaluation: Evaluation, pool: WorkerPool
) -> dict[str, float]:
    """The means over all episodes of an evaluation, of which this rank runs its share."""
    seeds = evaluation.seeds
    rank_seeds = [seeds[i] for i in learner.engine.share(torch.arange(len(seeds))).tolist()]
    outcomes = evaluate(learner, task, evaluation, pool, rank_seeds) if rank_seeds else []
    return _means(learner.engine, outcomes, evaluation.measures)


def _means(engine: Engine, outcomes: list[Outcome], names: Sequence[str]) -> dict[str, float]:
    """The means over the episodes of all ranks, the measure of the matrix first."""
    rows = [{**o.measures, "success": o.success, "steps": o.steps} for o in outcomes]
    # All ranks sum the same numbers, whichever had episodes; what is not a number is left out.
    values = torch.tensor(
        [[float(row[name]) for name in names] for row in rows], dtype=torch.float64
    ).reshape(-1, len(names))
    known = ~values.isnan()
    total = torch.stack([values.nan_to_num(0.0).sum(0), known.sum(0).double()]).to(engine.device)
    engine.sum({"outcomes": total})
    return dict(zip(names, (total[0] / total[1]).tolist(), strict=True))
