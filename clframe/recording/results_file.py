"""Read results.json; an invalid file raises an error that names the file and the field.

Unknown fields are ignored, so that the results of newer runs can still be read.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from clframe.errors import RunFolderError
from clframe.utils import regular
from clframe.utils.checksums import check_file
from clframe.utils.console import printable
from clframe.utils.regular import LARGEST

SCHEMA = 1
RESULTS = "results.json"
_FILES = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
_ROUNDING = 1e-6  # How far rounding may put a fraction outside of 0..1.
_MISSING = object()
_WANDB = "wandb"
"""Folder of W&B's own logs, with its links; it is not read as part of a run."""


def run_folder(path: str | Path) -> Path:
    """Return the run folder of a path: the path itself, or the folder of a results.json."""
    path = Path(path)
    return path.parent if path.name == RESULTS and path.is_file() else path


def refuse_links(folder: Path) -> None:
    """Refuse a run folder with a link out of it, a FIFO or a device.

    A received run must not make clframe read another file as part of it, or write to one when it is
    continued. A FIFO would block the reader forever.

    Raises:
        RunFolderError: Names the link and its target, or the file that is not regular.
    """
    root = folder.resolve()
    for parent, below, files in os.walk(folder):
        if Path(parent) == folder and _WANDB in below:
            below.remove(_WANDB)
        for name in (*below, *files):
            path = Path(parent) / name
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
                raise RunFolderError(
                    f"'{path}' is a link out of the run folder, to '{os.readlink(path)}': put the "
                    "file itself in its place"
                )
            if stat.S_IFMT(path.lstat().st_mode) not in _FILES:
                raise RunFolderError(
                    f"'{path}' is not a regular file (a FIFO, socket or device): remove it"
                )


class ResultsFile:
    """A parsed results.json whose getters name the file and the field they miss.

    Args:
        folder: The run folder.

    Raises:
        RunFolderError: There is no such file, it is not JSON, or it has another schema.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        refuse_links(folder)
        text = read_text(self.path)
        if text is None:
            raise RunFolderError(unfinished(folder))
        try:
            self.root = regular.parse_json(text, self._refuse_constant)
        except ValueError as error:
            where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else error
            raise RunFolderError(
                f"{self.path} is not valid JSON ({where}); "
                "it was damaged or is not a clframe result."
            ) from error
        if not isinstance(self.root, dict):
            raise RunFolderError(f"{self.path} must hold one JSON object, not {_kind(self.root)}.")
        self._check_schema()
        check_file(folder, RESULTS)

    def _refuse_constant(self, word: str) -> NoReturn:
        raise RunFolderError(
            f"{self.path} holds {word}, which is not JSON; write null for unknown."
        )

    def _check_schema(self) -> None:
        version = self.root.get("schema", _MISSING)
        if type(version) is not int:
            self._fail("schema", f"the schema version {SCHEMA}", version)
        if version != SCHEMA:
            raise RunFolderError(
                f"{self.path} has schema version {version}, but this clframe reads version "
                f"{SCHEMA}; use the clframe that wrote it or a newer one."
            )

    def _fail(self, name: str, expected: str, value: object) -> NoReturn:
        problem = "is missing" if value is _MISSING else f"is {_kind(value)}"
        raise RunFolderError(f"{self.path}: the field '{name}' {problem}; it must be {expected}.")

    def text(self, name: str) -> str:
        """Return a field that must hold a text."""
        value = self.root.get(name, _MISSING)
        if not isinstance(value, str) or not value.strip():
            self._fail(name, "a non-empty text", value)
        return printable(value)

    def integer(self, name: str) -> int:
        """Return a field that must hold a whole number."""
        value = self.root.get(name, _MISSING)
        if type(value) is not int:
            self._fail(name, "a whole number", value)
        return value

    def mapping(self, name: str, *, required: bool) -> dict[str, Any]:
        """Return a field that must hold an object; empty if it is missing and not required."""
        value = self.root.get(name, _MISSING)
        if value is _MISSING and not required:
            return {}
        if not isinstance(value, dict):
            self._fail(name, "an object", value)
        return value

    def matrix(self) -> dict[str, Any]:
        """Return the matrix in the form that AccuracyMatrix reads, checked."""
        matrix = self.mapping("matrix", required=True)
        rows = self._names(matrix, "rows")
        columns = self._names(matrix, "columns")
        values = matrix.get("values", _MISSING)
        if not isinstance(values, list) or len(values) != len(rows):
            self._fail("matrix.values", f"a list of {len(rows)} rows, one per name in rows", values)
        for i, row in enumerate(values):
            field = f"matrix.values[{i}]"
            if not isinstance(row, list) or len(row) != len(columns):
                self._fail(field, f"a list of {len(columns)} values, one per name in columns", row)
            for j, value in enumerate(row):
                self._check_fraction(value, f"{field}[{j}]")
        measure = matrix.get("measure", "accuracy")
        if not isinstance(measure, str):
            self._fail("matrix.measure", "a text such as 'accuracy'", measure)
        return {"rows": rows, "columns": columns, "values": values, "measure": measure}

    def tensor(self) -> dict[str, Any]:
        """Return the checked tensor in the form of ForgettingTensor; empty if there is none.

        Call it after `matrix`, because it has the same rows and columns.
        """
        empty: dict[str, Any] = {"axes": [], "levels": [], "values": []}
        tensor = self.mapping("tensor", required=False) or empty
        axes, levels = tensor.get("axes", _MISSING), tensor.get("levels", _MISSING)
        if not (isinstance(axes, list) and all(isinstance(axis, str) for axis in axes)):
            self._fail("tensor.axes", "a list of names", axes)
        if not (isinstance(levels, list) and all(number(level) is not None for level in levels)):
            self._fail("tensor.levels", "a list of numbers", levels)
        if not tensor.get("values"):
            return empty
        matrix = self.root["matrix"]
        sizes = (len(matrix["rows"]), len(matrix["columns"]), len(axes), len(levels))
        self._check_nested(tensor["values"], "tensor.values", sizes)
        return tensor

    def _check_nested(self, value: object, field: str, sizes: Sequence[int]) -> None:
        if not sizes:
            self._check_fraction(value, field)
            return
        if not isinstance(value, list) or len(value) != sizes[0]:
            self._fail(field, f"a list of {sizes[0]}, as rows, columns, axes and levels", value)
        for index, item in enumerate(value):
            self._check_nested(item, f"{field}[{index}]", sizes[1:])

    def _names(self, matrix: Mapping[str, Any], key: str) -> list[str]:
        names = matrix.get(key, _MISSING)
        if not (isinstance(names, list) and names and all(isinstance(x, str) for x in names)):
            self._fail(f"matrix.{key}", "a non-empty list of names", names)
        return names

    def _check_fraction(self, value: object, field: str) -> None:
        if value is None:
            return
        fraction = number(value)
        if fraction is None or not -_ROUNDING <= fraction <= 1 + _ROUNDING:
            self._fail(field, "a fraction in 0..1 or null", value)

    def metrics(self) -> dict[str, Any]:
        """Return the metrics by family, each a number, null, a list or a word."""
        metrics = self.mapping("metrics", required=True)
        for name, value in leaves(metrics):
            # Words are settings and profiles; other values are numbers beyond any float.
            if value is None or isinstance(value, list | str | bool):
                continue
            if number(value) is None:
                self._fail(f"metrics.{name}", "a number or null", value)
        return metrics

    def metric_facts(self) -> dict[str, dict[str, Any]]:
        """Return the facts about metrics that do not come with clframe; skip other shapes."""
        facts = self.root.get("metric_facts")
        pairs = facts.items() if isinstance(facts, dict) else ()
        return {name: value for name, value in pairs if isinstance(value, dict)}

    def timing(self) -> dict[str, float]:
        """Return seconds, speed and memory; NaN where unknown."""
        timing: dict[str, float] = {}
        for name, value in leaves(self.mapping("timing", required=False)):
            if value is None:
                timing[name] = math.nan
            elif isinstance(value, int | float) and number(value) is not None:
                timing[name] = value  # bytes stay whole numbers
        return timing

    def memory(self) -> dict[str, int]:
        """Return the samples and bytes that the strategy keeps; skip all but whole numbers."""
        kept = self.root.get("memory")
        pairs = kept.items() if isinstance(kept, dict) else ()
        return {name: value for name, value in pairs if type(value) is int and value >= 0}

    def curves(self) -> dict[str, dict[str, list[float]]]:
        """Return the values measured while learning, by experience and task; skip other shapes."""
        curves: dict[str, dict[str, list[float]]] = {}
        content = self.root.get("curves")
        for row, tasks in content.items() if isinstance(content, dict) else ():
            for task, values in tasks.items() if isinstance(tasks, dict) else ():
                if isinstance(values, list) and values:
                    numbers = map(number, values)
                    line = [math.nan if value is None else value for value in numbers]
                    curves.setdefault(row, {})[task] = line
        return curves

    def measured(self) -> dict[str, dict[str, Any]]:
        """Return further measurements of plugins, by name; skip other shapes."""
        content = self.root.get("measured")
        pairs = content.items() if isinstance(content, dict) else ()
        return {name: value for name, value in pairs if isinstance(value, dict)}

    def further(self) -> dict[str, str]:
        """Return further top-level scalars, such as where the data came from."""
        own = {"schema", "stream", "strategy", "scenario", "seed"}
        extra = {k: v for k, v in self.root.items() if k not in own}
        return {k: str(v) for k, v in extra.items() if isinstance(v, str | int | float) and v != ""}


def unfinished(folder: Path) -> str:
    """Return the message about a folder that has no results."""
    if (folder / "events.jsonl").is_file() or (folder / "config.yaml").is_file():
        return (
            f"{folder} has no {RESULTS}, so its run has not finished; "
            f"continue it with 'clframe fit resume={folder}'."
        )
    return f"{folder} holds no finished run: there is no {RESULTS} in it or below it."


def read_text(path: Path, limit: int = LARGEST) -> str | None:
    """Return the text of a file of at most ``limit`` bytes, None if there is no such file.

    Raises:
        RunFolderError: It cannot be read or is not text.
    """
    try:
        return regular.read_text(path, limit)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RunFolderError(f"{path} cannot be read: {reason}.") from error


def leaves(mapping: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, object]]:
    """Return everything in nested mappings that is not a mapping, by its dotted name.

    >>> list(leaves({"gem": {"acc": 0.5}, "x": [1]}))
    [('gem.acc', 0.5), ('x', [1])]
    """
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def number(value: object) -> float | None:
    """Return the value as a finite float, or None if it is not a number or is a bool."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if math.isfinite(converted) else None


def _kind(value: object) -> str:
    """Describe a JSON value in a few characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
