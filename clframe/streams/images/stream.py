"""Split, permuted and rotated image streams: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100.

The three scenarios are from van de Ven & Tolias, "Three scenarios for continual learning" (2019):
the same images with the task known (``task``), not needed (``domain``) or to be inferred
(``class``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clframe.core.stream import Experience, Scenario, Stream, Task
from clframe.data.dataset import TensorData, Transform, scale_images
from clframe.errors import SettingError
from clframe.streams.images.image_arrays import Images, load_images
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry

_STATISTICS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
"""Mean and deviation of each channel over all training images."""
_MOST_EXPERIENCES = 10_000
_MOST_PAD = 1_000


def split(
    dataset: str,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario = "class",
    n_experiences: int = 5,
    class_order: list[int] | str | None = None,
    normalize: bool = False,
) -> Stream:
    """Classes split over experiences.

    Args:
        dataset: The image dataset.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of a shuffled class order.
        scenario: ``task``, ``domain`` (label = position within the experience) or ``class``.
        n_experiences: Number of experiences; classes are distributed as evenly as possible.
        class_order: None for the natural order, ``shuffled`` for a random order, or a list of all
            classes.
        normalize: Subtract the mean of each channel over all training images and divide by the
            deviation; otherwise images are in 0..1.
    """
    images = load_images(dataset, data_dir, download)
    order = _class_order(class_order, images.n_classes, seed)
    if not 1 <= n_experiences <= images.n_classes:
        raise SettingError(
            f"stream 'split_{dataset}': n_experiences must be between 1 and {images.n_classes}, "
            f"got {n_experiences}"
        )
    groups = [[int(c) for c in group] for group in np.array_split(np.array(order), n_experiences)]
    width = max(len(group) for group in groups)
    domain = scenario == "domain"
    transform = _finished(scale_images, dataset, normalize)

    def make(training: bool, number: int) -> TensorData:
        labels = images.train_labels if training else images.test_labels
        group = torch.tensor(groups[number])
        matches = labels[:, None] == group
        indices = matches.any(1).nonzero().squeeze(1)
        chosen = matches[indices].to(torch.int64).argmax(1) if domain else labels[indices]
        source = images.train if training else images.test
        return TensorData(source, chosen, number, indices, transform)

    return _stream(
        f"split_{dataset}",
        images,
        scenario,
        seed,
        names=["-".join(str(c) for c in group) for group in groups],
        outputs=[tuple(range(len(g))) if domain else tuple(g) for g in groups],
        n_outputs=width if domain else images.n_classes,
        make=make,
        shape=images.shape,
    )


def permuted(
    dataset: str,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario = "domain",
    n_experiences: int = 10,
    pad: int = 0,
    first_identity: bool = True,
    normalize: bool = False,
    samples: int | None = None,
) -> Stream:
    """All classes in every experience, with another pixel permutation in each.

    Args:
        dataset: The image dataset.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the permutations.
        scenario: ``domain`` (the same outputs throughout), or ``task`` and ``class`` (separate
            outputs for each experience).
        n_experiences: Number of permutations.
        pad: Zeros added on each side before permuting (2 gives the 32x32 of van de Ven & Tolias).
        first_identity: Leave the first experience's images unpermuted.
        normalize: Subtract the mean of each channel over all training images and divide by the
            deviation; otherwise images are in 0..1.
        samples: Random training images per experience, drawn for each experience; None for all.
    """
    _check_experiences(n_experiences)
    if not 0 <= pad <= _MOST_PAD:
        raise SettingError(f"pad must be between 0 and {_MOST_PAD:,} pixels, got {pad}")
    images = load_images(dataset, data_dir, download)
    channels, height, width = images.shape
    shape = (channels, height + 2 * pad, width + 2 * pad)
    pixels = math.prod(shape)
    generator = torch.Generator().manual_seed(seed)
    # Allocate everything first, so that too large a table fails before it is filled.
    table = torch.empty(n_experiences, pixels, dtype=torch.int64)
    for row in table:
        torch.randperm(pixels, generator=generator, out=row)
    if first_identity:
        table[0] = torch.arange(pixels)
    transform = _finished(Permute(table, pad), dataset, normalize)
    chosen = _choose_samples(samples, images, n_experiences, generator)
    name = f"permuted_{dataset}"
    return _whole(name, images, scenario, seed, n_experiences, transform, shape, chosen)


def rotated(
    dataset: str,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario = "domain",
    n_experiences: int = 10,
    max_angle: float = 180.0,
    normalize: bool = False,
    angles: Literal["even", "parts", "drawn"] = "even",
    interpolation: Literal["bilinear", "nearest"] = "bilinear",
    samples: int | None = None,
) -> Stream:
    """All classes in every experience, with images rotated by another angle in each.

    Of n experiences, experience i is rotated by i/n of the largest angle (``angles=even``), by a
    random angle between i/n and (i+1)/n of it (``parts``: Lopez-Paz & Ranzato, "Gradient Episodic
    Memory", 2017), or by a random angle up to the largest (``drawn``: Buzzega et al., "Dark
    Experience for General Continual Learning", 2020). Both papers' programs rotate with
    ``interpolation=nearest``.

    Args:
        dataset: The image dataset.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of random angles and samples.
        scenario: ``domain`` (the same outputs throughout), or ``task`` and ``class`` (separate
            outputs for each experience).
        n_experiences: Number of angles.
        max_angle: Upper limit of the angles, in degrees.
        normalize: Subtract the mean of each channel over all training images and divide by the
            deviation; otherwise images are in 0..1.
        angles: ``even``, ``parts`` or ``drawn``, as above.
        interpolation: How to interpolate between the pixels of a rotated image.
        samples: Random training images per experience, drawn for each experience; None for all.
    """
    _check_experiences(n_experiences)
    images = load_images(dataset, data_dir, download)
    generator = torch.Generator().manual_seed(seed)
    degrees = _degrees(angles, n_experiences, max_angle, generator)
    transform = _finished(Rotate(degrees.deg2rad(), interpolation), dataset, normalize)
    chosen = _choose_samples(samples, images, n_experiences, generator)
    name = f"rotated_{dataset}"
    return _whole(name, images, scenario, seed, n_experiences, transform, images.shape, chosen)


def _check_experiences(n_experiences: int) -> None:
    at_least(n_experiences, 1, "n_experiences")
    if n_experiences > _MOST_EXPERIENCES:
        raise SettingError(
            f"n_experiences must be at most {_MOST_EXPERIENCES:,}, got {n_experiences}: every "
            "task is evaluated after every experience"
        )


def _degrees(
    angles: str, n_experiences: int, max_angle: float, generator: torch.Generator
) -> Tensor:
    """Return the angle of each experience."""
    if angles == "drawn":
        return torch.rand(n_experiences, generator=generator) * max_angle
    part = torch.arange(n_experiences) * 1.0
    if angles == "parts":
        part += torch.rand(n_experiences, generator=generator)
    return part * (max_angle / n_experiences)


def _choose_samples(
    samples: int | None, images: Images, n_experiences: int, generator: torch.Generator
) -> list[Tensor] | None:
    """Return the training images of each experience; None for all of them."""
    if samples is None:
        return None
    n = len(images.train_labels)
    if not 1 <= samples <= n:
        raise SettingError(f"samples must be between 1 and {n} (training images), got {samples}")
    return [torch.randperm(n, generator=generator)[:samples] for _ in range(n_experiences)]


class Permute:
    """Permutes the pixels of each sample by the permutation of its task."""

    def __init__(self, table: Tensor, pad: int) -> None:
        self.table = table
        self.pad = pad

    def __call__(self, x: Any, task: Tensor) -> Any:
        """Return scaled, padded and permuted images."""
        if self.table.device != x.device:
            self.table = self.table.to(x.device)
        if self.pad:
            x = functional.pad(x, (self.pad,) * 4)
        return scale_images(x.flatten(1).gather(1, self.table[task]).view(x.shape), task)


class Rotate:
    """Rotates each sample by the angle of its task, in radians (zeros outside)."""

    def __init__(self, angles: Tensor, interpolation: str = "bilinear") -> None:
        self.interpolation = interpolation
        turn = torch.zeros(len(angles), 2, 3)
        turn[:, 0, 0] = turn[:, 1, 1] = angles.cos()
        turn[:, 0, 1], turn[:, 1, 0] = -angles.sin(), angles.sin()
        self.turn = turn

    def __call__(self, x: Any, task: Tensor) -> Any:
        """Return scaled and rotated images."""
        if self.turn.device != x.device:
            self.turn = self.turn.to(x.device)
        grid = functional.affine_grid(self.turn[task], list(x.shape), align_corners=False)
        return functional.grid_sample(
            scale_images(x, task), grid, self.interpolation, align_corners=False
        )


class Normalize:
    """Normalizes the channels of another transform's output."""

    def __init__(self, transform: Transform, mean: Sequence[float], deviation: Sequence[float]):
        self.transform = transform
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.deviation = torch.tensor(deviation).view(-1, 1, 1)

    def __call__(self, x: Any, task: Tensor) -> Any:
        """Return the other transform's images with mean 0 and deviation 1 over the dataset."""
        x = self.transform(x, task)
        if self.mean.device != x.device:
            self.mean, self.deviation = self.mean.to(x.device), self.deviation.to(x.device)
        return x.sub_(self.mean).div_(self.deviation)


def _finished(transform: Transform, dataset: str, normalize: bool) -> Transform:
    return Normalize(transform, *_STATISTICS[dataset]) if normalize else transform


def _class_order(order: Sequence[int] | str | None, n_classes: int, seed: int) -> list[int]:
    if order is None:
        return list(range(n_classes))
    if order == "shuffled":
        generator = torch.Generator().manual_seed(seed)
        return [int(c) for c in torch.randperm(n_classes, generator=generator)]
    if isinstance(order, str) or sorted(order) != list(range(n_classes)):
        raise SettingError(
            f"class_order must be null, 'shuffled' or a list with each of the classes 0 to "
            f"{n_classes - 1} once, got {order!r}"
        )
    return list(order)


def _whole(
    name: str,
    images: Images,
    scenario: Scenario,
    seed: int,
    n_experiences: int,
    transform: Transform,
    shape: tuple[int, ...],
    chosen: Sequence[Tensor] | None = None,
) -> Stream:
    """Return a stream whose experiences all hold all images, or a selection for training."""
    n = images.n_classes
    shared = scenario == "domain"

    def make(training: bool, number: int) -> TensorData:
        labels = images.train_labels if training else images.test_labels
        source = images.train if training else images.test
        indices = chosen[number] if training and chosen is not None else None
        labels = labels if indices is None else labels[indices]
        return TensorData(
            source, labels if shared else labels + n * number, number, indices, transform
        )

    return _stream(
        name,
        images,
        scenario,
        seed,
        names=[str(number) for number in range(n_experiences)],
        outputs=[
            tuple(range(n)) if shared else tuple(range(n * number, n * number + n))
            for number in range(n_experiences)
        ],
        n_outputs=n if shared else n * n_experiences,
        make=make,
        shape=shape,
    )


def _stream(
    name: str,
    images: Images,
    scenario: Scenario,
    seed: int,
    names: Sequence[str],
    outputs: Sequence[tuple[int, ...]],
    n_outputs: int,
    make: Callable[[bool, int], TensorData],
    shape: tuple[int, ...],
) -> Stream:
    # Cached, because they hold only index lists; the images are shared.
    cached = functools.cache(make)
    tasks = [
        Task(i, f"task{i}", outputs[i], functools.partial(cached, False, i), {"content": content})
        for i, content in enumerate(names)
    ]
    experiences = [
        Experience(i, f"exp{i}", (task,), functools.partial(cached, True, i), task.info)
        for i, task in enumerate(tasks)
    ]
    return Stream(name, scenario, experiences, tasks, shape, n_outputs, images.source, seed)


def add_streams(registry: Registry) -> None:
    """Register split, permuted and rotated streams of each dataset."""
    titles = {
        "mnist": "MNIST",
        "fashion_mnist": "Fashion-MNIST",
        "cifar10": "CIFAR-10",
        "cifar100": "CIFAR-100",
    }
    for dataset, title in titles.items():
        registry.add(
            "stream",
            f"split_{dataset}",
            functools.partial(split, dataset),
            f"{title}, classes split over experiences",
        )
    for dataset in ("mnist", "fashion_mnist"):
        for factory, change in ((permuted, "pixels permuted"), (rotated, "images rotated")):
            registry.add(
                "stream",
                f"{factory.__name__}_{dataset}",
                functools.partial(factory, dataset),
                f"{titles[dataset]}, {change} differently in each experience",
            )
