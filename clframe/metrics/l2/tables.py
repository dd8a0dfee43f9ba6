"""Results as plain text tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clframe.metrics.catalog import CATALOG
from clframe.metrics.l2.lifetimes import LifetimesResult
from clframe.metrics.l2.result import L2Result
from clframe.utils.console import printable


def task_table(result: L2Result) -> str:
    """Return one line per task: training data and metrics. Transfer is TO the task."""
    kind = "contrast" if "forward_transfer_contrast" in result.lifetime else "ratio"
    maintenance = [k for k in result.lifetime if k.startswith("perf_maintenance_")]
    columns: list[tuple[str, Any]] = [
        ("LX", lambda _, t: t["num_lx"]),
        ("EX", lambda _, t: t["num_ex"]),
        ("train", lambda _, t: t["avg_train_perf"]),
        ("eval", lambda _, t: t["avg_eval_perf"]),
        *((f"PM {key[17:]}", lambda _, t, key=key: t[key]) for key in maintenance),
        (f"FT {kind}", lambda name, _: _to(result, f"forward_transfer_{kind}", name)),
        (f"BT {kind}", lambda name, _: _to(result, f"backward_transfer_{kind}", name)),
        ("PR", lambda _, t: t["perf_recovery"]),
        ("RP", lambda _, t: t["ste_rel_perf"]),
        ("SE", lambda _, t: t["sample_efficiency"]),
    ]
    if "cumulative_gain" in result.lifetime:
        columns += [
            ("CG", lambda _, t: t["cumulative_gain"]),
            ("LB", lambda _, t: t["learn_burn"]),
            ("droop", lambda _, t: t["droop"]),
            ("rec. rate", lambda _, t: t["recovery_rate"]),
        ]
    rows = [
        [name, *(_text(value(name, task)) for _, value in columns)]
        for name, task in result.tasks.items()
    ]
    return aligned(["task", *(title for title, _ in columns)], rows)


def lifetime_table(result: L2Result) -> str:
    """Return one line per lifetime metric with the direction that is better."""
    rows = [
        [name, _text(value), CATALOG[f"l2.{name}"].direction, CATALOG[f"l2.{name}"].meaning]
        for name, value in result.lifetime.items()
    ]
    return aligned(["lifetime metric", "value", "better", "meaning"], rows, left=(0, 2, 3))


def summary_table(result: LifetimesResult) -> str:
    """Return one line per metric over several lifetimes."""
    rows = []
    for name, s in result.summary.items():
        if s is None:
            rows.append([name, "-", "-", "-", "0"])
        else:
            interval = "-" if s.low is None else f"{_text(s.low)} .. {_text(s.high)}"
            rows.append([name, _text(s.mean), _text(s.standard_error), interval, str(s.n)])
    return aligned(["lifetime metric", "mean", "std. error", "95 % interval", "n"], rows)


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> str:
    """Align a table; columns listed in `left` are left-aligned, the others right-aligned.

    >>> print(aligned(["a", "b"], [["x", "10"], ["yy", "9"]]))
    a    b
    x   10
    yy   9
    """
    table = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _to(result: L2Result, key: str, target: str) -> float | None:
    values = [v for task in result.tasks.values() for v in task[key].get(target, [])]
    return sum(values) / len(values) if values else None


def _text(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
