"""Random augmentation of training images, on whole batches: ``trainer.augment``.

Every sample of a batch gets its own random numbers, and there is no loop over samples. Images
are changed as they are stored (uint8), before the stream's transform scales, rotates or permutes
them. Several stored arrays (color, depth, mask) are moved alike. The numbers come from torch's own
generator, which is part of every checkpoint, so a resumed run continues with the same ones.

Any transform of ``torchvision.transforms.v2`` can be used as well. Those draw once per
batch: all samples are changed alike.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from clframe.data.dataset import Transform
from clframe.data.inputs import map_inputs, tensors_of
from clframe.errors import SettingError, nearest
from clframe.utils import setting_checks

if TYPE_CHECKING:
    pass


class Augmentation(abc.ABC):
    """Random change of each sample of a batch.

    Images have four dimensions (samples, channels, height, width). Arrays of three (depth, masks)
    are changed with them if pixels move.
    """

    moves = True
    """Whether pixels move, so that depth and masks must follow."""

    @abc.abstractmethod
    def draw(self, n: int, device: torch.device) -> Tensor:
        """Return random numbers, one row for each of n samples."""

    @abc.abstractmethod
    def apply(self, x: Tensor, drawn: Tensor, image: bool) -> Tensor:
        """Return four-dimensional arrays, changed as drawn."""

    def __call__(self, x: Any) -> Any:
        """Return the inputs of a batch, changed; all arrays of a sample alike."""
        first = tensors_of(x)[0]
        drawn = self.draw(len(first), first.device)

        def change(t: Tensor) -> Tensor:
            if t.ndim == 4:
                return self.apply(t, drawn, True)
            if t.ndim == 3 and self.moves:
                return self.apply(t.unsqueeze(1), drawn, False).squeeze(1)
            return t

        return map_inputs(change, x)


class Crop(Augmentation):
    """Random crop of the old size after padding with zeros.

    Args:
        padding: Pixels on each side.
    """

    def __init__(self, padding: int = 4) -> None:
        setting_checks.at_least(padding, 1, "trainer.augment: crop.padding")
        self.padding = padding

    def draw(self, n: int, device: torch.device) -> Tensor:
        """Return offsets of rows and columns."""
        return torch.randint(2 * self.padding + 1, (n, 2), device=device)

    def apply(self, x: Tensor, drawn: Tensor, image: bool) -> Tensor:
        """Return each sample, shifted."""
        n, channels, height, width = x.shape
        wide = functional.pad(x, (self.padding,) * 4)
        rows = drawn[:, :1] + torch.arange(height, device=x.device)
        columns = drawn[:, 1:] + torch.arange(width, device=x.device)
        pixels = rows[:, :, None] * wide.shape[3] + columns[:, None, :]
        index = pixels.flatten(1)[:, None].expand(n, channels, height * width)
        return wide.flatten(2).gather(2, index).view(x.shape)


class Flip(Augmentation):
    """Random horizontal flip.

    Args:
        p: Share of samples that are mirrored.
    """

    def __init__(self, p: float = 0.5) -> None:
        _check_share(p, "flip.p")
        self.p = p

    def draw(self, n: int, device: torch.device) -> Tensor:
        """Return which samples are mirrored."""
        return torch.rand(n, device=device) < self.p

    def apply(self, x: Tensor, drawn: Tensor, image: bool) -> Tensor:
        """Return the samples, some of them mirrored."""
        return torch.where(drawn.view(-1, 1, 1, 1), x.flip(3), x)


class Rotate(Augmentation):
    """Random rotation about the center, padded with zeros.

    Args:
        degrees: Largest angle in both directions.
    """

    def __init__(self, degrees: float = 15.0) -> None:
        setting_checks.at_least(degrees, 0, "trainer.augment: rotate.degrees")
        self.degrees = degrees

    def draw(self, n: int, device: torch.device) -> Tensor:
        """Return angles."""
        return (2 * torch.rand(n, device=device) - 1) * math.radians(self.degrees)

    def apply(self, x: Tensor, drawn: Tensor, image: bool) -> Tensor:
        """Return each sample rotated; depths and masks by nearest neighbor, not interpolated."""
        height, width = x.shape[2:]
        cosine, sine, zero = drawn.cos(), drawn.sin(), torch.zeros_like(drawn)
        # The grid goes from -1 to 1 along both sides, whatever their length.
        rows = [
            torch.stack([cosine, -sine * height / width, zero], 1),
            torch.stack([sine * width / height, cosine, zero], 1),
        ]
        grid = functional.affine_grid(torch.stack(rows, 1), list(x.shape), align_corners=False)
        mode = "bilinear" if image else "nearest"
        rotated = functional.grid_sample(x.to(torch.float32), grid, mode, align_corners=False)
        return _as_stored(rotated, x)


class Jitter(Augmentation):
    """Random change of brightness, contrast and saturation by factors from 1 - s to 1 + s.

    Args:
        brightness: How much brightness changes.
        contrast: How much the distance from the sample's mean gray changes.
        saturation: How much the distance from the pixel's gray changes (three channels only).
    """

    moves = False

    def __init__(
        self, brightness: float = 0.4, contrast: float = 0.4, saturation: float = 0.4
    ) -> None:
        self.strengths = (brightness, contrast, saturation)
        for name, value in zip(
            ("brightness", "contrast", "saturation"), self.strengths, strict=True
        ):
            _check_share(value, f"jitter.{name}")

    def draw(self, n: int, device: torch.device) -> Tensor:
        """Return three factors."""
        strengths = _constants(self.strengths, device)
        return 1 + strengths * (2 * torch.rand(n, 3, device=device) - 1)

    def apply(self, x: Tensor, drawn: Tensor, image: bool) -> Tensor:
        """Return each image with changed colors."""
        brightness, contrast, saturation = drawn.view(-1, 3, 1, 1, 1).unbind(1)
        most = 1.0 if x.is_floating_point() else 255.0
        changed = (x.to(torch.float32) * brightness).clamp_(0, most)
        mean = _gray(changed).mean((1, 2, 3), keepdim=True)
        changed = torch.lerp(mean, changed, contrast).clamp_(0, most)
        if x.shape[1] == 3:
            changed = torch.lerp(_gray(changed), changed, saturation).clamp_(0, most)
        return _as_stored(changed, x)


def _gray(x: Tensor) -> Tensor:
    """Return the luma of colors (ITU-R BT.601), or the mean of other channels."""
    if x.shape[1] != 3:
        return x.mean(1, keepdim=True)
    weights = _constants((0.299, 0.587, 0.114), x.device)
    return (x * weights.view(1, 3, 1, 1)).sum(1, keepdim=True)


def _constants(values: Sequence[float], device: torch.device) -> Tensor:
    """Return numbers created on the device, so that no step waits for a copy."""
    return torch.stack([torch.full((), value, device=device) for value in values])


def _as_stored(values: Tensor, stored: Tensor) -> Tensor:
    """Return floats in the stored data type."""
    return (values if stored.is_floating_point() else values.round_()).to(stored.dtype)


def _check_share(value: float, name: str) -> None:
    if not 0 <= value <= 1:
        raise SettingError(f"trainer.augment: {name} must be between 0 and 1, got {value!r}")


OWN: dict[str, type[Augmentation]] = {
    "crop": Crop,
    "flip": Flip,
    "rotate": Rotate,
    "jitter": Jitter,
}
"""The augmentations that change each sample separately, by name."""


class Torchvision:
    """Transform of ``torchvision.transforms.v2`` on a batch; all samples are changed alike.

    Args:
        transform: The transform.
    """

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform

    def __call__(self, x: Any) -> Any:
        """Return the inputs of a batch, changed; depth and masks are only moved."""
        from torchvision import tv_tensors

        def marked(t: Tensor) -> Tensor:
            kind = {4: tv_tensors.Image, 3: tv_tensors.Mask}.get(t.ndim)
            return t if kind is None else kind(t)

        outputs = self.transform(map_inputs(marked, x))
        return map_inputs(lambda t: t.as_subclass(Tensor), outputs)


class Augmented:
    """Transform of a stream, preceded by random changes.

    Args:
        inner: Transform from stored inputs to the model's.
        steps: The changes, in order.
    """

    random = True

    def __init__(self, inner: Transform, steps: Sequence[Callable[[Any], Any]]) -> None:
        self.inner = inner
        self.steps = list(steps)

    def __call__(self, x: Any, task: Tensor) -> Any:
        """Return the inputs of a batch."""
        for step in self.steps:
            x = step(x)
        return self.inner(x, task)


def make_steps(entries: Sequence[Any]) -> list[Callable[[Any], Any]]:
    """Return the augmentations for a list of names, settings and transforms.

    >>> [type(step).__name__ for step in make_steps(["flip", {"crop": {"padding": 2}}])]
    ['Flip', 'Crop']

    Raises:
        SettingError: A name or setting is unknown, or an entry is of another type.
    """
    steps: list[Callable[[Any], Any]] = []
    for entry in entries:
        if isinstance(entry, str):
            entry = {entry: {}}
        if isinstance(entry, Mapping) and len(entry) == 1:
            ((name, values),) = entry.items()
            steps.append(_named(str(name), values or {}))
        elif isinstance(entry, Augmentation):
            steps.append(entry)
        elif callable(entry):
            steps.append(Torchvision(entry))
        else:
            raise SettingError(
                "trainer.augment must list names, or a name with settings such as "
                f"{{crop: {{padding: 4}}}}, got {entry!r}"
            )
    return steps


def _named(name: str, values: Any) -> Callable[[Any], Any]:
    where = f"trainer.augment: '{name}'"
    if not isinstance(values, Mapping):
        raise SettingError(f"{where} takes settings by name, got {values!r}")
    if name in OWN:
        return OWN[name](**setting_checks.check(OWN[name], values, where))
    from torchvision.transforms import v2

    transform = getattr(v2, name, None)
    if not (isinstance(transform, type) and issubclass(transform, v2.Transform)):
        raise SettingError(
            f"trainer.augment: unknown augmentation '{name}'; {nearest(name, [*OWN, *dir(v2)])}"
        )
    try:
        return Torchvision(transform(**values))
    except (TypeError, ValueError) as error:
        raise SettingError(f"{where}: {error}") from error
