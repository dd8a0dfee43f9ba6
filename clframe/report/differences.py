"""Differences between the rows of a comparison besides the strategy: memory and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clframe.report.run_settings import differing, setting
from clframe.runs.reader import Run

Rows = Mapping[str, Sequence[Run]]
"""The runs of each row of a table, by its label."""

MEMORY = "memory"
_MOST = 5
"""Maximum number of settings with a column; a note names the others."""
_NOT_SHOWN = (
    "strategy",
    "seed",
    "logger.",
    "logging.",
    "checkpoint.",
    "fork.",
    "plugin_path",
    "download",
)
_NOT_SHOWN_SETTINGS = ("trainer.device_memory", "trainer.batched")
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def difference_columns(rows: Rows, by: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return a text per row for the memory and for each setting that differs between rows.

    Args:
        rows: The rows of a table.
        by: Settings that the rows' labels already name.
    """
    columns: dict[str, tuple[str, ...]] = {}
    texts = tuple(map(memory_text, rows.values()))
    if any(run.result.memory.get("bytes") for runs in rows.values() for run in runs):
        columns[MEMORY] = texts
    for name in _settings(rows, by)[:_MOST]:
        columns[name] = tuple(_value(runs, name) for runs in rows.values())
    return columns


def difference_notes(rows: Rows, by: Sequence[str]) -> list[str]:
    """Return notes that a reader needs before comparing the rows of a table."""
    notes = []
    keeping = {label: runs for label, runs in rows.items() if _samples(runs)}
    if len({_samples(runs) for runs in keeping.values()}) > 1:
        each = ", ".join(f"{label} {memory_text(runs)}" for label, runs in keeping.items())
        notes.append(f"The strategies keep different memories: {each}.")
    more = _settings(rows, by)[_MOST:]
    if more:
        notes.append(f"The rows differ in {len(more)} more settings: {', '.join(more)}.")
    return notes


def memory_text(runs: Sequence[Run]) -> str:
    """Return the samples and bytes that the runs of a row keep.

    >>> _amount({"samples": 1000, "bytes": 824_000})
    '1,000 samples (824 kB)'
    """
    texts = list(dict.fromkeys(_amount(run.result.memory) for run in runs))
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _amount(memory: Mapping[str, int]) -> str:
    if not memory:
        return "unknown"
    samples, size = memory.get("samples", 0), memory.get("bytes", 0)
    if not samples and not size:
        return "none"
    large = next(((size / unit, name) for unit, name in _UNITS if size >= unit), (size, "bytes"))
    text = f"{large[0]:.3g} {large[1]}"
    return f"{samples:,} samples ({text})" if samples else text


def _samples(runs: Sequence[Run]) -> tuple[int, ...]:
    """Return the different numbers of samples that the runs keep, without zero."""
    return tuple(sorted({run.result.memory.get("samples", 0) for run in runs} - {0}))


def _settings(rows: Rows, by: Sequence[str]) -> list[str]:
    """Return the settings besides the strategy's own that differ between rows."""
    names = differing([run for runs in rows.values() for run in runs])
    return [
        name
        for name in names
        if name not in by
        and not name.startswith(_NOT_SHOWN)
        and name not in _NOT_SHOWN_SETTINGS
        and len({_value(runs, name) for runs in rows.values()}) > 1
    ]


def _value(runs: Sequence[Run], name: str) -> str:
    values = dict.fromkeys(setting(run, name) for run in runs)
    return next(iter(values)) if len(values) == 1 else "mixed"
