"""All metrics of a task, from its regimes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.l2.experts import (
    Curve,
    averaged,
    mean,
    relative_performance,
    sample_efficiency,
)
from clframe.metrics.l2.maintenance import maintenance
from clframe.metrics.l2.profiles import Settings
from clframe.metrics.l2.regime_metrics import Measured, fill_recovery, theil_sen
from clframe.metrics.l2.transfer import Transfer
from clframe.metrics.l2.trends import trends

_EXPERT_LISTS = (
    "ste_rel_perf_vals",
    "ste_saturation_vals",
    "ste_exp_to_sat_vals",
    "se_saturation_vals",
    "se_exp_to_sat_vals",
    "sample_efficiency_vals",
)


@dataclass
class TaskParts:
    """Regimes of a task: all of them, and those that count (some wake evaluations may not)."""

    all: list[Measured]
    valid: list[Measured]


@metric(
    MetricInfo(
        "perf_recovery", "minus the Theil-Sen slope of recovery times over learning blocks",
        "minus the slope of recovery times",
    ),
    MetricInfo(
        "avg_train_perf", "mean over learning regimes of the regime mean",
        "mean performance while learning", low=1, high=101,
    ),
    MetricInfo(
        "avg_eval_perf", "mean over evaluation regimes of the regime mean",
        "mean performance in evaluations", low=1, high=101,
    ),
    family="l2",
    paper="New et al., 2022",
)  # fmt: skip
def task_metrics(
    name: str,
    parts: TaskParts,
    block_index: Mapping[int, int],
    moved: Transfer,
    experts: Sequence[Curve],
    settings: Settings,
    notes: list[str],
) -> dict[str, Any]:
    """Compute the metrics of one task.

    Args:
        name: The task.
        parts: Its regimes.
        block_index: Position of each learning block among the learning blocks of the lifetime.
        moved: Transfer values of all tasks.
        experts: Learning curves of the task's single-task experts.
        settings: Profile and aggregation.
        notes: List to which remarks are added.
    """
    learning = [m for m in parts.all if m.regime.train]
    awake = [m for m in learning if not m.regime.sleep]
    evaluations = [m for m in parts.valid if not m.regime.train]
    recovery_times = fill_recovery(awake, settings)
    # Index of a recovery's learning block in the lifetime; the program counts 0, 1, 2, ...
    at = [block_index[m.regime.block_num] for m in awake[1:]]
    if settings.reference or len(set(at)) < len(at):
        at = list(range(len(recovery_times)))
    recovery = theil_sen(at, recovery_times)
    kept = {kind: maintenance(parts.valid, kind) for kind in settings.maintenance_kinds}
    train_values = [m.avg_perf for m in learning if m.avg_perf is not None]
    eval_values = [m.avg_perf for m in evaluations if m.avg_perf is not None]
    result: dict[str, Any] = {
        "perf_recovery": None if recovery is None else -recovery + 0.0,
        "avg_train_perf": mean(train_values),
        "avg_eval_perf": mean(eval_values),
        **{
            f"perf_maintenance_{kind}": mean([v for group in groups for v in group])
            for kind, groups in kept.items()
        },
        **{kind: pairs[name] for kind, pairs in moved.items()},
        "ste_rel_perf": None,
        "sample_efficiency": None,
        "recovery_times": [float(time) for time in recovery_times],
        "avg_train_perf_vals": train_values,
        "avg_eval_perf_vals": eval_values,
        **{f"maintenance_val_{kind}": groups for kind, groups in kept.items()},
        **{key: [] for key in _EXPERT_LISTS},
        "se_task_saturation": None,
        "se_task_exp_to_sat": None,
        "min": min(float(m.regime.value.min()) for m in parts.all),
        "max": max(float(m.regime.value.max()) for m in parts.all),
        "num_lx": sum(m.regime.length for m in learning),
        "num_ex": sum(m.regime.length for m in parts.all) - sum(m.regime.length for m in learning),
    }
    if awake and experts:
        result |= _against_experts(name, awake, experts, settings, notes)
    if not settings.reference:
        result |= _paper_extras(name, awake, moved, settings)
    return result


def _against_experts(
    name: str,
    awake: Sequence[Measured],
    experts: Sequence[Curve],
    settings: Settings,
    notes: list[str],
) -> dict[str, Any]:
    curve = Curve.of([m.regime for m in awake])
    if settings.ste_averaging_method == "time":
        experts = averaged(experts)
    ratios = relative_performance(curve, experts, settings.reference)
    finite = [ratio for ratio in ratios if ratio is not None]
    if not all(math.isfinite(ratio) for ratio in finite):
        notes.append(f"{name}: an expert's performance sums to 0, so its RP is not finite.")
    if len(finite) < len(ratios):
        notes.append(f"{name}: an expert's performance sums to 0, so it gives no RP.")
    efficiency, remarks = sample_efficiency(curve, experts, settings)
    notes += [f"{name}: {remark}" for remark in remarks]
    return {"ste_rel_perf": mean(finite), "ste_rel_perf_vals": finite, **efficiency}


def _paper_extras(
    name: str, awake: Sequence[Measured], moved: Transfer, settings: Settings
) -> dict[str, Any]:
    """Return the metrics of the paper that the reference program lacks."""
    gain, burn, burn_rates = trends(awake, settings) if awake else (None, None, [])
    droops = [m.droop for m in awake[1:] if m.droop is not None]
    rates = [m.recovery_rate for m in awake[1:] if m.recovery_rate is not None]
    return {
        "cumulative_gain": gain,
        "learn_burn": burn,
        "burn_rates": burn_rates,
        "droop": mean(droops),
        "droop_vals": droops,
        "recovery_rate": mean(rates),
        "recovery_rate_vals": rates,
        # Transfer TO this task, averaged over its sources and over time.
        **{
            f"{kind}_avg": mean([v for targets in pairs.values() for v in targets.get(name, [])])
            for kind, pairs in moved.items()
        },
    }
