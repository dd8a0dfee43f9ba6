"""A stream of the user's own data: labelled samples, split by class, by domain or by time."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from clframe.core.stream import SCENARIOS, Experience, Scenario, Stream, Task
from clframe.data.dataset import Data, Transform
from clframe.data.holding_out import held_out, numbered
from clframe.data.labelled import Samples, as_samples
from clframe.errors import DataError, SettingError

By: TypeAlias = Literal["class", "domain", "time"]
_LONGEST = 24
"""Maximum characters of a column's heading."""


def stream_from(
    train: Any,
    test: Any = None,
    *,
    by: By = "class",
    column: Sequence[Any] | None = None,
    test_column: Sequence[Any] | None = None,
    groups: Sequence[Any] | None = None,
    n_experiences: int | None = None,
    scenario: Scenario | None = None,
    test_fraction: float = 0.2,
    class_names: Sequence[str] | None = None,
    name: str = "own",
    seed: int = 0,
    num_workers: int = 0,
    transform: Transform | None = None,
) -> Stream:
    """Make a stream of your own data.

    >>> import torch, clframe
    >>> x, y = torch.randn(60, 8), torch.arange(60) % 6
    >>> stream = clframe.stream_from((x, y), n_experiences=3)
    >>> [experience.name for experience in stream], stream.scenario
    (['0-1', '2-3', '4-5'], 'class')

    Args:
        train: A pair of inputs and labels (tensors or arrays, inputs also a dictionary of them), or
            any map-style ``torch.utils.data.Dataset`` of ``(input, label)``.
        test: The same for evaluation; None takes ``test_fraction`` of the training data.
        by: How the data is split: ``class`` (some classes in each experience), ``domain`` (the
            values of ``column``, one experience each) or ``time`` (``column`` in ascending order,
            cut into experiences of equal size).
        column: The domain or the time of each training sample.
        test_column: The same for the test samples. Without it, all of ``test`` is one task.
        groups: The classes or domains of each experience, in order; None takes them in ascending
            order.
        n_experiences: Number of experiences if ``groups`` is not given: classes are distributed
            evenly (None: 5, or one for each class if there are fewer), and so is time (None: 5).
        scenario: ``class``, ``task`` or ``domain``; None is ``class`` with ``by="class"`` and
            ``domain`` with the others.
        test_fraction: Approximate share of each class to test on if there is no ``test``. A hash
            of the seed and of a sample's content decides (for a ``Dataset``, of its file's path or
            its index within its class), so new samples do not move others.
        class_names: Names of the labels 0, 1, ...; None shows the labels.
        name: Name of the stream.
        seed: Seed of the random choices.
        num_workers: Processes that read a ``Dataset``; 0 reads in the main process.
        transform: Transform of each batch of inputs and tasks; None scales bytes to 0..1 and
            leaves other types unchanged.

    Raises:
        ClframeError: The data cannot be split in this way; the message gives the reason.
    """
    learned = as_samples(train, column, "the training data", num_workers, transform)
    measured = None
    if test is not None:
        measured = as_samples(test, test_column, "the test data", num_workers, transform)
    elif test_column is not None:
        raise SettingError("test_column needs test samples, but there is no test data")
    split = Split(by, groups, n_experiences, scenario, test_fraction, class_names, seed)
    return split.stream(name, learned, measured, f"own data ({len(learned.labels):,} samples)")


@dataclass(frozen=True)
class Split:
    """The rules that turn labelled samples into a stream; see :func:`stream_from`."""

    by: By = "class"
    groups: Sequence[Any] | None = None
    n_experiences: int | None = None
    scenario: Scenario | None = None
    test_fraction: float = 0.2
    class_names: Sequence[str] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.by not in ("class", "domain", "time"):
            raise SettingError(f"by must be class, domain or time, got '{self.by}'")
        if self.scenario is not None and self.scenario not in SCENARIOS:
            raise SettingError(
                f"scenario must be one of {', '.join(SCENARIOS)}, got '{self.scenario}'"
            )
        if not 0 < self.test_fraction < 1:
            raise SettingError(
                f"test_fraction must be above 0 and below 1, got {self.test_fraction}"
            )
        if self.by == "time" and self.groups is not None:
            raise SettingError("groups are of classes or domains: split time with n_experiences")
        if self.n_experiences is not None and self.n_experiences < 1:
            raise SettingError(f"n_experiences must be 1 or more, got {self.n_experiences}")

    def stream(self, name: str, train: Samples, test: Samples | None, source: str) -> Stream:
        """Return the stream of these samples."""
        classes = self._classes(train, test)
        of_train = _codes(train.labels, classes)
        chosen = torch.arange(len(of_train))
        held: Tensor | None = None
        if test is None:
            chosen, held = self._hold_out(train, of_train)
            test = train
        of_test = _codes(test.labels, classes)
        measured = torch.arange(len(of_test)) if held is None else held
        parts = self._parts(train, test, of_train, of_test, classes)
        return _assemble(
            name, self, classes, parts, (train, of_train, chosen), (test, of_test, measured), source
        )

    def _classes(self, train: Samples, test: Samples | None) -> list[Hashable]:
        """Return all classes in order; each must occur in both splits."""
        here = set(train.labels)
        if self.class_names is not None:
            for value in sorted(here | set(test.labels if test else ()), key=str):
                if not isinstance(value, int) or not 0 <= value < len(self.class_names):
                    raise DataError(
                        f"label {value!r} is out of range: class_names has {len(self.class_names)} "
                        f"names, so labels are 0 to {len(self.class_names) - 1}"
                    )
        if test is not None:
            there = set(test.labels)
            for only, other, where in (
                (here - there, "test", train.what),
                (there - here, "training", test.what),
            ):
                if only:
                    names = ", ".join(self.title(c) for c in sorted(only, key=str)[:5])
                    raise DataError(
                        f"{len(only)} class{'es' if len(only) > 1 else ''} of {where} "
                        f"({names}) have no {other} sample"
                    )
        numbers = all(isinstance(value, int) for value in here)
        return sorted(here, key=(lambda v: v) if numbers else str)

    def title(self, label: Hashable) -> str:
        """Return the name of a class."""
        return str(label) if self.class_names is None else str(self.class_names[int(label)])  # type: ignore[call-overload]

    def _hold_out(self, train: Samples, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions to learn and to test on; see :mod:`clframe.data.holding_out`."""
        classes = labels.tolist()
        keys = numbered(train.labels) if train.keys is None else list(train.keys())
        domains = [None] * len(keys) if train.column is None else map(str, train.column)
        cells = list(zip(classes, domains, strict=True)) if self.by == "domain" else classes
        tested, _ = held_out(keys, cells, self.test_fraction, self.seed)
        for unit in sorted(set(classes) - set(labels[tested].tolist())):
            own = (labels == unit).nonzero().squeeze(1)
            if len(own) < 2:
                raise DataError(
                    f"class {self.title(train.labels[int(own[0])])} has only one sample, which "
                    "cannot be used for both training and testing: give test data, or leave "
                    "the class out"
                )
            names = [keys[position] for position in own.tolist()]
            if len(set(names)) == 1:  # all are copies of one sample
                names = numbered(names)
            tested[own], _ = held_out(names, [unit] * len(own), self.test_fraction, self.seed)
        return (~tested).nonzero().squeeze(1), tested.nonzero().squeeze(1)

    def _parts(
        self,
        train: Samples,
        test: Samples,
        of_train: Tensor,
        of_test: Tensor,
        classes: Sequence[Hashable],
    ) -> Parts:
        """Return which experience each sample belongs to."""
        if self.by == "class":
            groups = self._class_groups(classes)
            number = torch.full((len(classes),), -1)
            for k, group in enumerate(groups):
                number[list(group)] = k
            names = ["-".join(self.title(classes[c]) for c in group) for group in groups]
            return Parts(names, number[of_train], number[of_test])
        if train.column is None:
            raise SettingError(
                f"by={self.by} needs the {self.by} of each training sample: give column="
            )
        if self.by == "time":
            return self._times(train.column, test.column)
        keys = self._domain_groups(train.column)
        where = {key: k for k, group in enumerate(keys) for key in group}
        names = ["-".join(str(key) for key in group) for group in keys]
        return Parts(
            names,
            _numbers(train.column, where),
            None if test.column is None else _numbers(test.column, where),
        )

    def _class_groups(self, classes: Sequence[Hashable]) -> list[list[int]]:
        if self.groups is None:
            n = min(5, len(classes)) if self.n_experiences is None else self.n_experiences
            if n > len(classes):
                raise SettingError(
                    f"n_experiences must be at most {len(classes)}, the number of classes, got {n}"
                )
            return [group.tolist() for group in np.array_split(np.arange(len(classes)), n)]
        indices = {self.title(label): k for k, label in enumerate(classes)}
        indices |= {str(label): k for k, label in enumerate(classes)}
        return _grouped(self.groups, indices, "class")

    def _domain_groups(self, column: Sequence[Any]) -> list[list[str]]:
        domains = list(dict.fromkeys(str(value) for value in column))
        if self.groups is None:
            return [[value] for value in sorted(domains)]
        return _grouped(self.groups, {value: value for value in domains}, "domain")

    def _times(self, column: Sequence[Any], test: Sequence[Any] | None) -> Parts:
        order = np.argsort(np.asarray(column), kind="stable")
        n = self.n_experiences or 5
        if n > len(order):
            raise SettingError(f"{len(order)} samples cannot be cut into {n} experiences")
        number = torch.zeros(len(order), dtype=torch.long)
        cuts = np.array_split(order, n)
        for k, cut in enumerate(cuts):
            number[torch.from_numpy(cut)] = k
        firsts = np.asarray([np.asarray(column)[cut[0]] for cut in cuts])
        of_test = None
        if test is not None:
            experiences = np.searchsorted(firsts, np.asarray(test), side="right") - 1
            of_test = torch.from_numpy(np.maximum(experiences, 0))
        return Parts([f"time{k}" for k in range(n)], number, of_test)


@dataclass(frozen=True)
class Parts:
    """The experiences: their names, and the index of each sample's experience (-1: none).

    Args:
        names: Names of the experiences.
        train: Index for each training sample.
        test: Index for each test sample; None if they belong to all.
    """

    names: Sequence[str]
    train: Tensor
    test: Tensor | None


def _grouped(groups: Sequence[Any], positions: dict[str, Any], what: str) -> list[list[Any]]:
    """Convert groups of names to groups of positions, each name once."""
    chosen: list[list[Any]] = []
    taken: set[Any] = set()
    for group in groups:
        names = [group] if isinstance(group, str | int) else list(group)
        row = []
        for name in names:
            position = positions.get(str(name))
            if position is None:
                available = ", ".join(list(positions)[:8])
                raise SettingError(
                    f"groups: there is no {what} '{name}' in the data; it has {available}"
                )
            if position in taken:
                raise SettingError(f"groups: {what} '{name}' is in two experiences")
            taken.add(position)
            row.append(position)
        if row:
            chosen.append(row)
    if not chosen:
        raise SettingError(f"groups contains no {what}")
    return chosen


def _codes(labels: Sequence[Hashable], classes: Sequence[Hashable]) -> Tensor:
    number = {label: k for k, label in enumerate(classes)}
    return torch.tensor([number[label] for label in labels])


def _numbers(column: Sequence[Any], where: dict[str, int]) -> Tensor:
    return torch.tensor([where.get(str(value), -1) for value in column])


def _assemble(
    name: str,
    split: Split,
    classes: Sequence[Hashable],
    parts: Parts,
    train: tuple[Samples, Tensor, Tensor],
    test: tuple[Samples, Tensor, Tensor],
    source: str,
) -> Stream:
    scenario: Scenario = split.scenario or ("class" if split.by == "class" else "domain")
    n = len(parts.names)
    positional = scenario == "domain" and split.by == "class"
    units_of = [
        sorted(set(train[1][train[2]][parts.train[train[2]] == k].tolist())) for k in range(n)
    ]
    for k, units in enumerate(units_of):
        if not units:
            raise DataError(f"experience '{parts.names[k]}' of stream '{name}' has no samples")
    everything = tuple(range(len(classes)))

    def outputs(k: int) -> tuple[int, ...]:
        if scenario == "domain":
            return tuple(range(len(units_of[k]))) if positional else everything
        return tuple(units_of[k])

    def load(samples: Samples, codes: Tensor, positions: Tensor, task: int, group: int) -> Data:
        codes = codes[positions]
        if positional:
            position_of_class = torch.full((len(classes),), -1)
            position_of_class[units_of[group]] = torch.arange(len(units_of[group]))
            codes = position_of_class[codes]
        return samples.select(positions, codes, task)

    names = _unique([_shortened(title) for title in parts.names])
    columns = names if parts.test is not None else ["test"]
    tasks = []
    for k, title in enumerate(columns):
        samples, codes, chosen = test
        own = chosen if parts.test is None else chosen[parts.test[chosen] == k]
        if not len(own):
            raise DataError(f"task '{title}' of stream '{name}' has no test samples")
        of_task = outputs(k) if parts.test is not None else everything
        named = {} if positional else {u: split.title(classes[u]) for u in of_task}
        info = {"classes": [split.title(classes[u]) for u in units_of[k]], "names": named}
        make = functools.cache(functools.partial(load, samples, codes, own, k, k))
        tasks.append(Task(k, title, of_task, make, info))
    experiences = []
    for k, title in enumerate(names):
        samples, codes, chosen = train
        own = chosen[parts.train[chosen] == k]
        task = tasks[k if parts.test is not None else 0]
        make = functools.cache(functools.partial(load, samples, codes, own, task.index, k))
        # One column for all classes does not tell which of them an experience has.
        own_units = tuple(units_of[k]) if parts.test is None and scenario == "class" else None
        class_counts = Counter(codes[own].tolist())
        counts = {units_of[k].index(u) if positional else u: n for u, n in class_counts.items()}
        info = {**task.info, "counts": counts}
        experiences.append(Experience(k, title, (task,), make, info, own_units))
    width = max(len(units) for units in units_of) if positional else len(classes)
    return Stream(name, scenario, experiences, tasks, train[0].shape, width, source, split.seed)


def _shortened(title: str) -> str:
    return title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"


def _unique(titles: Sequence[str]) -> list[str]:
    """Return the titles; those that occur twice get a number."""
    return [
        title if titles.count(title) == 1 else f"{title} {titles[: k + 1].count(title)}"
        for k, title in enumerate(titles)
    ]
