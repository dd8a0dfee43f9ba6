"""The evaluator of robot tasks: the share of episodes that reach the goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from clframe.core.plugin import Plugin
from clframe.errors import SettingError
from clframe.evaluation.episodes import NAME, outcomes_json
from clframe.evaluation.forgetting_tensor import perturbed_measure
from clframe.hookspecs import hookimpl
from clframe.robot.episodes import Outcome
from clframe.robot.evaluation import Evaluation, evaluate
from clframe.robot.workers import environment_pool
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Stream, Task
    from clframe.utils.processes import WorkerPool


class Rollouts(Plugin):
    """Success rate on a task, by running its episodes.

    The outcome of each episode of a cell is kept, so that two runs can be compared episode by
    episode (:mod:`clframe.evaluation.episodes`). So is the reason if a cell was stopped early
    (``stream.stop_threshold``, ``stream.stop_width``).
    """

    state: ClassVar[tuple[str, ...]] = ("rows", "cells")

    def __init__(self) -> None:
        self.pool: WorkerPool | None = None
        self.rows: list[dict[str, dict[str, Any]]] = []
        """Outcomes of the episodes, by task, of each row of the matrix."""
        self.cells: dict[str, dict[str, Any]] = {}
        """Outcomes of the tasks that were measured last."""

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if a task is an environment."""
        return cls() if any(task.load is None for task in context.stream.tasks) else None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the outcomes; older runs have none to restore."""
        super().load_state_dict({**self.state_dict(), **state})

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Reject early stopping if several processes share the episodes."""
        for task in stream.tasks:
            if _stops(task) and learner.engine.world_size > 1:
                raise SettingError(
                    "stream.stop_threshold and stream.stop_width need episodes one after the "
                    f"other, but {learner.engine.world_size} processes share them "
                    "(trainer.devices): leave them out, or use one process"
                )

    @hookimpl(trylast=True)
    def evaluate_task(self, learner: Learner, task: Task) -> dict[str, float] | None:
        """Return means over episodes, which ranks share; the first fills the matrix.

        The means are the success rate, the length of an episode and the environment's own measures.
        """
        evaluation = task.evaluation
        if not isinstance(evaluation, Evaluation):
            return None
        if self.pool is None:
            self.pool = environment_pool(
                evaluation.num_workers, evaluation.num_envs, evaluation.rollouts
            )
        # A task measured during its own training counts as it is learned so far.
        is_cell = learner.experience is None or learner.experience in learner.seen
        names = list(dict.fromkeys((*evaluation.measures, "success")))
        values, why = _measure(learner, task, evaluation, self.pool, names, is_cell)
        means = _means(values, names)
        measures = {name: means[name] for name in evaluation.measures}
        if is_cell:
            self.cells[task.name] = _cell(evaluation, values, names, why)
            first = evaluation.measures[0]
            for perturbation in evaluation.perturbations:
                how = evaluation.under(perturbation)
                outcomes, _ = _measure(learner, task, how, self.pool, [first], False)
                name = perturbed_measure(first, perturbation.axis, perturbation.level)
                measures[name] = _means(outcomes, [first])[first]
        return measures

    @hookimpl
    def after_evaluation(self, results: dict[str, dict[str, float]]) -> None:
        """Keep the outcomes of a row's episodes."""
        self.rows.append({name: self.cells[name] for name in results if name in self.cells})
        self.cells = {}

    @hookimpl
    def metrics(self, result: Result) -> None:
        """Store the outcomes of the episodes."""
        outcomes = outcomes_json(result.matrix.columns, self.rows)
        if outcomes is not None and len(self.rows) == len(result.matrix.rows):
            result.measured[NAME] = outcomes

    @hookimpl
    def after_prepare(self, stream: Stream) -> None:
        """Report the cost of perturbations, and connect to the cluster before training."""
        evaluation = stream.tasks[0].evaluation
        if not isinstance(evaluation, Evaluation):
            return
        if evaluation.rollouts == "ray":
            from clframe.robot.ray_envs import check_cluster

            check_cluster()
        if evaluation.perturbations:
            each = evaluation.perturb_episodes or evaluation.episodes
            n = len(evaluation.perturbations)
            warn_user(
                f"each task of a row takes {evaluation.episodes} episodes and, for stream.perturb, "
                f"{n * each} more ({n} perturbations, {each} each)"
            )

    @hookimpl
    def teardown(self) -> None:
        """End the worker processes."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None


def _stops(task: Task) -> bool:
    evaluation = task.evaluation
    return isinstance(evaluation, Evaluation) and evaluation.stop is not None


def _measure(
    learner: Learner,
    task: Task,
    evaluation: Evaluation,
    pool: WorkerPool,
    names: Sequence[str],
    may_stop: bool,
) -> tuple[Tensor, str | None]:
    """Return the outcomes of an evaluation's episodes, of which this rank runs its share.

    Returns:
        A row for each episode and a column for each name, and why episodes are missing, if any are.
    """
    seeds = evaluation.seeds
    positions = learner.engine.share(torch.arange(len(seeds))).tolist()
    why: str | None = None

    def enough(first: Sequence[Outcome]) -> bool:
        nonlocal why
        assert evaluation.stop is not None
        successes = sum(outcome.success for outcome in first)
        why = evaluation.stop.why(successes, len(first), len(seeds))
        return why is not None

    stop = enough if may_stop and evaluation.stop is not None else None
    own = [seeds[position] for position in positions]
    outcomes = evaluate(learner, task, evaluation, pool, own, stop) if own else []
    rows = [{**o.measures, "success": o.success, "steps": o.steps} for o in outcomes]
    total = len(seeds) if stop is None else len(outcomes)
    values = torch.zeros(total, len(names), dtype=torch.float64)
    for position, row in zip(positions, rows, strict=False):
        values[position] = torch.tensor([float(row[name]) for name in names], dtype=torch.float64)
    values = values.to(learner.engine.device)
    learner.engine.sum({"outcomes": values})
    return values.cpu(), why if total < len(seeds) else None


def _means(values: Tensor, names: Sequence[str]) -> dict[str, float]:
    """Return the means over episodes; NaN values are left out."""
    valid = ~values.isnan()
    means = values.nan_to_num(0.0).sum(0) / valid.sum(0).double()
    return dict(zip(names, means.tolist(), strict=True))


def _cell(
    evaluation: Evaluation, values: Tensor, names: Sequence[str], why: str | None
) -> dict[str, Any]:
    """Return the record of a cell's episodes."""
    columns = dict(zip(names, values.T.tolist(), strict=True))
    columns.pop("steps", None)
    cell: dict[str, Any] = {"identity": evaluation.identity, "values": columns}
    if why is not None:
        assert evaluation.stop is not None
        cell["stopped"] = {
            "episodes": len(values),
            "of": evaluation.episodes,
            "why": why,
            "alpha": evaluation.stop.alpha,
        }
    return cell
