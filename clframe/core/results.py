"""The result of a run: the matrix, the metrics, the timing and the environment."""

from __future__ import annotations

import functools
import math
import platform
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.core.matrix import AccuracyMatrix
from clframe.evaluation.class_sizes import class_line
from clframe.evaluation.forgetting_tensor import ForgettingTensor
from clframe.evaluation.intervals import intervals_json
from clframe.recording.results_file import SCHEMA, ResultsFile, leaves, number, run_folder
from clframe.utils.console import matrix_table
from clframe.utils.version import __version__

if TYPE_CHECKING:
    from torch import nn

_ROOT = Path(__file__).resolve().parents[2]
_SHOWN = ("gem.acc", "gem.bwt", "openloris.accuracy", "libero.auc")
"""Metrics that a printed result shows below its matrix."""
_PACKAGES = ("torch", "torchvision", "lightning", "pluggy", "hydra-core", "mujoco", "numpy", "timm")


@dataclass
class Result:
    """The outcome of one run.

    Args:
        stream: The stream's name.
        strategy: The strategy's name, parts joined by a plus sign.
        scenario: task, domain or class.
        seed: The run's seed.
        matrix: One row per experience and one before, one column per task.
        tensor: What was measured under perturbations, in addition to the matrix; may be empty.
        source: A description of the data.
        task_of_row: For each learned row, the columns of its tasks. Empty in a loaded result,
            because results.json does not contain it.
        curves: Per experience and task, the values measured during training.
        measured: What plugins measured in addition to the matrix (curves over steps, confusion
            matrices), by plugin name. A plugin stores it here in its hook ``metrics``.
        metrics: Metrics by family.
        timing: Seconds, speed and memory.
        memory: Samples and bytes that the strategy keeps between experiences; empty if unknown.
        environment: Versions, device, revision.
        acting: How a robot's policy chooses actions: its head and the rule; empty for other models.
        pretrain: The run that the model's weights come from, if any.
        fork: The run and the state that this run started from, what was changed, and how many
            experiences were learned since then (``learned_here``). None if the run started
            untrained.
        metric_facts: Direction and formula of metrics that are not clframe's own, by full name.
        run_dir: Where the files are; None if none were written.
        model: The trained model. None in a loaded result; use ``clframe.load`` there.

    Example:
        >>> from clframe.testing import toy_run, toy_stream
        >>> result, learner = toy_run([], toy_stream(), max_epochs=1)
        >>> result.matrix.columns, result.matrix.values.shape
        (['task0', 'task1', 'task2'], (4, 3))
        >>> result.scalars()["gem.bwt"] < 0
        True
    """

    stream: str
    strategy: str
    scenario: str
    seed: int
    matrix: AccuracyMatrix
    tensor: ForgettingTensor = field(default_factory=lambda: ForgettingTensor([]))
    source: str = ""
    task_of_row: list[list[int]] = field(default_factory=list)
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    acting: dict[str, Any] = field(default_factory=dict)
    pretrain: dict[str, Any] | None = None
    fork: dict[str, Any] | None = None
    metric_facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    run_dir: Path | None = None
    model: nn.Module | None = field(default=None, repr=False, compare=False)

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Load the result of a finished run.

        Args:
            path: The run folder, or its results.json.

        Raises:
            RunFolderError: results.json is missing, is not JSON, has another schema or lacks a
                field. The message names the file and the field.
        """
        folder = run_folder(Path(path).expanduser())
        return cls.from_file(ResultsFile(folder), folder)

    @classmethod
    def from_file(cls, file: ResultsFile, folder: Path) -> Result:
        """Make a result from the content of a results.json."""
        source, pretrain = file.root.get("source"), file.root.get("pretrain")
        fork = file.root.get("fork")
        matrix = AccuracyMatrix.from_json(file.matrix())
        return cls(
            stream=file.text("stream"),
            strategy=file.text("strategy"),
            scenario=file.text("scenario"),
            seed=file.integer("seed"),
            matrix=matrix,
            tensor=ForgettingTensor.from_json(matrix.columns, file.tensor()),
            source=source if isinstance(source, str) else "",
            curves=file.curves(),
            measured=file.measured(),
            metrics=file.metrics(),
            timing=file.timing(),
            memory=file.memory(),
            environment=file.mapping("environment", required=False),
            acting=file.mapping("acting", required=False),
            pretrain=pretrain if isinstance(pretrain, dict) else None,
            fork=fork if isinstance(fork, dict) else None,
            metric_facts=file.metric_facts(),
            run_dir=folder,
        )

    def __str__(self) -> str:
        """Return what the command line prints: the matrix and the headline metrics."""
        content = self.matrix.to_json()
        table = matrix_table(content["rows"], content["columns"], content["values"])
        numbers = self.scalars()
        lines = [
            f"{name:<20}{value:>8.3f}"
            for name in _SHOWN
            if (value := numbers.get(name)) is not None
        ]
        head = f"{self.strategy} on {self.stream} ({self.scenario}-incremental, seed {self.seed})"
        measure = f"{content['measure']} on each task (columns) after each experience (rows):"
        classes = class_line([self])
        lines += [] if classes is None else [classes]
        return "\n".join([head, measure, "", table, *([""] if lines else []), *lines])

    def scalars(self) -> dict[str, float | None]:
        """Return every metric that is a single number, by its full name such as ``gem.bwt``.

        Undefined metrics are None. Text values (settings, profiles) are left out.
        """
        values = leaves(without_nan(self.metrics))
        return {k: number(v) for k, v in values if v is None or number(v) is not None}

    def lists(self) -> dict[str, list[float | None]]:
        """Return every metric that is a list of numbers, such as ``libero.fwt_k``."""
        return {
            name: [number(value) for value in values]
            for name, values in leaves(without_nan(self.metrics))
            if isinstance(values, list) and all(v is None or number(v) is not None for v in values)
        }

    def to_json(self) -> dict[str, Any]:
        """Return the content of results.json; unknown values are null."""
        return {
            "schema": SCHEMA,
            "stream": self.stream,
            "strategy": self.strategy,
            "scenario": self.scenario,
            "seed": self.seed,
            "source": self.source,
            **({"acting": self.acting} if self.acting else {}),
            **({} if self.pretrain is None else {"pretrain": self.pretrain}),
            **({} if self.fork is None else {"fork": self.fork}),
            "matrix": self.matrix.to_json(),
            **({} if (sure := intervals_json(self)) is None else {"intervals": sure}),
            **({"tensor": self.tensor.to_json()} if self.tensor else {}),
            "curves": without_nan(self.curves),
            **({"measured": without_nan(self.measured)} if self.measured else {}),
            "metrics": without_nan(self.metrics),
            **({"metric_facts": self.metric_facts} if self.metric_facts else {}),
            "timing": without_nan(self.timing),
            **({"memory": self.memory} if self.memory else {}),
            "environment": self.environment,
        }


def without_nan(value: Any) -> Any:
    """Return the value with None in place of numbers that JSON cannot hold.

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


def software() -> dict[str, Any]:
    """Return the versions of clframe and its dependencies, and clframe's revision."""
    return {"clframe": __version__, "revision": _revision(), "versions": dict(_versions())}


def environment(device: str) -> dict[str, Any]:
    """Return the versions, the device and the revisions needed to repeat a run.

    ``revision`` is the revision of clframe's checkout. ``project`` is the revision of the user's
    repository, if the run starts inside one.
    """
    project = _project(Path.cwd())
    return {
        **software(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": device,
        **({} if project is None else {"project": project}),
    }


@functools.cache
def _versions() -> dict[str, str | None]:
    """Return the versions of a run's dependencies; cached, because reading them is slow."""
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


@functools.cache
def _revision() -> str | None:
    """Return the git revision of a development checkout; None for an installed package."""
    return _git(_ROOT, "rev-parse", "HEAD") if (_ROOT / ".git").exists() else None


@functools.cache
def _project(folder: Path) -> str | None:
    """Return the git revision of the user's repository, with ``-dirty`` if files were changed.

    None outside of a repository and within clframe's own.
    """
    root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
    if root is None or root == _ROOT:
        return None
    return _git(root, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")


def _git(folder: Path, *words: str) -> str | None:
    """Return the output of a git command; None if it fails or takes too long."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
