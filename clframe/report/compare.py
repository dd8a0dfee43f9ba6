"""Compare strategies over seeds: mean, standard error and Welch's test against the best.

As in the tables of LIBERO (Liu et al., NeurIPS 2023): the best mean is marked, and also every
strategy that a two-tailed Welch t-test at 0.05 does not distinguish from it. Runs of different
streams or scenarios never share a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clframe.core.matrix import names_differ
from clframe.errors import SettingError, nearest
from clframe.evaluation.class_sizes import class_line
from clframe.report.differences import difference_columns, difference_notes
from clframe.report.metric_formats import (
    HEADLINES,
    format_value,
    higher_is_better,
    sort_metrics,
    unit,
)
from clframe.report.run_settings import differing, flatten, setting
from clframe.runs.reader import Run
from clframe.utils.statistics import Summary, WelchTest, summarize, welch

ALPHA = 0.05
ALL = "all"


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed: one row of a table."""

    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Cell:
    """One strategy under one metric."""

    summary: Summary | None
    """None if no run of the group has the metric."""
    best: bool = False
    test: WelchTest | None = None
    """Against the best; None for the best itself and if a single seed allows no test."""

    @property
    def not_worse(self) -> bool:
        """Whether the test does not distinguish this strategy from the best."""
        return self.test is not None and self.test.p_value >= ALPHA


@dataclass(frozen=True)
class Table:
    """All strategies of one stream and scenario: `cells[metric][i]` belongs to `groups[i]`."""

    stream: str
    scenario: str
    groups: tuple[Group, ...]
    metrics: tuple[str, ...]
    cells: dict[str, tuple[Cell, ...]]
    better: dict[str, bool | None] = field(default_factory=dict)
    """Whether higher is better; None if neither is."""
    units: dict[str, str] = field(default_factory=dict)
    """Unit of each metric, if known."""
    differences: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Memory, and settings besides the strategy in which the groups differ, a text per group."""
    notes: tuple[str, ...] = field(default=())


def compare(
    runs: Sequence[Run], metrics: Sequence[str] = (), by: Sequence[str] = ()
) -> list[Table]:
    """Return one table per stream and scenario, in order of first appearance.

    Args:
        runs: The runs, in any order.
        metrics: Full names such as `gem.bwt` or `timing.train_seconds`; empty for the headline
            metrics that the runs have, `["all"]` for every metric.
        by: Dotted names of settings that distinguish rows besides the strategy.

    Raises:
        SettingError: No run has a metric of that name, or no run has that setting.
    """
    _check_metrics(runs, metrics)
    _check_settings(runs, by)
    tables: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        tables.setdefault((run.result.stream, run.result.scenario), []).append(run)
    return [_table(members, metrics, by) for members in tables.values()]


def values_of(run: Run) -> dict[str, float | None]:
    """Return all comparable values of a run: metrics, and `timing.` and `memory.` values."""
    timing = {f"timing.{name}": value for name, value in run.timing.items()}
    memory = {f"memory.{name}": float(value) for name, value in run.result.memory.items()}
    return {**run.metrics, **timing, **memory}


def _check_metrics(runs: Sequence[Run], metrics: Iterable[str]) -> None:
    available = dict.fromkeys(name for run in runs for name in values_of(run))
    for metric in metrics:
        if metric != ALL and metric not in available:
            raise SettingError(f"no run has a metric {metric!r}; {nearest(metric, available)}")


def _check_settings(runs: Sequence[Run], by: Iterable[str]) -> None:
    for name in by:
        if all(setting(run, name) == "unset" for run in runs):
            raise SettingError(f"no run has a setting {name!r} in its config.yaml.")


def _table(runs: Sequence[Run], metrics: Sequence[str], by: Sequence[str]) -> Table:
    notes: list[str] = []
    labeled: dict[str, list[Run]] = {}
    for run in runs:
        labeled.setdefault(_label(run, by), []).append(run)
    groups = tuple(Group(label, _once(label, members, notes)) for label, members in labeled.items())
    if names_differ([run.result.matrix for group in groups for run in group.runs]):
        notes.append("The runs do not all have the same experiences, tasks and measure.")
    for group in groups:
        line = class_line([run.result for run in group.runs])
        if line is not None:
            notes.append(f"{group.label}: {line}.")
    shown = _metrics_of([run for group in groups for run in group.runs], metrics)
    facts = {name: info for run in runs for name, info in run.result.metric_facts.items()}
    better = {metric: higher_is_better(metric, facts) for metric in shown}
    units = {metric: unit(metric, facts) for metric in shown}
    groups = _best_first(groups, shown, better)
    cells = {metric: _cells(groups, metric, better[metric]) for metric in shown}
    rows = {group.label: group.runs for group in groups}
    notes += difference_notes(rows, by)
    first = runs[0].result
    return Table(
        first.stream,
        first.scenario,
        groups,
        tuple(shown),
        cells,
        better,
        units,
        difference_columns(rows, by),
        tuple(notes),
    )


def _best_first(
    groups: tuple[Group, ...], metrics: Sequence[str], better: Mapping[str, bool | None]
) -> tuple[Group, ...]:
    """Sort the groups by the first metric with a direction; groups without it come last."""
    metric = next((name for name in metrics if better[name] is not None), None)
    if metric is None:
        return groups

    def rank(group: Group) -> float:
        values = [x for run in group.runs if (x := values_of(run).get(metric)) is not None]
        mean = summarize(values).mean if values else math.nan
        return math.inf if math.isnan(mean) else -mean if better[metric] else mean

    return tuple(sorted(groups, key=rank))


def _label(run: Run, by: Sequence[str]) -> str:
    extra = ", ".join(f"{name}={setting(run, name)}" for name in by)
    return f"{run.result.strategy} [{extra}]" if extra else run.result.strategy


def _once(label: str, runs: Sequence[Run], notes: list[str]) -> tuple[Run, ...]:
    """Drop repeats of a run, which are not independent samples, and note mixed settings."""
    kept: dict[object, Run] = {}
    for run in sorted(runs, key=lambda run: (run.result.seed, str(run.folder))):
        identity = None if run.settings is None else repr(sorted(flatten(run.settings)))
        columns = tuple(run.result.matrix.columns)
        kept[run.result.seed, identity, columns] = run  # The newest folder wins.
    if len(kept) < len(runs):
        notes.append(
            f"{label}: {len(runs) - len(kept)} repeat(s) of the same seed and settings left out."
        )
    members = tuple(kept.values())
    mixed = differing(members)
    if mixed:
        names = ", ".join(mixed[:4]) + (", ..." if len(mixed) > 4 else "")
        notes.append(
            f"{label}: its runs differ in more than the seed ({names}); "
            f"tell them apart with --by {mixed[0]}."
        )
    return members


def _metrics_of(runs: Sequence[Run], chosen: Sequence[str]) -> list[str]:
    if chosen and ALL not in chosen:
        return list(dict.fromkeys(chosen))
    available = sort_metrics(
        name for run in runs for name, value in run.metrics.items() if value is not None
    )
    if ALL in chosen:
        return available
    return [name for name in HEADLINES if name in available] or available


def _cells(groups: Sequence[Group], metric: str, higher: bool | None) -> tuple[Cell, ...]:
    samples: list[list[float]] = []
    for group in groups:
        values = (values_of(run).get(metric) for run in group.runs)
        samples.append([value for value in values if value is not None])
    summaries = [summarize(sample) if sample else None for sample in samples]
    means = [summary.mean for summary in summaries if summary is not None]
    # With nothing to compare, or with no best one, a star in every row would say nothing.
    if len(means) < 2 or higher is None or len({format_value(mean) for mean in means}) == 1:
        return tuple(Cell(summary) for summary in summaries)
    top = max(means) if higher else min(means)
    first = next(i for i, s in enumerate(summaries) if s is not None and s.mean == top)
    cells = []
    for sample, summary in zip(samples, summaries, strict=True):
        best = summary is not None and summary.mean == top
        test = None if best or summary is None else welch(sample, samples[first])
        cells.append(Cell(summary, best, test))
    return tuple(cells)
