"""All training samples of a base stream, to distribute over new experiences.

The tasks remain those of the base stream, so the evaluation does not change.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clframe.core.stream import Experience, Stream
from clframe.data.concat import join
from clframe.data.dataset import Data
from clframe.data.reindexed import in_order
from clframe.errors import SettingError


@dataclass(frozen=True, eq=False)
class Pool:
    """A base stream's training samples in its training order.

    Args:
        base: The base stream.
        data: All of its training samples.
        owner: The base stream's experience of each sample.
    """

    base: Stream
    data: Data
    owner: Tensor

    @classmethod
    def of(cls, base: Stream) -> Pool:
        """Return the samples of a stream; this reads its data."""
        parts = [experience.data for experience in base]
        sizes = torch.tensor([len(part) for part in parts])
        return cls(base, join(parts), torch.arange(len(parts)).repeat_interleave(sizes))

    @property
    def labels(self) -> Tensor:
        """The label of each sample."""
        return self.data.labels

    def classes(self) -> list[list[int]]:
        """Return the classes that each experience introduces, in order.

        Raises:
            SettingError: Experiences share classes, so none can be moved.
        """
        classes = [sorted(self.labels[self.owner == k].unique().tolist()) for k in range(len(self))]
        if sum(map(len, classes)) > len({unit for units in classes for unit in units}):
            raise SettingError(
                f"stream '{self.base.name}' ({self.base.scenario}-incremental) has the same "
                "classes in several experiences; use a base whose experiences introduce new "
                "classes, such as split_mnist with scenario=class, or stream=gradual"
            )
        return classes

    def of_class(self, unit: int) -> Tensor:
        """Return the positions of the samples of a class."""
        return (self.labels == unit).nonzero().squeeze(1)

    def __len__(self) -> int:
        """Return the number of experiences of the base stream."""
        return len(self.base)

    def stream(
        self,
        name: str,
        parts: Sequence[Tensor],
        seed: int,
        boundaries: bool,
        names: Sequence[str] | None = None,
        info: Sequence[Mapping[str, Any]] | None = None,
        data: Data | None = None,
    ) -> Stream:
        """Return the stream that teaches these samples.

        Args:
            name: The stream's name.
            parts: Positions of the samples of each experience, in training order.
            seed: The seed of the random choices.
            boundaries: Whether the stream still has task boundaries.
            names: Names of the experiences; None uses the base stream's.
            info: Metadata of the experiences, in addition to the base stream's.
            data: The same samples with other labels; None uses the original ones.
        """
        base, samples = self.base, self.data if data is None else data
        by_index = {task.index: task for task in base.tasks}

        @functools.cache
        def load(number: int) -> Data:
            return in_order(samples, parts[number])

        experiences = []
        for number, positions in enumerate(parts):
            taught = [by_index[i] for i in samples.tasks[positions].unique().tolist()]
            classes, counts = samples.labels[positions].unique(return_counts=True)
            units = tuple(classes.tolist())
            old = base.experiences[number] if names is None else None
            experiences.append(
                Experience(
                    number,
                    old.name if old is not None else names[number],  # type: ignore[index]
                    tuple(taught),
                    functools.partial(load, number),
                    {
                        **(old.info if old is not None else {}),
                        "counts": dict(zip(units, counts.tolist(), strict=True)),
                        **(info[number] if info else {}),
                    },
                    None if base.scenario == "domain" else units,
                )
            )
        return Stream(
            name,
            base.scenario,
            experiences,
            base.tasks,
            base.input_shape,
            base.n_outputs,
            f"{base.name}: {base.source}",
            seed,
            boundaries=boundaries,
        )


def generator(seed: int) -> torch.Generator:
    """Return the generator for all random choices of a stream."""
    return torch.Generator().manual_seed(seed)


def shuffled(values: Tensor, draw: torch.Generator) -> Tensor:
    """Return the values in random order."""
    return values[torch.randperm(len(values), generator=draw)]


def check_share(value: float, name: str, below_one: bool = False) -> None:
    """Check that a value is a share of a whole."""
    if not 0 <= value <= 1 or (below_one and value == 1):
        limit = "from 0 to below 1" if below_one else "from 0 to 1"
        raise SettingError(f"{name} must be a share {limit}, got {value!r}")
