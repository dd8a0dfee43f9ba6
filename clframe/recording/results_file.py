"""Reading results.json: what is ill-formed is one sentence that names the file and the field.

What is unknown is ignored, so that the results of newer runs can still be read.
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
_ROUNDING = 1e-6  # how far a fraction may be outside 0..1 by rounding alone
_MISSING = object()
_WANDB = "wandb"
"""Where W&B links its own logs of this machine; nothing there is read as part of a run."""


def run_folder(path: str | Path) -> Path:
    """The run folder that a path means: itself, or the folder of a results.json."""
    path = Path(path)
    return path.parent if path.name == RESULTS and path.is_file() else path


def refuse_links(folder: Path) -> None:
    """Refuse a run folder in which a link leads out of it, or that holds a FIFO or a device.

    A run that was received from somebody must not make another file be read as part of it, or be
    written when the run is continued; and a FIFO would be waited for without end.

    Raises:
        RunFolderError: With the link and where it leads, or what is not a file.
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
        RunFolderError: There is no such file, it is not JSON, or its schema is another.
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
            place = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else error
            raise RunFolderError(
                f"{self.path} is not valid JSON ({place}); "
                "it was damaged or is not a clframe result."
            ) from error
        if not isinstance(self.root, dict):
            raise RunFolderError(f"{self.path} must hold one JSON object, not {_kind(self.root)}.")
        self._check_schema()
        check_file(folder, RESULTS)

    def _refuse_constant(self, word: str) -> NoReturn:
        raise RunFolderError(f"{self.path} holds {word}, which is not JSON; unknown is null.")

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
        """A field that must hold a text."""
        value = self.root.get(name, _MISSING)
        if not isinstance(value, str) or not value.strip():
            self._fail(name, "a non-empty text", value)
        return printable(value)

    def integer(self, name: str) -> int:
        """A field that must hold a whole number."""
        value = self.root.get(name, _MISSING)
        if type(value) is not int:
            self._fail(name, "a whole number", value)
        return value

    def mapping(self, name: str, *, required: bool) -> dict[str, Any]:
        """A field that must hold an object; empty where it may be missing and is."""
        value = self.root.get(name, _MISSING)
        if value is _MISSING and not required:
            return {}
        if not isinstance(value, dict):
            self._fail(name, "an object", value)
        return value

    def matrix(self) -> dict[str, Any]:
        """The matrix in the form that AccuracyMatrix reads, checked."""
        matrix = self.mapping("matrix", required=True)
        rows = self._names(matrix, "rows")
        columns = self._names(matrix, "columns")
        values = matrix.get("values", _MISSING)
        if not isinstance(values, list) or len(values) != len(rows):
            self._fail("matrix.values", f"a list of {len(rows)} rows, one per name in rows", values)
        for i, row in enumerate(values):
            place = f"matrix.values[{i}]"
            if not isinstance(row, list) or len(row) != len(columns):
                self._fail(place, f"a list of {len(columns)} values, one per name in columns", row)
            for j, value in enumerate(row):
                self._check_fraction(value, f"{place}[{j}]")
        measure = matrix.get("measure", "accuracy")
        if not isinstance(measure, str):
            self._fail("matrix.measure", "a text such as 'accuracy'", measure)
        return {"rows": rows, "columns": columns, "values": values, "measure": measure}

    def tensor(self) -> dict[str, Any]:
        """The tensor in the form that ForgettingTensor reads, checked; empty where there is none.

        To be called after `matrix`, whose rows and columns it has.
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

    def _check_nested(self, value: object, place: str, sizes: Sequence[int]) -> None:
        if not sizes:
            self._check_fraction(value, place)
            return
        if not isinstance(value, list) or len(value) != sizes[0]:
            self._fail(place, f"a list of {sizes[0]}, as rows, columns, axes and levels", value)
        for index, item in enumerate(value):
            self._check_nested(item, f"{place}[{index}]", sizes[1:])

    def _names(self, matrix: Mapping[str, Any], key: str) -> list[str]:
        names = matrix.get(key, _MISSING)
        if not (isinstance(names, list) and names and all(isinstance(x, str) for x in names)):
            self._fail(f"matrix.{key}", "a non-empty list of names", names)
        return names

    def _check_fraction(self, value: object, place: str) -> None:
        if value is None:
            return
        fraction = number(value)
        if fraction is None or not -_ROUNDING <= fraction <= 1 + _ROUNDING:
            self._fail(place, "a fraction in 0..1 or null", value)

    def metrics(self) -> dict[str, Any]:
        """The metrics by family, each a number, null, a list or a word."""
        metrics = self.mapping("metrics", required=True)
        for name, value in leaves(metrics):
            # Words are settings and profiles; what is left are numbers beyond any float.
            if value is None or isinstance(value, list | str | bool):
                continue
            if number(value) is None:
                self._fail(f"metrics.{name}", "a number or null", value)
        return metrics

    def metric_facts(self) -> dict[str, dict[str, Any]]:
        """What the file says of metrics that clframe does not bring; other shapes are skipped."""
        facts = self.root.get("metric_facts")
        pairs = facts.items() if isinstance(facts, dict) else ()
        return {name: value for name, value in pairs if isinstance(value, dict)}

    def timing(self) -> dict[str, float]:
        """Seconds, speed and memory; NaN where unknown."""
        timing: dict[str, float] = {}
        for name, value in leaves(self.mapping("timing", required=False)):
            if value is None:
                timing[name] = math.nan
            elif isinstance(value, int | float) and number(value) is not None:
                timing[name] = value  # bytes stay whole numbers
        return timing

    def memory(self) -> dict[str, int]:
        """Samples and bytes that the strategy keeps; what is no whole number is skipped."""
        kept = self.root.get("memory")
        pairs = kept.items() if isinstance(kept, dict) else ()
        return {name: value for name, value in pairs if type(value) is int and value >= 0}

    def curves(self) -> dict[str, dict[str, list[float]]]:
        """Per experience and task, the values measured while learning; other shapes are skipped."""
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
        """What plugins measured beside the matrix, by their names; other shapes are skipped."""
        content = self.root.get("measured")
        pairs = content.items() if isinstance(content, dict) else ()
        return {name: value for name, value in pairs if isinstance(value, dict)}

    def further(self) -> dict[str, str]:
        """Further top-level scalars, such as where the data came from."""
        known = {"schema", "stream", "strategy", "scenario", "seed"}
        extra = {k: v for k, v in self.root.items() if k not in known}
        return {k: str(v) for k, v in extra.items() if isinstance(v, str | int | float) and v != ""}


def unfinished(folder: Path) -> str:
    """The sentence about a folder that has no results."""
    if (folder / "events.jsonl").is_file() or (folder / "config.yaml").is_file():
        return (
            f"{folder} has no {RESULTS}, so its run has not finished; "
            f"continue it with 'clframe fit resume={folder}'."
        )
    return f"{folder} holds no finished run: there is no {RESULTS} in it or below it."


def read_text(path: Path, limit: int = LARGEST) -> str | None:
    """The text of a file of at most ``limit`` bytes, None if there is no such file.

    Raises:
        RunFolderError: It cannot be read or is no text.
    """
    try:
        return regular.read_text(path, limit)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RunFolderError(f"{path} cannot be read: {reason}.") from error


def leaves(mapping: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, object]]:
    """Everything in nested mappings that is none itself, by its dotted name.

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
    """The value as a finite float, or None if it is no such number (true and false are none)."""
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
