"""What a run leaves behind: the matrix, the metrics, the timing and where it was made."""

from __future__ import annotations

import functools
import math
import platform
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from clframe.core.matrix import AccuracyMatrix
from clframe.utils.version import __version__

SCHEMA = 1
_PACKAGES = ("torch", "torchvision", "lightning", "pluggy", "hydra-core", "mujoco", "numpy", "timm")


@dataclass
class Result:
    """The outcome of one run.

    Args:
        stream: The stream's name.
        strategy: The strategy's name, parts joined by a plus sign.
        scenario: task, domain or class.
        seed: Of the run.
        matrix: One row per experience and one before, one column per task.
        source: Which data was used.
        task_of_row: For each learned row, the columns of the tasks it taught.
        curves: Per experience and task, the values measured during training.
        metrics: By family.
        timing: Seconds, speed and memory.
        environment: Versions, device, revision.
        pretrain: The run that the model's weights come from, if any.
        run_dir: Where the files are; None if none were written.
    """

    stream: str
    strategy: str
    scenario: str
    seed: int
    matrix: AccuracyMatrix
    source: str = ""
    task_of_row: list[list[int]] = field(default_factory=list)
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    pretrain: dict[str, Any] | None = None
    run_dir: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The content of results.json; what is unknown is null."""
        return {
            "schema": SCHEMA,
            "stream": self.stream,
            "strategy": self.strategy,
            "scenario": self.scenario,
            "seed": self.seed,
            "source": self.source,
            **({} if self.pretrain is None else {"pretrain": self.pretrain}),
            "matrix": self.matrix.to_json(),
            "curves": self.curves,
            "metrics": without_nan(self.metrics),
            "timing": without_nan(self.timing),
            "environment": self.environment,
        }


def without_nan(value: Any) -> Any:
    """The same with None in the place of numbers that JSON cannot hold.

    >>> without_nan({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def environment(device: str) -> dict[str, Any]:
    """Versions, device and revision: what is needed to make the same run again."""
    return {
        "clframe": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": dict(_versions()),
        "device": device,
        "revision": _revision(),
    }


@functools.cache
def _versions() -> dict[str, str | None]:
    """Of the packages that a run rests on; reading them takes a while, so only once."""
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


@functools.cache
def _revision() -> str | None:
    """The git revision of a development checkout; None for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
