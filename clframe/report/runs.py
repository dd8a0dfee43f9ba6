"""Find run folders and read what is in them.

A run folder holds `results.json` (schema 1), and mostly `events.jsonl` and `config.yaml`. What is
ill-formed in `results.json` is refused with the path and the field; what is unknown is ignored, so
that newer runs can still be reported.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from clframe.errors import RunFolderError

SCHEMA = 1
RESULTS = "results.json"
BEFORE = "before"
_ROUNDING = 1e-6  # how far a fraction may lie outside 0..1 by rounding alone

Cells = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """Rows in order of learning (the first may be "before"), a column per task, None if unknown."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Cells
    measure: str = "accuracy"

    @classmethod
    def of(cls, matrix: Matrix | Mapping[str, Any]) -> Matrix:
        """A matrix as it is, or made from the object `matrix` of a `results.json`.

        >>> Matrix.of({"rows": ["exp0"], "columns": ["a", "b"], "values": [[0.5, None]]}).values
        ((0.5, None),)
        """
        if isinstance(matrix, Matrix):
            return matrix
        values = tuple(tuple(row) for row in matrix["values"])
        rows, columns = tuple(matrix["rows"]), tuple(matrix["columns"])
        return cls(rows, columns, values, matrix.get("measure", "accuracy"))


@dataclass(frozen=True)
class Epoch:
    """One line of training progress: mean loss of an epoch of an experience."""

    experience: int
    epoch: int
    loss: float


@dataclass(frozen=True)
class Run:
    """One run as its folder tells it."""

    folder: Path
    stream: str
    strategy: str
    scenario: str
    seed: int
    matrix: Matrix
    metrics: Mapping[str, float | None]
    """Scalar metrics by full name, such as `openloris.bwt`; None where undefined."""
    lists: Mapping[str, tuple[float | None, ...]]
    """Metrics per task by full name, such as `libero.fwt_k`."""
    timing: Mapping[str, float | None]
    environment: Mapping[str, str]
    epochs: tuple[Epoch, ...] = ()
    curves: Mapping[str, Mapping[str, tuple[float | None, ...]]] = field(default_factory=dict)
    """Values measured while learning, by experience and task, in order."""
    config: str | None = None
    """The text of `config.yaml`, if there is one."""
    other: Mapping[str, str] = field(default_factory=dict)
    """Further top-level scalars of `results.json`, such as where the data came from."""
    notes: tuple[str, ...] = ()
    """What the reader should know about this folder, one sentence each."""


@dataclass(frozen=True)
class Found:
    """Run folders below the given paths, and folders of runs that have not finished."""

    folders: tuple[Path, ...]
    unfinished: tuple[Path, ...]


def find_runs(paths: Iterable[Path]) -> Found:
    """Find the run folders at or below each path, each once, in order of their names.

    Args:
        paths: Run folders, `results.json` files, or any folders above run folders.

    Returns:
        Folders with a `results.json`, and those that only have the other files of a run.

    Raises:
        RunFolderError: A path does not exist or no finished run is there.
    """
    folders: dict[Path, Path] = {}
    unfinished: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise RunFolderError(f"{path} does not exist; name a run folder or a folder above it.")
        start = path.parent if path.name == RESULTS and path.is_file() else path
        if not start.is_dir():
            raise RunFolderError(f"{path} is a file, not a run folder or a folder above it.")
        here = 0
        for found, finished in _walk(start):
            (folders if finished else unfinished).setdefault(found.resolve(), found)
            here += finished
        if not here:
            raise RunFolderError(_nothing_found(start))
    return Found(tuple(folders.values()), tuple(unfinished.values()))


def _walk(start: Path) -> Iterable[tuple[Path, bool]]:
    for parent, below, files in os.walk(start):
        if RESULTS in files:
            below.clear()  # a run holds no runs
            yield Path(parent), True
        elif "events.jsonl" in files:
            below.clear()
            yield Path(parent), False
        else:
            below.sort()


def _nothing_found(folder: Path) -> str:
    if (folder / "events.jsonl").is_file() or (folder / "config.yaml").is_file():
        return (
            f"{folder} has no {RESULTS}, so its run has not finished; "
            f"continue it with 'clframe fit resume={folder}'."
        )
    return f"{folder} holds no finished run: there is no {RESULTS} in it or below it."


def read_run(folder: Path) -> Run:
    """Read one run folder.

    Raises:
        RunFolderError: `results.json` is missing, is not JSON, has another schema or lacks a field.
    """
    path = folder / RESULTS
    document = _Document(path)
    document.check_schema()
    metrics, lists = document.metrics()
    epochs, notes = _read_epochs(folder / "events.jsonl")
    return Run(
        folder=folder,
        stream=document.text("stream"),
        strategy=document.text("strategy"),
        scenario=document.text("scenario"),
        seed=document.integer("seed"),
        matrix=document.matrix(),
        metrics=metrics,
        lists=lists,
        timing=document.timing(),
        environment=_flat_text(document.mapping("environment", required=False)),
        epochs=epochs,
        curves=document.curves(),
        config=_read_text(folder / "config.yaml"),
        other=document.other(),
        notes=notes,
    )


class _Document:
    """A parsed `results.json` whose getters name the path and the field they miss."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = _read_text(path)
        if text is None:
            raise RunFolderError(_nothing_found(path.parent))
        try:
            self.root = json.loads(text, parse_constant=self._refuse_constant)
        except (json.JSONDecodeError, RecursionError) as error:
            place = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "nesting"
            raise RunFolderError(
                f"{path} is not valid JSON ({place}); it was damaged or is not a clframe result."
            ) from error
        if not isinstance(self.root, dict):
            raise RunFolderError(f"{path} must hold one JSON object, not {_kind(self.root)}.")

    def _refuse_constant(self, word: str) -> NoReturn:
        raise RunFolderError(f"{self.path} holds {word}, which is not JSON; unknown is null.")

    def fail(self, name: str, expected: str, value: object) -> NoReturn:
        got = "is missing" if value is _MISSING else f"is {_kind(value)}"
        raise RunFolderError(f"{self.path}: the field '{name}' {got}; it must be {expected}.")

    def check_schema(self) -> None:
        version = self.root.get("schema", _MISSING)
        if type(version) is not int:
            self.fail("schema", f"the schema version {SCHEMA}", version)
        if version != SCHEMA:
            raise RunFolderError(
                f"{self.path} has schema version {version}, but this clframe reads version "
                f"{SCHEMA}; use the clframe that wrote it or a newer one."
            )

    def text(self, name: str) -> str:
        value = self.root.get(name, _MISSING)
        if not isinstance(value, str) or not value.strip():
            self.fail(name, "a non-empty text", value)
        return value

    def integer(self, name: str) -> int:
        value = self.root.get(name, _MISSING)
        if type(value) is not int:
            self.fail(name, "a whole number", value)
        return value

    def mapping(self, name: str, *, required: bool) -> dict[str, Any]:
        value = self.root.get(name, _MISSING)
        if value is _MISSING and not required:
            return {}
        if not isinstance(value, dict):
            self.fail(name, "an object", value)
        return value

    def matrix(self) -> Matrix:
        matrix = self.mapping("matrix", required=True)
        rows = self._names(matrix, "rows")
        columns = self._names(matrix, "columns")
        values = matrix.get("values", _MISSING)
        if not isinstance(values, list) or len(values) != len(rows):
            self.fail("matrix.values", f"a list of {len(rows)} rows, one per name in rows", values)
        cells = []
        for i, row in enumerate(values):
            where = f"matrix.values[{i}]"
            if not isinstance(row, list) or len(row) != len(columns):
                self.fail(where, f"a list of {len(columns)} values, one per name in columns", row)
            cells.append(tuple(self._fraction(x, f"{where}[{j}]") for j, x in enumerate(row)))
        measure = matrix.get("measure", "accuracy")
        if not isinstance(measure, str):
            self.fail("matrix.measure", "a text such as 'accuracy'", measure)
        return Matrix(rows, columns, tuple(cells), measure)

    def _names(self, matrix: Mapping[str, Any], key: str) -> tuple[str, ...]:
        names = matrix.get(key, _MISSING)
        if not (isinstance(names, list) and names and all(isinstance(x, str) for x in names)):
            self.fail(f"matrix.{key}", "a non-empty list of names", names)
        return tuple(names)

    def _fraction(self, value: object, where: str) -> float | None:
        if value is None:
            return None
        number = _number(value)
        if number is None or not -_ROUNDING <= number <= 1 + _ROUNDING:
            self.fail(where, "a fraction in 0..1 or null", value)
        return number

    def metrics(self) -> tuple[dict[str, float | None], dict[str, tuple[float | None, ...]]]:
        """Metrics by full name: scalars, and flat lists (one value per task)."""
        scalars: dict[str, float | None] = {}
        lists: dict[str, tuple[float | None, ...]] = {}
        for name, value in _leaves(self.mapping("metrics", required=True), ""):
            number = _number(value)
            if number is not None or value is None:
                scalars[name] = number
            elif isinstance(value, list):
                if all(x is None or _number(x) is not None for x in value):
                    lists[name] = tuple(_number(x) for x in value)
            elif not isinstance(value, str | bool):  # words (settings, profiles) are no numbers
                self.fail(f"metrics.{name}", "a number or null", value)
        return scalars, lists

    def timing(self) -> dict[str, float | None]:
        leaves = _leaves(self.mapping("timing", required=False), "")
        return {name: _number(x) for name, x in leaves if x is None or _number(x) is not None}

    def curves(self) -> dict[str, dict[str, tuple[float | None, ...]]]:
        """Per experience and task, the values measured while learning; other shapes are skipped."""
        found: dict[str, dict[str, tuple[float | None, ...]]] = {}
        curves = self.root.get("curves")
        for row, tasks in curves.items() if isinstance(curves, dict) else ():
            for task, values in tasks.items() if isinstance(tasks, dict) else ():
                if isinstance(values, list) and values:
                    found.setdefault(row, {})[task] = tuple(_number(x) for x in values)
        return found

    def other(self) -> dict[str, str]:
        known = {"schema", "stream", "strategy", "scenario", "seed"}
        extra = {k: v for k, v in self.root.items() if k not in known}
        return {k: str(v) for k, v in extra.items() if isinstance(v, str | int | float) and v != ""}


_MISSING = object()


def _kind(value: object) -> str:
    """Describe a JSON value in a few characters."""
    if value is _MISSING:
        return "missing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _number(value: object) -> float | None:
    """The value as a finite float, or None if it is no such number (true and false are none)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _leaves(mapping: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, object]]:
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _flat_text(mapping: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else "-" if value is None else json.dumps(value)
        for name, value in _leaves(mapping, "")
    }


def _read_text(path: Path) -> str | None:
    """The text of a file, None if there is no such file."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RunFolderError(f"{path} cannot be read: {reason}.") from error


def _read_epochs(path: Path) -> tuple[tuple[Epoch, ...], tuple[str, ...]]:
    """Epoch events in order; of an epoch repeated after a resume, the last counts."""
    text = _read_text(path)
    if text is None:
        return (), (f"{path.name} is missing, so there is no loss curve.",)
    epochs: dict[tuple[int, int], Epoch] = {}
    unreadable = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            unreadable.append(number)  # a run killed while writing leaves such a line
            continue
        if not isinstance(event, dict) or event.get("event") != "epoch":
            continue
        experience, epoch, loss = (event.get(key) for key in ("experience", "epoch", "loss"))
        value = _number(loss)
        if type(experience) is int and type(epoch) is int and value is not None:
            epochs[experience, epoch] = Epoch(experience, epoch, value)
    notes = []
    if unreadable:
        shown = ", ".join(map(str, unreadable[:5])) + (", ..." if len(unreadable) > 5 else "")
        notes.append(f"{path.name}: {len(unreadable)} unreadable line(s) left out ({shown}).")
    return tuple(epochs[key] for key in sorted(epochs)), tuple(notes)


def names_differ(matrices: Sequence[Matrix]) -> bool:
    """Whether the matrices cannot be laid over each other: other rows, columns or measure."""
    return len({(m.rows, m.columns, m.measure) for m in matrices}) > 1
