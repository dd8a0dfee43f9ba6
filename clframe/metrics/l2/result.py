"""Result of an L2 evaluation: plain values, named as in the reference program's output."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clframe.metrics.l2.log_checks import Floats, Ints
from clframe.utils.files import write_text


@dataclass
class Series:
    """A regime as drawn in the plots: experience numbers, raw and preprocessed values."""

    task: str
    train: bool
    block_num: int
    exp_num: Ints
    raw: Floats
    value: Floats


@dataclass
class L2Result:
    """Metrics of one lifetime; a value that cannot be computed is None, with the reason in `notes`.

    With the profile `reference`, values that the program divides by 0 are infinite.
    """

    lifetime: dict[str, float | None]
    tasks: dict[str, dict[str, Any]]
    regimes: list[dict[str, Any]]
    settings: dict[str, Any]
    profile: str
    name: str
    measure: str
    unique_tasks: list[str]
    normalization_data_range: dict[str, dict[str, float]] | None
    min: float
    max: float
    num_lx: int
    num_ex: int
    notes: list[str] = field(default_factory=list)
    scenario: dict[str, Any] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list, repr=False)
    expert_curves: dict[str, list[Floats]] = field(default_factory=dict, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return everything except the curves as plain values that are valid JSON.

        Infinity, which JSON lacks, becomes the text ``inf`` or ``-inf``.
        """
        content: dict[str, Any] = plain(
            {
                "profile": self.profile,
                "log": self.name,
                "measure": self.measure,
                "settings": self.settings,
                "scenario": self.scenario,
                "lifetime": self.lifetime,
                "tasks": self.tasks,
                "regimes": self.regimes,
                "unique_tasks": self.unique_tasks,
                "normalization_data_range": self.normalization_data_range,
                "min": self.min,
                "max": self.max,
                "num_lx": self.num_lx,
                "num_ex": self.num_ex,
                "notes": self.notes,
            },
            infinity=str,
        )
        return content

    def save(self, path: str | Path) -> None:
        """Write `as_dict` as JSON, replacing the file in one step."""
        write_json(path, self.as_dict())


def plain(value: Any, infinity: Callable[[float], Any] = lambda _: None) -> Any:
    """Replace NaN and infinity by None throughout, because JSON has neither.

    Args:
        value: A value of mappings, lists and numbers.
        infinity: Returns the replacement of infinity.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner, infinity) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, infinity) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else infinity(value)
    return value


def write_json(path: str | Path, content: Any) -> None:
    """Write JSON under a temporary name, then rename it, so that no reader sees a partial file."""
    write_text(Path(path), json.dumps(content, indent=2, allow_nan=False) + "\n")
