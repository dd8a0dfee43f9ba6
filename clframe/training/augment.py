"""Random changes of a stream's training images: ``trainer.augment``."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from clframe.data.augment import Augmented, make_steps
from clframe.data.dataset import Data, Transform
from clframe.data.inputs import tensors_of
from clframe.data.joined import JoinedData
from clframe.errors import SettingError

if TYPE_CHECKING:
    from clframe.core.stream import Experience, Stream


def augmented(stream: Stream, entries: Sequence[Any]) -> Stream:
    """The same stream with random changes of its training images; tasks stay as they are.

    Raises:
        SettingError: An augmentation cannot be used, or the stream shows no images.
    """
    steps = make_steps(entries)
    if not steps:
        return stream
    if len(stream.input_shape) != 3:
        raise SettingError(
            f"trainer.augment changes images (channels, height, width), but stream '{stream.name}' "
            f"has inputs of shape {tuple(stream.input_shape)}"
        )
    transforms: list[Augmented] = []

    def around(inner: Transform) -> Augmented:
        # One object for each of the stream's transforms, so that its data is still joined as one.
        for transform in transforms:
            if transform.inner == inner:
                return transform
        transforms.append(Augmented(inner, steps))
        return transforms[-1]

    def changed(data: Data) -> Data:
        if isinstance(data, JoinedData):
            return JoinedData([changed(part) for part in data.parts])
        if len(data) and not any(t.ndim == 4 for t in tensors_of(data.gather(torch.tensor([0])))):
            raise SettingError(
                f"trainer.augment needs images that are stored as (channels, height, width); those "
                f"of stream '{stream.name}' are not"
            )
        other = copy.copy(data)
        other.transform = around(data.transform)
        return other

    def load(experience: Experience) -> Data:
        return changed(experience.data)

    learned = [
        dataclasses.replace(e, load=functools.cache(functools.partial(load, e)))
        for e in stream.experiences
    ]
    return dataclasses.replace(stream, experiences=learned)
