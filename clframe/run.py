"""The whole diagram: a stream, a strategy and a model become a matrix and its metrics.

:func:`run` is the one loop over experiences; :func:`clframe.fit` makes its arguments from names.
"""

from __future__ import annotations

import contextlib

import torch

from clframe.checkpoint import identity, signals
from clframe.core import hooks
from clframe.core.learner import Learner
from clframe.core.matrix import BEFORE, AccuracyMatrix
from clframe.core.results import Result, Timing, environment
from clframe.core.stream import Stream, Task
from clframe.data import loader as workers
from clframe.runs.folder import RunFolder
from clframe.training import faults
from clframe.utils.console import notice


def run(learner: Learner, stream: Stream, strategy: str, folder: RunFolder | None = None) -> Result:
    """Learn the stream's experiences one after the other and fill the matrix.

    A folder that holds a checkpoint is continued at the very step; see :mod:`clframe.checkpoint`.

    Args:
        learner: Model, plugins and engine.
        stream: What to learn.
        strategy: The strategy's name, for the records.
        folder: Where the run is written; None to keep it in memory.
    """
    with contextlib.ExitStack() as around:
        around.enter_context(faults.as_sentences(learner, folder))
        around.callback(workers.end_all)
        if folder is not None:
            around.enter_context(folder.lock)
            around.enter_context(signals.listening(learner.keeper, folder.saving.signals))
        matrix, timing = set_up(learner, stream, folder)
        if folder is not None and learner.keeper.taken_up:
            notice(f"going on {learner.keeper.taken_up}")
        learn(learner, stream, matrix, timing)
        return conclude(learner, stream, strategy, matrix, timing, folder)


def learn(learner: Learner, stream: Stream, matrix: AccuracyMatrix, timing: Timing) -> None:
    """Learn what is left of the stream, evaluating every task after every experience."""
    engine, hook, keeper = learner.engine, learner.plugins.hook, learner.keeper
    if len(matrix.rows) == len(learner.seen):
        evaluate(learner, learner.seen[-1].name if learner.seen else BEFORE, matrix, timing)

    for experience in stream.experiences[len(learner.seen) :]:
        keeper.begin_experience()
        timing.start()
        learner.begin(experience)
        own = experience.data
        hook.before_experience(learner=learner, experience=experience)
        data = hooks.training_data(learner, experience, own)
        hooks.fit_experience(learner, experience, data, engine.settings.budget)
        learner.seen.append(experience)
        hook.after_experience(learner=learner, experience=experience, data=own.to(engine.device))
        engine.agree(learner)
        timing.stop()
        keeper.end_experience()
        evaluate(learner, experience.name, matrix, timing)
    keeper.finish()


def conclude(
    learner: Learner,
    stream: Stream,
    strategy: str,
    matrix: AccuracyMatrix,
    timing: Timing,
    folder: RunFolder | None,
) -> Result:
    """The result of a run that has come to its end, written where there is a folder."""
    engine = learner.engine
    result = Result(
        stream=stream.name,
        strategy=strategy,
        scenario=stream.scenario,
        seed=learner.seed,
        matrix=matrix,
        source=stream.source,
        task_of_row=[[task.index for task in experience.tasks] for experience in stream],
        curves=learner.curves,
        pretrain=learner.pretrained,
        timing=timing.to_json(learner.samples, engine.device),
        environment=environment(str(engine.device)),
        run_dir=folder.path if folder else None,
    )
    result.metrics = engine.from_zero(hooks.metrics(learner, result))
    if folder is not None:
        folder.write(result)
    learner.plugins.hook.after_run(learner=learner, result=result)
    return result


def set_up(
    learner: Learner, stream: Stream, folder: RunFolder | None
) -> tuple[AccuracyMatrix, Timing]:
    """Make everything ready to learn: as new, or as the folder's checkpoint left it."""
    learner.plugins.hook.configure(learner=learner, stream=stream)
    learner.engine.attach(learner)
    matrix, timing = AccuracyMatrix([task.name for task in stream.tasks]), Timing()
    keeper = learner.keeper
    if folder is None:
        keeper.open(matrix, timing)
        point = None
    else:
        checkpoints = folder.checkpoints
        keeper.open(matrix, timing, checkpoints, folder.saving, folder.identity)
        point = checkpoints.newest()
        if point is not None:
            meant = identity.compare(point.identity, folder.identity, folder.allowed, folder.path)
            for difference in meant:
                notice(f"{difference}, as resume.allow says")
            if meant:
                folder.write_config()
    point = learner.engine.from_zero(point)
    if point is not None:
        keeper.take_up(point)
    return matrix, timing


def tasks_to_measure(learner: Learner) -> list[Task]:
    """All tasks or those learned so far; between two full rows only the newest ones.

    See ``trainer.evaluate_every`` and ``trainer.evaluate_tasks``.
    """
    stream, seen, how = learner.stream, learner.seen, learner.engine.settings
    if seen and len(seen) % how.evaluate_every and len(seen) != len(stream):
        return list(seen[-1].tasks)
    if how.evaluate_tasks == "all":
        return list(stream.tasks)
    learned = {task.name for one in seen or stream.experiences[:1] for task in one.tasks}
    return [task for task in stream.tasks if task.name in learned]


def evaluate(
    learner: Learner, row: str, matrix: AccuracyMatrix, timing: Timing, record: bool = True
) -> None:
    """Measure the learner on the tasks, learned or not: one row of the matrix."""
    keeper = learner.keeper
    results = keeper.evaluated() if record else {}
    learner.eval()
    tasks = [task for task in tasks_to_measure(learner) if task.name not in results]
    with timing.measuring():
        with torch.inference_mode():
            results |= hooks.evaluate_tasks(learner, tasks) if tasks else {}
        for task in tasks:
            if task.name not in results:
                with torch.inference_mode():
                    results[task.name] = hooks.evaluate_task(learner, task)
                if record:
                    keeper.after_task(results)
    learner.train()
    matrix.measure = next(iter(next(iter(results.values()))))
    matrix.add_row(row, {name: measures[matrix.measure] for name, measures in results.items()})
    if record:
        learner.plugins.hook.after_evaluation(learner=learner, row=row, results=results)
