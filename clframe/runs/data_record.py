"""``data.jsonl``: what a run learned from and was tested on, one line for each.

A line has a sum over the data. For a stream of a user's own data, the line of an experience also
has the number of every sample (:mod:`clframe.data.identify`), so that a sample that was learned is
recognized wherever it turns up later.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clframe.core.stream import Experience, Task
from clframe.data.dataset import Data
from clframe.data.identify import Ids, fingerprint, ids_of
from clframe.errors import RunFolderError
from clframe.recording.results_file import read_text, refuse_links
from clframe.utils.checksums import check_file

DATA = "data.jsonl"
_EXPERIENCE, _TASK = "experience", "task"
_SHOWN = 3
"""Changes that a message lists; the others are counted."""


@dataclass(frozen=True)
class Recorded:
    """The data of an experience, or the test data of a task.

    Args:
        sum: Over all of it; see :func:`clframe.data.identify.fingerprint`.
        samples: How many.
        tasks: Number, name and outputs of each task that an experience teaches.
        ids: The numbers of the samples of an experience, in ascending order; None if they have
            none.
    """

    sum: str
    samples: int
    tasks: list[list[Any]] = field(default_factory=list)
    ids: Ids | None = None


@dataclass(frozen=True)
class DataRecord:
    """What is recorded of a run's data, by name."""

    experiences: dict[str, Recorded] = field(default_factory=dict)
    tasks: dict[str, Recorded] = field(default_factory=dict)

    @property
    def own_data(self) -> bool:
        """Whether samples have numbers, as those of a user's own data have."""
        return any(one.ids is not None for one in self.experiences.values())

    def changes(self, experiences: Iterable[Experience], tasks: Iterable[Task]) -> list[str]:
        """List what is recorded and is something else now; what is not recorded is new.

        Args:
            experiences: As they would be learned now.
            tasks: As they would be tested now.
        """
        found = []
        for experience in experiences:
            known = self.experiences.get(experience.name)
            if known is not None and known.sum != fingerprint(experience.data):
                was = f"experience '{experience.name}' was learned from {known.samples:,} samples"
                found.append(_words(was, known.samples, experience.data))
        for task in tasks:
            if self.test_changed(task):
                n = self.tasks[task.name].samples
                found.append(
                    _words(f"task '{task.name}' was tested on {n:,} samples", n, task.data)
                )
        return found

    def test_changed(self, task: Task) -> bool:
        """Whether a task that was tested has other test data now."""
        known = self.tasks.get(task.name)
        return known is not None and known.sum != fingerprint(task.data)

    def trained_on(self, tasks: Iterable[Task]) -> dict[str, tuple[int, int]]:
        """Count the test samples that the run was trained on, of each task that has such.

        Args:
            tasks: Their test data is looked at as it is now.

        Returns:
            By task, how many of how many.
        """
        known = [one.ids for one in self.experiences.values() if one.ids is not None]
        if not known:
            return {}
        learned = np.unique(np.concatenate(known))
        found = {}
        for task in tasks:
            tested = None if task.load is None else ids_of(task.data)
            if tested is not None and (n := int(np.isin(tested, learned).sum())):
                found[task.name] = (n, len(tested))
        return found


def read_record(folder: Path) -> DataRecord | None:
    """Read what a run has recorded of its data; None for a run that has recorded nothing.

    Raises:
        RunFolderError: The file is damaged.
    """
    path = folder / DATA
    refuse_links(folder)
    text = read_text(path)
    if text is None:
        return None
    check_file(folder, DATA)
    record = DataRecord()
    # A run that was killed may have left half a line.
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        try:
            content = json.loads(line)
            kind = _EXPERIENCE if _EXPERIENCE in content else _TASK
            ids = content.get("ids")
            numbers = None if ids is None else np.frombuffer(base64.b64decode(ids), "<u8")
            entry = Recorded(
                str(content["sum"]), int(content["samples"]), content.get("tasks", []), numbers
            )
            of_kind = record.experiences if kind == _EXPERIENCE else record.tasks
            of_kind[str(content[kind])] = entry
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RunFolderError(
                f"'{path}', line {number}, is damaged; put back a copy of the file"
            ) from error
    return record


def experience_line(experience: Experience) -> tuple[str, Ids | None]:
    """Return the line of an experience, and the numbers of its samples."""
    data = experience.data
    ids = ids_of(data)
    content: dict[str, Any] = {
        _EXPERIENCE: experience.name,
        "samples": len(data),
        "sum": fingerprint(data),
        "tasks": taught(experience),
    }
    if ids is not None:
        content["ids"] = base64.b64encode(np.sort(ids).astype("<u8").tobytes()).decode()
    return json.dumps(content) + "\n", ids


def task_line(task: Task) -> str:
    """Return the line of a task's test data."""
    data = task.data
    return json.dumps({_TASK: task.name, "samples": len(data), "sum": fingerprint(data)}) + "\n"


def tasks_in(path: Path, length: int) -> set[str]:
    """Return the tasks with a line in the first bytes of a record; a damaged line has none."""
    try:
        with path.open("rb") as file:
            lines = file.read(length).splitlines()
    except OSError:
        return set()
    names = set()
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            content = json.loads(line)
            if isinstance(content, dict) and _TASK in content:
                names.add(str(content[_TASK]))
    return names


def taught(experience: Experience) -> list[list[Any]]:
    """Return number, name and outputs of each task that an experience teaches."""
    return [[task.index, task.name, _ranges(task.outputs)] for task in experience.tasks]


def listed(changes: Sequence[str]) -> str:
    """Join changes to a part of a message, the first few in full.

    >>> listed(["a", "b", "c", "d", "e"])
    'a; b; c; and 2 more'
    """
    more = [f"and {len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else []
    return "; ".join([*changes[:_SHOWN], *more])


def _words(was: str, before: int, data: Data) -> str:
    now = f"has {len(data):,}" if len(data) != before else "has others"
    return f"{was} and {now} now"


def _ranges(outputs: Sequence[int]) -> str:
    """Write numbers shortly.

    >>> _ranges((0, 1, 2, 5))
    '0-2,5'
    """
    parts: list[list[int]] = []
    for unit in outputs:
        if parts and unit == parts[-1][1] + 1:
            parts[-1][1] = unit
        else:
            parts.append([unit, unit])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
