"""The right half of the diagram: a learner and a stream become a matrix and its metrics.

::

    build.py ─► for each experience: learn ─► evaluate every task ─► a row of the matrix
                                                        ▼
                            metrics ─► results.json ─► loggers, report

:func:`run` is the only loop over experiences. :func:`clframe.build.build` makes its arguments.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import cast

import torch

from clframe.checkpoint import identity, signals
from clframe.checkpoint.checkpointer import Checkpointer
from clframe.checkpoint.store import CheckpointInfo, CheckpointStore
from clframe.core import hooks
from clframe.core.learner import Learner
from clframe.core.matrix import BEFORE, AccuracyMatrix
from clframe.core.results import Result, environment
from clframe.core.state import RunState
from clframe.core.stream import Stream, Task
from clframe.data import loader
from clframe.errors import RunFolderError
from clframe.evaluation.kept_memory import kept_memory
from clframe.evaluation.schedule import tasks_of_row
from clframe.runs.data_record import listed, read_record
from clframe.runs.folder import RunFolder
from clframe.runs.machine_errors import translate_errors
from clframe.runs.plugin_faults import name_plugin, report_hanging_hooks
from clframe.runs.status import STATUS
from clframe.utils.console import warn_user


def run(learner: Learner, stream: Stream, strategy: str, folder: RunFolder | None = None) -> Result:
    """Learn the experiences of a stream in order and fill the matrix.

    If the folder holds a checkpoint, the run continues at the step where it stopped; see
    :mod:`clframe.checkpoint`.

    Args:
        learner: Model, plugins and engine.
        stream: What to learn.
        strategy: The strategy's name, for the records.
        folder: Where to write the run; None keeps it in memory.
    """
    with contextlib.ExitStack() as around:
        around.enter_context(translate_errors(learner, folder))
        around.callback(loader.end_all)
        if folder is not None:
            # Released last, because loggers write to the folder until teardown.
            around.callback(folder.lock.release)
        around.enter_context(name_plugin(learner, folder))  # covers teardown
        around.enter_context(_torn_down(learner))
        if folder is not None:
            around.enter_context(folder.entered())
        around.enter_context(name_plugin(learner, folder))
        state, checkpointer = set_up(learner, stream, folder)
        if folder is not None:
            folder.begin()
            names = folder.saving.signals
            around.enter_context(signals.listening(checkpointer.stop, names))
            if checkpointer.resumed_from:
                began = "resumed" if folder.resumed else "begun"
                warn_user(f"{began} {checkpointer.resumed_from}")
            for sentence in checkpointer.notes:
                warn_user(sentence)
        status = None if folder is None else folder.path / STATUS
        around.enter_context(report_hanging_hooks(learner, status))
        learn(learner, stream, state, checkpointer)
        return conclude(learner, stream, strategy, state, folder)


def set_up(
    learner: Learner,
    stream: Stream,
    folder: RunFolder | None,
    read_only: bool = False,
    final: bool = False,
) -> tuple[RunState, Checkpointer]:
    """Prepare the learner for a new run, or restore the folder's newest checkpoint.

    Args:
        learner: Model, plugins and engine.
        stream: The stream to learn.
        folder: The run folder, if any.
        read_only: Only read the run, even while another process continues it.
        final: Restore the end of a finished run.
    """
    state = learner.begin_run(stream)
    state.run_dir = None if folder is None else folder.path
    started = time.perf_counter()
    if not read_only:
        stream.prepare()  # Data comes first, because plugins may look at it.
    learner.plugins.hook.configure(learner=learner, stream=stream)
    learner.engine.bind(learner)
    seconds = time.perf_counter() - started
    info, checkpointer = None, Checkpointer(learner, state)
    if folder is not None:
        if folder.identity and not read_only:
            folder.identify(data=identity.describe_data(stream), device=learner.engine.device.type)
        store = folder.checkpoints
        checkpointer = Checkpointer(learner, state, store, folder.saving, folder.identity)
        info = store.newest(final=final)
        if info is None and folder.origin is not None and not read_only:
            info = folder.origin.give(store, folder.path, folder.identity)
        elif info is not None and not read_only:
            _check_identity(info.identity, folder)
            folder.check_files(info.files)
            _check_data(stream, folder)
        elif info is not None and info.identity and folder.identity:
            identity.check_settings(info.identity, folder.identity, folder.path)
    if not read_only:  # These may write, so they come after the checks.
        if folder is not None:
            folder.unseal()
        learner.plugins.hook.after_prepare(learner=learner, stream=stream, seconds=seconds)
    state.checkpointer = checkpointer
    info = learner.engine.broadcast(info)
    if info is not None:
        checkpointer.restore(info)
    return state, checkpointer


def replay(learner: Learner, stream: Stream, store: CheckpointStore, start: CheckpointInfo) -> None:
    """Learn one experience again from a checkpoint and evaluate after it; write nothing.

    Args:
        learner: Built like the run's learner, without a folder.
        stream: The run's stream.
        store: The run's checkpoints, only read.
        start: The checkpoint taken before the experience.
    """
    with contextlib.ExitStack() as around:
        around.enter_context(translate_errors(learner, None))
        around.callback(loader.end_all)
        around.enter_context(_torn_down(learner))
        state, checkpointer = set_up(learner, stream, None)
        Checkpointer(learner, state, store).restore(start)
        learn(learner, stream, state, checkpointer, until=len(state.seen) + 1)


def learn(
    learner: Learner,
    stream: Stream,
    state: RunState,
    checkpointer: Checkpointer,
    until: int | None = None,
) -> None:
    """Learn the remaining experiences, evaluating every task after each of them.

    Args:
        learner: Model, plugins and engine.
        stream: The stream to learn.
        state: How far the run is.
        checkpointer: Saves the run.
        until: Stop after this many experiences in total; None learns all.
    """
    engine, hook = learner.engine, learner.plugins.hook
    if len(state.matrix.rows) == len(state.seen):
        evaluate(learner, state.seen[-1].name if state.seen else BEFORE, checkpointer)

    for experience in stream.experiences[len(state.seen) : until]:
        checkpointer.begin_experience()
        state.timing.start()
        learner.begin(experience)
        data = experience.data
        hook.before_experience(learner=learner, experience=experience)
        all_data = hooks.training_data(learner, experience, data)
        hooks.fit_experience(learner, experience, all_data, engine.settings.budget)
        state.seen.append(experience)
        left = learner.data_for_plugins(experience, data).to(engine.device)
        hook.after_experience(learner=learner, experience=experience, data=left)
        engine.check_in_sync(learner)
        state.timing.stop()
        checkpointer.end_experience()
        evaluate(learner, experience.name, checkpointer)
    checkpointer.finish()


def evaluate(learner: Learner, row: str, checkpointer: Checkpointer) -> None:
    """Evaluate the learner on every task, learned or not, and add a row to the matrix."""
    state = learner.state
    results = measure(learner, checkpointer)
    add_row(state.matrix, row, results)
    state.tensor.add_row(results)
    learner.plugins.hook.after_evaluation(learner=learner, row=row, results=results)


def measure(
    learner: Learner, checkpointer: Checkpointer | None = None
) -> dict[str, dict[str, float]]:
    """Return the measures of each task by its name.

    A long evaluation is saved between two tasks.
    """
    results = {} if checkpointer is None else checkpointer.evaluated()
    learner.eval()
    tasks = [task for task in tasks_to_measure(learner) if task.name not in results]
    with learner.state.timing.measuring():
        hooks.on_progress(learner, "tasks", 0, len(tasks))
        with torch.inference_mode():
            results |= hooks.evaluate_tasks(learner, tasks) if tasks else {}
        for number, task in enumerate(tasks):
            if task.name not in results:
                hooks.on_progress(learner, "tasks", number, len(tasks), task.name)
                with torch.inference_mode():
                    results[task.name] = hooks.evaluate_task(learner, task)
                if checkpointer is not None:
                    checkpointer.after_task(results)
    learner.train()
    return results


def tasks_to_measure(learner: Learner) -> list[Task]:
    """Return the tasks of the next row; see :func:`clframe.evaluation.schedule.tasks_of_row`."""
    return tasks_of_row(learner.stream, learner.engine.evaluation, len(learner.seen))


def add_row(matrix: AccuracyMatrix, row: str, results: dict[str, dict[str, float]]) -> None:
    """Add a row to the matrix with the first measure of each task."""
    matrix.measure = next(iter(next(iter(results.values()))))
    matrix.add_row(row, {name: measures[matrix.measure] for name, measures in results.items()})


def conclude(
    learner: Learner, stream: Stream, strategy: str, state: RunState, folder: RunFolder | None
) -> Result:
    """Return the result of a finished run, and write it if there is a folder."""
    engine = learner.engine
    result = Result(
        stream=stream.name,
        strategy=strategy,
        scenario=stream.scenario,
        seed=learner.seed,
        matrix=state.matrix,
        tensor=state.tensor,
        source=stream.source,
        task_of_row=[
            [stream.columns.index(task.name) for task in experience.tasks] for experience in stream
        ],
        curves=state.curves,
        acting=dict(learner.acts),
        pretrain=learner.pretrained,
        fork=None if learner.forked is None else _forked(learner.forked, state),
        timing=state.timing.to_json(state.samples, engine.device),
        memory=kept_memory(learner),
        environment=environment(str(engine.device)),
        run_dir=folder.path if folder else None,
        model=learner.model,
    )
    result.metrics = engine.broadcast(hooks.metrics(learner, result))
    if folder is not None:
        folder.write(result)
    learner.plugins.hook.after_run(learner=learner, result=result)
    return result


def _forked(origin: dict[str, object], state: RunState) -> dict[str, object]:
    """Return the origin of a forked run as results.json records it."""
    at = cast(int, origin["at"])
    return {**origin, "learned_here": len(state.seen) - at}


@contextlib.contextmanager
def _torn_down(learner: Learner) -> Iterator[None]:
    """Let plugins clean up, whether the run succeeds or fails."""
    try:
        yield
    except BaseException as error:
        hooks.teardown(learner, error)
        raise
    hooks.teardown(learner, None)


def _check_identity(saved: dict[str, object], folder: RunFolder) -> None:
    """Refuse to continue a different run; report the differences that ``resume.allow`` permits."""
    allowed = identity.compare(saved, folder.identity, folder.allowed, folder.path)
    for difference in allowed:
        warn_user(f"{difference}, as allowed by resume.allow")
    if allowed:
        folder.write_config()


def _check_data(stream: Stream, folder: RunFolder) -> None:
    """Refuse to continue a run over the user's own data if that data has changed.

    Raises:
        RunFolderError: The data changed and ``resume.allow`` does not contain ``data``.
    """
    record = read_record(folder.path)
    if record is None or not record.own_data:
        return
    changes = record.changes(stream, stream.tasks)
    if changes and "data" not in folder.allowed:
        raise RunFolderError(
            f"cannot continue run '{folder.path}' as the same run: {listed(changes)}. To "
            "continue anyway, add resume.allow=[data]"
        )
    if changes:
        warn_user(f"{listed(changes)}, as allowed by resume.allow")
