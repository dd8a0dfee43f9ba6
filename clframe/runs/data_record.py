"""``data.jsonl``: a record of a run's training and test data, one line for each.

A line has a checksum of the data. For a stream of a user's own data, the line of an experience also
has the number of every sample (:mod:`clframe.data.identify`), which identifies training samples
wherever they turn up later.
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
"""Changes that a message lists; it only counts the others."""


@dataclass(frozen=True)
class Recorded:
    """The data of an experience, or the test data of a task.

    Args:
        sum: Checksum over all of it; see :func:`clframe.data.identify.fingerprint`.
        samples: Number of samples.
        tasks: Number, name and outputs of each task that an experience teaches.
        ids: The numbers of the samples of an experience, in ascending order; None if they are not
            numbered.
    """

    sum: str
    samples: int
    tasks: list[list[Any]] = field(default_factory=list)
    ids: Ids | None = None


@dataclass(frozen=True)
class DataRecord:
    """Record of a run's data, by name."""

    experiences: dict[str, Recorded] = field(default_factory=dict)
    tasks: dict[str, Recorded] = field(default_factory=dict)

    @property
    def own_data(self) -> bool:
        """Whether samples have numbers, as the samples of a user's own data do."""
        return any(recorded.ids is not None for recorded in self.experiences.values())

    def changes(self, experiences: Iterable[Experience], tasks: Iterable[Task]) -> list[str]:
        """List recorded data that has changed since; data without a record is new.

        Args:
            experiences: The experiences as they would be learned now.
            tasks: The tasks as they would be tested now.
        """
        changes = []
        for experience in experiences:
            recorded = self.experiences.get(experience.name)
            if recorded is not None and recorded.sum != fingerprint(experience.data):
                was = (
                    f"experience '{experience.name}' was learned from {recorded.samples:,} samples"
                )
                changes.append(_change_text(was, recorded.samples, experience.data))
        for task in tasks:
            if self.test_changed(task):
                n = self.tasks[task.name].samples
                changes.append(
                    _change_text(f"task '{task.name}' was tested on {n:,} samples", n, task.data)
                )
        return changes

    def test_changed(self, task: Task) -> bool:
        """Return whether a task that was tested has other test data now."""
        recorded = self.tasks.get(task.name)
        return recorded is not None and recorded.sum != fingerprint(task.data)

    def trained_on(self, tasks: Iterable[Task]) -> dict[str, tuple[int, int]]:
        """Count the test samples that the run was trained on, for each task that has any.

        Args:
            tasks: Their current test data is examined.

        Returns:
            By task, the number of such samples and of all samples.
        """
        learned_ids = [
            recorded.ids for recorded in self.experiences.values() if recorded.ids is not None
        ]
        if not learned_ids:
            return {}
        learned = np.unique(np.concatenate(learned_ids))
        counts = {}
        for task in tasks:
            tested = None if task.load is None else ids_of(task.data)
            if tested is not None and (n := int(np.isin(tested, learned).sum())):
                counts[task.name] = (n, len(tested))
        return counts


def read_record(folder: Path) -> DataRecord | None:
    """Read a run's record of its data; None if it has no record.

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


def _change_text(was: str, before: int, data: Data) -> str:
    now = f"has {len(data):,}" if len(data) != before else "has others"
    return f"{was} and {now} now"


def _ranges(outputs: Sequence[int]) -> str:
    """Write numbers shortly.

    >>> _ranges((0, 1, 2, 5))
    '0-2,5'
    """
    ranges: list[list[int]] = []
    for unit in outputs:
        if ranges and unit == ranges[-1][1] + 1:
            ranges[-1][1] = unit
        else:
            ranges.append([unit, unit])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
