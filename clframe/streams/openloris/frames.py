"""The frames of a stream for the training loop: memory-mapped, gathered and joined by batch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.data.dataset import TensorData, TensorSource, Transform, scale_images
from clframe.errors import DataError
from clframe.streams.openloris.experiences import ExperienceSpec
from clframe.utils.console import warn_user
from clframe.worlds.objects.frames.build import ensure
from clframe.worlds.objects.frames.cache import Cache
from clframe.worlds.objects.frames.cache_plan import SPLITS, TRAIN, Plan, Section


@dataclass(eq=False)
class Frames:
    """The frames of a stream in memory-mapped arrays, built on first use.

    All experiences and tasks share one source and one transform, so that their samples remain one
    indexed dataset when plugins join them.
    """

    plan: Plan
    folder: Path
    modality: str
    arrays: Sequence[str]
    depth_range: float
    labels: NDArray[np.int64]
    held_out: int
    skip_bad: bool
    num_workers: int | None
    sections: list[Section] = field(default_factory=list)

    @functools.cached_property
    def first(self) -> int:
        """The first row that this stream uses."""
        return min(section.start for section in self.sections)

    @functools.cached_property
    def cache(self) -> Cache:
        """The cache with all frames of this stream."""
        return ensure(self.plan, self.sections, self.folder, self.num_workers, self.skip_bad)

    @functools.cached_property
    def usable(self) -> NDArray[np.bool_]:
        """The mask of the plan's rows that hold an image of a chosen instance."""
        usable: NDArray[np.bool_] = self.labels[self.plan.instance] >= 0
        bad = [entry for section in self.sections for entry in self.cache.bad(section)]
        usable[[row for row, _ in bad]] = False
        if bad:
            warn_user(
                f"{len(bad)} images are left out, the first because {bad[0][1]}; delete "
                f"'{self.cache.folder}' to read them again"
            )
        return usable

    @functools.cached_property
    def source(self) -> TensorSource:
        """The stored arrays of all rows from the first to the last one used."""
        stop = max(section.stop for section in self.sections)
        stored = {}
        for name in self.arrays:
            array = self.cache.rows(name, self.first, stop)
            # Depth fits into 15 bits, and torch supports more operations on signed integers.
            stored[name] = torch.from_numpy(array.view(np.int16) if name == "depth" else array)
        return TensorSource(stored["rgb"] if list(stored) == ["rgb"] else stored, mapped=True)

    @functools.cached_property
    def transform(self) -> Transform:
        """The transform from stored arrays to model inputs."""
        if list(self.arrays) == ["rgb"]:
            return scale_images
        return JoinChannels(self.modality, self.depth_range)

    def make(self, training: bool, number: int, spec: ExperienceSpec) -> TensorData:
        """Return the training or the held-out samples of an experience.

        Raises:
            DataError: There are no samples.
        """
        split = TRAIN if training else self.held_out
        rows = np.concatenate([np.arange(s.start, s.stop) for s in spec.sections])
        rows = rows[self.usable[rows] & (self.plan.split[rows] == split)]
        if not len(rows):
            raise DataError(f"'{spec.name}' has no {SPLITS[split]} images in {self.plan.words}")
        labels = torch.from_numpy(self.labels[self.plan.instance[rows]])
        indices = torch.from_numpy(rows - self.first)
        return TensorData(self.source, labels, number, indices, self.transform)


class JoinChannels:
    """Joins color, depth and mask of a batch into one float tensor in 0..1.

    Args:
        modality: rgb, rgbd or depth.
        depth_range: Distance in meters that is scaled to 1.
    """

    def __init__(self, modality: str, depth_range: float) -> None:
        self.modality = modality
        self.millimeters = 1000.0 * depth_range

    def __call__(self, x: Any, task: Tensor) -> Tensor:
        """Return channels first: color, then depth."""
        parts = []
        if self.modality != "depth":
            parts.append(x["rgb"].to(torch.float32).div_(255.0))
        if self.modality != "rgb":
            depth = x["depth"].to(torch.float32).div_(self.millimeters).clamp_(max=1.0)
            parts.append(depth.unsqueeze(1))
        joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return joined.mul_(x["mask"].unsqueeze(1)) if "mask" in x else joined
