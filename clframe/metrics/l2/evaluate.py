"""Evaluate one lifetime: read, preprocess, measure regimes, then tasks, then the lifetime.

New, Baker, Nguyen, Vallabha, "Lifelong Learning Metrics", 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clframe.errors import DataError
from clframe.metrics.l2.aggregate import lifetime_metrics
from clframe.metrics.l2.experts import Curve
from clframe.metrics.l2.log_checks import Log, checked_log, choose_measure
from clframe.metrics.l2.log_rows import read_rows
from clframe.metrics.l2.preprocess import preprocess
from clframe.metrics.l2.profiles import REFERENCE_DEFECTS, Settings, make_settings
from clframe.metrics.l2.regime_metrics import Measured, measure
from clframe.metrics.l2.regimes import Regime, find_regimes
from clframe.metrics.l2.result import L2Result, Series
from clframe.metrics.l2.task_metrics import TaskParts, task_metrics
from clframe.metrics.l2.transfer import transfer


def evaluate(
    lifetime: object, ste: Sequence[object] = (), profile: str = "paper", **settings: Any
) -> L2Result:
    """Compute all L2 metrics of one lifetime.

    Args:
        lifetime: An l2logger folder, a TSV file, or a table in memory.
        ste: Logs of single-task experts in the same forms, each with exactly one trained task.
        profile: ``paper``, or ``reference`` to reproduce l2metrics 3.1.0.
        **settings: Settings by the names of the reference program, see `make_settings`.
    """
    options = make_settings(profile, **settings)
    rows = read_rows(lifetime)
    measure_name = choose_measure(rows, options.perf_measure)
    log = checked_log(rows, measure_name, options.agnostic)
    if not len(log):
        raise DataError(f"{rows.name} has no complete experience with a value of {measure_name!r}.")
    experts = [read_expert(source, measure_name, options) for source in ste]
    return evaluate_logs(log, experts, options)


def read_expert(source: object, measure_name: str, settings: Settings) -> Log:
    """Read a single-task expert's log; raise an error unless it trains exactly one task."""
    rows = read_rows(source)
    log = checked_log(rows, choose_measure(rows, measure_name), settings.agnostic)
    trained = [log.task_names[i] for i in np.unique(log.task[log.train])]
    if len(trained) != 1:
        raise DataError(
            f"{rows.name} is not the log of a single-task expert: it trains "
            + (f"{len(trained)} tasks ({', '.join(trained)})." if trained else "no task.")
        )
    return log


def evaluate_logs(log: Log, experts: Sequence[Log], settings: Settings) -> L2Result:
    """Compute all metrics from checked logs."""
    by_params = not settings.reference
    regimes = find_regimes(log, by_params)
    raw = [regime.value for regime in regimes]
    notes: list[str] = []
    if settings.reference:
        notes += [f"Profile 'reference' reproduces a defect: {text}." for text in REFERENCE_DEFECTS]
    expert_regimes = _expert_regimes(experts, {r.task for r in regimes}, by_params, notes)
    ranges = preprocess(regimes, [r for _, training in expert_regimes for r in training], settings)
    # The reference program lists the expert stored last first; so does clframe.
    curves: dict[str, list[Curve]] = {}
    for task, of_expert in reversed(expert_regimes):
        curves.setdefault(task, []).append(Curve.of(of_expert))

    measured = [measure(regime, settings) for regime in regimes]
    valid = _hide_wake_evaluations(measured, settings)
    appearance = list(dict.fromkeys(regime.task for regime in regimes))
    moved, transfer_notes = transfer(valid, appearance, settings.transfer_kinds, settings.reference)
    notes += transfer_notes
    tasks = _by_task(measured, valid)
    block_index = _learning_block_index(regimes)
    result = {
        name: task_metrics(
            name, regimes_of, block_index, moved, curves.get(name, []), settings, notes
        )
        for name, regimes_of in tasks.items()
    }
    if settings.reference and sum(len(t["recovery_times"]) for t in result.values()) < 2:
        for values in result.values():
            values["recovery_times"] = []
    return L2Result(
        lifetime=lifetime_metrics(result, settings),
        tasks=result,
        regimes=[_regime_row(item, settings) for item in measured],
        settings=settings.as_dict(),
        profile=settings.profile,
        name=log.name,
        measure=log.measure,
        unique_tasks=list(tasks),
        normalization_data_range=None
        if ranges is None
        else {task: {"min": low, "max": high} for task, (low, high) in ranges.items()},
        min=min(values["min"] for values in result.values()),
        max=max(values["max"] for values in result.values()),
        num_lx=int(log.train.sum()),
        num_ex=int((~log.train).sum()),
        notes=list(dict.fromkeys(notes)),
        scenario=log.scenario,
        series=[
            Series(r.task, r.train, r.block_num, r.exp_num, before, r.value)
            for r, before in zip(regimes, raw, strict=True)
        ],
        expert_curves={task: [c.value for c in of_task] for task, of_task in curves.items()},
    )


def _expert_regimes(
    experts: Sequence[Log], tasks: set[str], by_params: bool, notes: list[str]
) -> list[tuple[str, list[Regime]]]:
    """Return training regimes of each expert whose task occurs in the lifetime."""
    training = []
    for expert in experts:
        of_expert = [r for r in find_regimes(expert, by_params) if r.train]
        if of_expert[0].task in tasks:
            training.append((of_expert[0].task, of_expert))
        else:
            notes.append(
                f"{expert.name} is an expert of {of_expert[0].task}, "
                "which the lifetime does not contain."
            )
    return training


def _hide_wake_evaluations(measured: Sequence[Measured], settings: Settings) -> list[Measured]:
    """Leave out wake evaluations if the lifetime evaluates after sleep.

    The profile `reference` does so even if only learning blocks sleep.
    """
    asleep = any(m.regime.sleep and (settings.reference or not m.regime.train) for m in measured)
    valid = []
    for item in measured:
        if asleep and not item.regime.train and not item.regime.sleep:
            item.avg_perf = None
        else:
            valid.append(item)
    return valid


def _by_task(measured: Sequence[Measured], valid: Sequence[Measured]) -> dict[str, TaskParts]:
    """Group regimes by task: trained tasks in order of first training, then the others."""
    trained = [m.regime.task for m in measured if m.regime.train]
    names = dict.fromkeys([*trained, *(m.regime.task for m in measured)])
    by_task = {name: TaskParts([], []) for name in names}
    for item in measured:
        by_task[item.regime.task].all.append(item)
    for item in valid:
        by_task[item.regime.task].valid.append(item)
    return by_task


def _learning_block_index(regimes: Sequence[Regime]) -> dict[int, int]:
    """Count the learning blocks 0, 1, 2, ... over the lifetime."""
    blocks = dict.fromkeys(r.block_num for r in regimes if r.train)
    return {block: index for index, block in enumerate(blocks)}


def _regime_row(item: Measured, settings: Settings) -> dict[str, Any]:
    regime = item.regime
    row: dict[str, Any] = {
        "regime_num": regime.number,
        "block_num": regime.block_num,
        "block_type": "train" if regime.train else "test",
        "block_subtype": "sleep" if regime.sleep else "wake",
        "task_name": regime.task,
        "length": regime.length,
        "avg_perf": item.avg_perf,
        "saturation": item.saturation,
        "exp_to_sat": item.exp_to_sat,
        "term_perf": item.term_perf,
        "exp_to_term_perf": item.exp_to_term_perf,
    }
    if item.recovery_time is not None:
        row["recovery_time"] = item.recovery_time
        if not settings.reference:
            row["droop"] = item.droop
            row["recovery_rate"] = item.recovery_rate
    for kind, value in item.maintenance.items():
        row[f"maintenance_val_{kind}"] = value
    return row
