"""What a run leaves behind: the matrix, the metrics, the timing and where it was made."""

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
"""Numbers that a printed result has below its matrix."""
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
        tensor: What was measured beside the matrix under perturbations; empty where nothing was.
        source: Which data was used.
        task_of_row: For each learned row, the columns of the tasks it taught; empty in a result
            that was loaded, since results.json does not hold it.
        curves: Per experience and task, the values measured during training.
        measured: What plugins measured beside the matrix (curves over steps, confusion matrices),
            by the plugin's name; a plugin puts it here when its hook ``metrics`` is called.
        metrics: By family.
        timing: Seconds, speed and memory.
        memory: Samples and bytes that the strategy keeps between experiences; empty if unknown.
        environment: Versions, device, revision.
        acting: How the policy of a robot acts: its head and the rule by which actions are chosen;
            empty where nothing acts, or nothing is chosen.
        pretrain: The run that the model's weights come from, if any.
        fork: The run and the state in it that this one began with, what was changed there, and how
            many experiences were learned since (``learned_here``); None where it began untrained.
        metric_facts: Direction and formula, by full name, of metrics that clframe does not bring.
        run_dir: Where the files are; None if none were written.
        model: The trained model; None in a result that was loaded (``clframe.load`` has it then).

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
        """The result of a finished run.

        Args:
            path: The run folder, or the results.json in it.

        Raises:
            RunFolderError: results.json is missing, is not JSON, has another schema or lacks a
                field; the sentence names the file and the field.
        """
        folder = run_folder(Path(path).expanduser())
        return cls.from_file(ResultsFile(folder), folder)

    @classmethod
    def from_file(cls, file: ResultsFile, folder: Path) -> Result:
        """The result that a results.json holds, for those who need more of the file."""
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
        """What the command line shows: the matrix, and what became of it."""
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
        """Every metric that is one number, by its full name such as ``gem.bwt``.

        None where it is not defined. Words (settings, profiles) are left out.
        """
        values = leaves(without_nan(self.metrics))
        return {k: number(v) for k, v in values if v is None or number(v) is not None}

    def lists(self) -> dict[str, list[float | None]]:
        """Every metric that is a list of numbers, such as ``libero.fwt_k``."""
        return {
            name: [number(value) for value in values]
            for name, values in leaves(without_nan(self.metrics))
            if isinstance(values, list) and all(v is None or number(v) is not None for v in values)
        }

    def to_json(self) -> dict[str, Any]:
        """The content of results.json; what is unknown is null."""
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


def software() -> dict[str, Any]:
    """The version and revision of clframe, and the versions of what it needs."""
    return {"clframe": __version__, "revision": _revision(), "versions": dict(_versions())}


def environment(device: str) -> dict[str, Any]:
    """Versions, device and revisions: what is needed to make the same run again.

    ``revision`` is that of clframe's own checkout, ``project`` that of the user's, where the run is
    started within one.
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
    """Of the packages that a run depends on; reading them takes a while, so only once."""
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
    return _git(_ROOT, "rev-parse", "HEAD") if (_ROOT / ".git").exists() else None


@functools.cache
def _project(folder: Path) -> str | None:
    """The git revision of what the user works in, with ``-dirty`` where files were changed since.

    None outside of a repository and within clframe's own.
    """
    root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
    if root is None or root == _ROOT:
        return None
    return _git(root, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None if it says nothing, or not soon."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
