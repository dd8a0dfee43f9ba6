"""A frozen backbone whose features are computed once; training then sees features only."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core.protocols import Model
from clframe.data.dataset import Data, TensorData, keep_inputs
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.backbone import make_body
from clframe.models.classifier import Classifier
from clframe.models.mlp import mlp
from clframe.utils import files
from clframe.utils.progress import ProgressMeter
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.stream import Experience, Stream, Task

_BATCH = 64
"""Images that go through the backbone at a time."""


class Encoder:
    """A backbone that never changes, and the features it gave, kept on disk.

    Not a module: it is not trained, saved in checkpoints or copied with teachers.

    Args:
        body: The network.
        width: How many features it gives.
        size: Side that images are scaled to; None leaves them.
        folder: Where features are kept; None keeps none.
    """

    def __init__(self, body: nn.Module, width: int, size: int | None, folder: Path | None) -> None:
        self.body = body.eval().requires_grad_(False)
        self.width = width
        self.size = size
        self.folder = folder
        self._weights = b""

    def __deepcopy__(self, memo: dict[int, Any]) -> Encoder:
        return self

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """The features of images."""
        if self.size is not None:
            side = (self.size, self.size)
            x = functional.interpolate(x, side, mode="bilinear", antialias=True)
        self.body.to(x.device)
        features: Tensor = self.body(x)
        return features

    def encode(self, data: Data, what: str, device: torch.device) -> TensorData:
        """The data with features for inputs, read from the folder if they were computed before.

        Args:
            data: Whose inputs are images.
            what: The name of the data, for the progress bar.
            device: To compute on.
        """
        if getattr(data.transform, "random", False):
            raise SettingError(
                "model 'frozen' computes the features of each image once, but this stream changes "
                "its images at random each time: use model=timm with strategy=linear_probe"
            )
        path = None
        features = None
        if self.folder is not None:
            path = self.folder / f"{self._key(data)}.npy"
            features = self._read(path, len(data))
        if features is None:
            features = self._compute(data, what, device)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                content = io.BytesIO()
                np.save(content, features.numpy(), allow_pickle=False)
                files.write_bytes(path, content.getvalue())
        return TensorData(features, data.labels, data.tasks, transform=keep_inputs)

    def _compute(self, data: Data, what: str, device: torch.device) -> Tensor:
        parts = []
        with ProgressMeter(f"features {what}", len(data), "images") as meter:
            for batch in data.batches(torch.arange(len(data)), _BATCH):
                parts.append(self(batch.x.to(device)).cpu())
                meter.update(len(batch))
        return torch.cat(parts)

    def _key(self, data: Data) -> str:
        """Tells apart weights, scaling and the images as the backbone gets them."""
        if not self._weights:
            weights = hashlib.blake2b(f"{self.size}".encode(), digest_size=16)
            for name, value in [*self.body.named_buffers(), *self.body.named_parameters()]:
                weights.update(name.encode())
                weights.update(_bytes(value))
            self._weights = weights.digest()
        key = hashlib.blake2b(self._weights, digest_size=16)
        for batch in data.batches(torch.arange(len(data)), 4 * _BATCH):
            key.update(f"{tuple(batch.x.shape)}".encode())
            key.update(_bytes(batch.x))
        return key.hexdigest()

    def _read(self, path: Path, n: int) -> Tensor | None:
        """Features kept earlier; None where there are none or the file is damaged."""
        try:
            kept = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return torch.from_numpy(kept) if kept.shape == (n, self.width) else None


def _bytes(value: Tensor) -> memoryview:
    return np.ascontiguousarray(value.detach().cpu().numpy()).data.cast("B")


class EncodedFeatures(nn.Module):
    """What comes before the head: takes an encoder's features, or images.

    Args:
        encoder: Gives the features of images.
        layers: To be trained on them; may be empty.
    """

    def __init__(self, encoder: Encoder, layers: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        """The inputs of the head."""
        vectors: Tensor = self.layers(self.encoder(x) if x.ndim == 4 else x)
        return vectors


class Frozen(Model, Classifier):
    """A classifier on the features of an :class:`Encoder`.

    Args:
        encoder: Gives the features.
        trained: The classifier on features.
    """

    def __init__(self, encoder: Encoder, trained: Classifier) -> None:
        features = EncodedFeatures(encoder, trained.features)
        super().__init__(features, trained.n_features, trained.head.out_features)
        self.encoder = encoder

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """The same stream with features for inputs, each data set encoded on first use."""

        def once(item: Experience | Task) -> Callable[[], Data]:
            encoded: list[Data] = []

            def load() -> Data:
                if not encoded:
                    encoded.append(self.encoder.encode(item.data, item.name, device))
                return encoded[0]

            return load

        tasks = [
            task if task.load is None else dataclasses.replace(task, load=once(task))
            for task in stream.tasks
        ]
        experiences = [
            dataclasses.replace(e, tasks=tuple(tasks[t.index] for t in e.tasks), load=once(e))
            for e in stream.experiences
        ]
        return dataclasses.replace(
            stream, tasks=tasks, experiences=experiences, input_shape=(self.encoder.width,)
        )


def frozen(
    input_shape: tuple[int, ...],
    n_outputs: int,
    data_dir: Path | None = None,
    backbone: str = "tf_efficientnet_lite0",
    pretrained: bool = True,
    size: int | None = None,
    hidden: list[int] | tuple[int, ...] = (),
    cache: bool = True,
) -> Frozen:
    """A frozen timm backbone; only what follows its features is trained.

    Features of each data set are computed once, so a step costs as much as a linear layer. To
    plugins the features are the inputs: replay stores them, generative replay generates them, EWC
    and LwF hold the layers after them.

    Args:
        input_shape: Channels, height and width; a fourth channel is depth.
        n_outputs: Output units.
        data_dir: The data folder; features are kept in its folder ``features``.
        backbone: timm's name.
        pretrained: Its weights: tf_efficientnet_lite0 has them in the extra ``pretrained``, others
            need the network or timm's cache. False keeps random ones.
        size: Scale images to this side first; larger is slower and, for weights learned on large
            images, better. None leaves them.
        hidden: Widths of layers between the features and the head, trained with it.
        cache: Keep features on disk for further runs, by the checksum of weights and images.
    """
    at_least(size, 1, "model.size")
    shape = input_shape
    if size is not None and len(input_shape) == 3:
        shape = (input_shape[0], size, size)
    body, width = make_body(backbone, shape, pretrained)
    folder = None if data_dir is None or not cache else Path(data_dir) / "features" / backbone
    return Frozen(Encoder(body, width, size, folder), mlp((width,), n_outputs, hidden))


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "frozen", frozen)
