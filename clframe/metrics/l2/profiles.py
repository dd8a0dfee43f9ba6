"""Settings of an L2 evaluation and the two profiles that give their defaults.

The names are those of the reference program (l2metrics 3.1.0), so both accept the same settings
file. The profile decides more than defaults: `reference` reproduces that program number by number,
including its defects (`REFERENCE_DEFECTS`); `paper` follows New et al., "Lifelong Learning
Metrics", 2022, and is right where the program is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import Any

from clframe.errors import SettingError, nearest

PROFILES = ("paper", "reference")

_CHOICES = {
    "variant_mode": ("aware", "agnostic"),
    "ste_averaging_method": ("metrics", "time"),
    "aggregation_method": ("mean", "median"),
    "maintenance_method": ("mrlep", "mrtlp", "both"),
    "transfer_method": ("contrast", "ratio", "both"),
    "normalization_method": ("task", "run", "none"),
    "smoothing_method": ("flat", "hanning", "hamming", "bartlett", "blackman", "none"),
}

REFERENCE_DEFECTS = (
    "task_params do not separate regimes, although the paper defines a regime by them",
    "odd smoothing windows lag by one sample, and saturation smooths the curve a second time",
    "experience-to-saturation counts from 0, and a task that saturates at once has no sample "
    "efficiency",
    "sample efficiency is set to 0, not to missing, for a falling curve or a low saturation",
    "transfer counts the target's own training, and keeps one source if several were trained "
    "between two evaluations",
    "lifetime maintenance is the mean of task means, not of all maintenance values",
    "a constant task is scaled by the rounding noise of its moving average",
    "sleep in training blocks hides all wake evaluations",
    "an expert whose performance sums to 0 or saturates at 0 gives an infinite ratio",
)


@dataclass(frozen=True)
class Settings:
    """Settings of preprocessing and aggregation, named as in the reference program."""

    profile: str = "paper"
    perf_measure: str | None = None
    variant_mode: str = "aware"
    ste_averaging_method: str = "metrics"
    aggregation_method: str = "mean"
    maintenance_method: str = "mrlep"
    transfer_method: str = "both"
    normalization_method: str = "task"
    smoothing_method: str = "flat"
    do_smooth_eval_data: bool = False
    window_length: int | None = None
    clamp_outliers: bool = True
    data_range: Mapping[str, Mapping[str, float]] | None = None

    @property
    def reference(self) -> bool:
        """Whether to reproduce the reference program."""
        return self.profile == "reference"

    @property
    def agnostic(self) -> bool:
        """Whether variants of a task count as one task."""
        return self.variant_mode == "agnostic"

    @property
    def maintenance_kinds(self) -> tuple[str, ...]:
        """The maintenance values to report."""
        return _both(self.maintenance_method, ("mrlep", "mrtlp"))

    @property
    def transfer_kinds(self) -> tuple[str, ...]:
        """The forms of transfer to report."""
        return _both(self.transfer_method, ("ratio", "contrast"))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


def _both(method: str, kinds: tuple[str, str]) -> tuple[str, ...]:
    return kinds if method == "both" else (method,)


def make_settings(profile: str = "paper", **chosen: Any) -> Settings:
    """Return checked settings: the defaults of a profile, updated with the given settings.

    >>> make_settings("reference").transfer_method
    'ratio'
    """
    if profile not in PROFILES:
        raise SettingError(f"profile is {profile!r}, but it must be 'paper' or 'reference'.")
    names = {f.name for f in fields(Settings)} - {"profile"}
    for name, value in chosen.items():
        if name not in names:
            raise SettingError(f"Unknown L2 setting {name!r}; {nearest(name, names)}")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise SettingError(
                f"{name} is {value!r}, but it must be one of {', '.join(_CHOICES[name])}."
            )
    for name in ("do_smooth_eval_data", "clamp_outliers"):
        if not isinstance(chosen.get(name, False), bool):
            raise SettingError(f"{name} is {chosen[name]!r}, but it must be true or false.")
    window = chosen.get("window_length")
    if window is not None and (
        isinstance(window, bool) or not isinstance(window, int) or window < 1
    ):
        raise SettingError(f"window_length is {window!r}, but it must be a whole number >= 1.")
    if chosen.get("data_range") is not None:
        chosen["data_range"] = _data_range(chosen["data_range"])
    if profile == "reference":
        chosen = {"transfer_method": "ratio", "clamp_outliers": False, **chosen}
    return Settings(profile=profile, **chosen)


def _data_range(ranges: Any) -> dict[str, dict[str, float]]:
    if not isinstance(ranges, Mapping):
        raise SettingError("data_range must map each task to its {'min': ..., 'max': ...}.")
    checked = {}
    for task, bounds in ranges.items():
        low = bounds.get("min") if isinstance(bounds, Mapping) else None
        high = bounds.get("max") if isinstance(bounds, Mapping) else None
        if not isinstance(low, Real) or not isinstance(high, Real) or not low <= high:
            raise SettingError(
                f"data_range of the task {task!r} must be {{'min': a, 'max': b}} with a <= b."
            )
        checked[str(task).lower()] = {"min": float(low), "max": float(high)}
    return checked
