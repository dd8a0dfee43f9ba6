"""The whole diagram: a stream, a strategy and a model become a matrix and its metrics.

:func:`run` is the one loop over experiences; :func:`clframe.fit` makes its arguments from names.
"""

from __future__ import annotations

import time

import torch

from clframe import checkpoint, hooks
from clframe.experience import Stream
from clframe.learner import Learner
from clframe.matrix import BEFORE, AccuracyMatrix
from clframe.results import Result, Timing, environment
from clframe.run_folder import RunFolder


def run(learner: Learner, stream: Stream, strategy: str, folder: RunFolder | None = None) -> Result:
    """Learn the stream's experiences one after the other and fill the matrix.

    A folder that holds a checkpoint is continued after the last experience it knows.

    Args:
        learner: Model, plugins and engine.
        stream: What to learn.
        strategy: The strategy's name, for the records.
        folder: Where the run is written; None to keep it in memory.
    """
    engine, hook = learner.engine, learner.plugins.hook
    matrix, timing = set_up(learner, stream, folder)
    if not matrix.rows:
        evaluate(learner, BEFORE, matrix, timing)

    for experience in stream.experiences[len(learner.seen) :]:
        started = time.perf_counter()
        learner.begin(experience)
        own = experience.data
        hook.before_experience(learner=learner, experience=experience)
        data = hooks.training_data(learner, experience, own)
        hooks.fit_experience(learner, experience, data, engine.settings.budget)
        learner.seen.append(experience)
        hook.after_experience(learner=learner, experience=experience, data=own.to(engine.device))
        timing.train_seconds += time.perf_counter() - started
        evaluate(learner, experience.name, matrix, timing)
        if folder is not None:
            checkpoint.save(folder.checkpoint, learner, matrix, timing)

    result = Result(
        stream=stream.name,
        strategy=strategy,
        scenario=stream.scenario,
        seed=learner.seed,
        matrix=matrix,
        source=stream.source,
        task_of_row=[[task.index for task in experience.tasks] for experience in stream],
        curves=learner.curves,
        timing=timing.to_json(learner.samples, engine.device),
        environment=environment(str(engine.device)),
        run_dir=folder.path if folder else None,
    )
    result.metrics = hooks.metrics(learner, result)
    if folder is not None:
        folder.write(result)
    hook.after_run(learner=learner, result=result)
    return result


def set_up(
    learner: Learner, stream: Stream, folder: RunFolder | None
) -> tuple[AccuracyMatrix, Timing]:
    """Make everything ready to learn: as new, or as the folder's checkpoint left it."""
    learner.plugins.hook.configure(learner=learner, stream=stream)
    learner.engine.attach(learner)
    matrix, timing = AccuracyMatrix([task.name for task in stream.tasks]), Timing()
    if folder is not None and folder.checkpoint.exists():
        state = checkpoint.read(folder.checkpoint, learner.engine.device)
        checkpoint.restore(state, learner, matrix, timing)
    return matrix, timing


def evaluate(
    learner: Learner, row: str, matrix: AccuracyMatrix, timing: Timing, record: bool = True
) -> None:
    """Measure the learner on every task, learned or not: one row of the matrix."""
    started = time.perf_counter()
    learner.eval()
    with torch.inference_mode():
        results = {t.name: hooks.evaluate_task(learner, t) for t in learner.stream.tasks}
    learner.train()
    matrix.measure = next(iter(results[matrix.columns[0]]))
    matrix.add_row(row, {name: measures[matrix.measure] for name, measures in results.items()})
    timing.eval_seconds += time.perf_counter() - started
    if record:
        learner.plugins.hook.after_evaluation(learner=learner, row=row, results=results)
