"""Random augmentation of a stream's training images: ``trainer.augment``."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from clframe.data.augment import Augmented, Torchvision, make_steps
from clframe.data.concat import JoinedData
from clframe.data.dataset import Data, Transform
from clframe.data.inputs import tensors_of
from clframe.errors import SettingError
from clframe.utils import random_state

if TYPE_CHECKING:
    from clframe.core.stream import Experience, Stream


def augmented(stream: Stream, entries: Sequence[Any]) -> Stream:
    """Return the stream with random changes of its training images; tasks stay the same.

    Raises:
        SettingError: An augmentation cannot be used, or the stream has no images.
    """
    steps = make_steps(entries)
    if not steps:
        return stream
    if len(stream.input_shape) != 3:
        raise SettingError(
            f"trainer.augment needs images (channels, height, width), but stream '{stream.name}' "
            f"has inputs of shape {tuple(stream.input_shape)}"
        )
    transforms: list[Augmented] = []

    def around(inner: Transform) -> Augmented:
        # One object for each of the stream's transforms, so that its data can still be joined.
        for transform in transforms:
            if transform.inner == inner:
                return transform
        transforms.append(Augmented(inner, steps))
        return transforms[-1]

    def changed(data: Data) -> Data:
        if isinstance(data, JoinedData):
            return JoinedData([changed(dataset) for dataset in data.parts])
        if len(data) and not any(t.ndim == 4 for t in tensors_of(data.gather(torch.tensor([0])))):
            raise SettingError(
                f"trainer.augment needs images that are stored as (channels, height, width), but "
                f"stream '{stream.name}' stores them differently"
            )
        other = copy.copy(data)
        other.transform = around(data.transform)
        _check_sizes(other.transform, data)
        return other

    def load(experience: Experience) -> Data:
        return changed(experience.data)

    learned = [
        dataclasses.replace(e, load=functools.cache(functools.partial(load, e)))
        for e in stream.experiences
    ]
    return dataclasses.replace(stream, experiences=learned)


def _check_sizes(transform: Augmented, data: Data) -> None:
    """Raise an error if an augmentation changes the size of the stream's images.

    Raises:
        SettingError: With both sizes.
    """
    if not len(data) or not any(isinstance(step, Torchvision) for step in transform.steps):
        return  # clframe's own keep the size
    first = torch.tensor([0])
    stored, task = data.gather(first), data.tasks[first.to(data.tasks.device)]
    generator = torch.Generator()
    before = random_state.capture(generator, torch.device("cpu"))
    try:
        shapes = [
            [tuple(tensor.shape[1:]) for tensor in tensors_of(change(stored, task))]
            for change in (transform.inner, transform)
        ]
    except (RuntimeError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SettingError(
            f"trainer.augment cannot be applied to these images: {reason}"
        ) from error
    finally:
        random_state.restore(before, generator, torch.device("cpu"))
    if shapes[0] != shapes[1]:
        old, new = next(pair for pair in zip(*shapes, strict=True) if pair[0] != pair[1])
        raise SettingError(
            f"trainer.augment changes the images from {old} to {new}, but the model takes {old}: "
            "add an augmentation that restores the size, such as {Resize: {size: [H, W]}}"
        )
