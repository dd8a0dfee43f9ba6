"""A frozen backbone whose features are computed once; training reads only features."""

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
"""Images per call of the backbone."""


class Encoder:
    """A frozen backbone, and a cache of its features on disk.

    It is not a module: it is not trained, saved in checkpoints or copied with teachers.

    Args:
        body: The network.
        width: Number of features.
        size: Side to which images are scaled; None does not scale them.
        folder: The folder of the cache; None does not cache.
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
        """Return the features of images."""
        if self.size is not None:
            side = (self.size, self.size)
            x = functional.interpolate(x, side, mode="bilinear", antialias=True)
        self.body.to(x.device)
        features: Tensor = self.body(x)
        return features

    def encode(self, data: Data, what: str, device: torch.device) -> TensorData:
        """Return the data with features as inputs, from the cache if it has them.

        Args:
            data: Data whose inputs are images.
            what: The name of the data, for the progress bar.
            device: The device to compute on.
        """
        if getattr(data.transform, "random", False):
            raise SettingError(
                "model 'frozen' computes the features of each image once, but this stream "
                "augments its images at random; use model=timm with strategy=linear_probe"
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

    def _compute(self, data: Data, name: str, device: torch.device) -> Tensor:
        features = []
        with ProgressMeter(f"features {name}", len(data), "images") as meter:
            for batch in data.batches(torch.arange(len(data)), _BATCH):
                features.append(self(batch.x.to(device)).cpu())
                meter.update(len(batch))
        return torch.cat(features)

    def _key(self, data: Data) -> str:
        """Return a key for the weights, the scaling and the backbone's input images."""
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
        """Return features from the cache, or None if they are missing or damaged."""
        try:
            features = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return torch.from_numpy(features) if features.shape == (n, self.width) else None


def _bytes(value: Tensor) -> memoryview:
    return np.ascontiguousarray(value.detach().cpu().numpy()).data.cast("B")


class EncodedFeatures(nn.Module):
    """The layers before the head, which read an encoder's features or images.

    Args:
        encoder: Computes the features of images.
        layers: Trainable layers on the features; may be empty.
    """

    def __init__(self, encoder: Encoder, layers: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        """Return the inputs of the head."""
        vectors: Tensor = self.layers(self.encoder(x) if x.ndim == 4 else x)
        return vectors


class Frozen(Model, Classifier):
    """A classifier on the features of an :class:`Encoder`.

    Args:
        encoder: Computes the features.
        trained: The classifier on the features.
    """

    def __init__(self, encoder: Encoder, trained: Classifier) -> None:
        features = EncodedFeatures(encoder, trained.features)
        super().__init__(features, trained.n_features, trained.head.out_features)
        self.encoder = encoder

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """Return the stream with features as inputs; each dataset is encoded on first use."""

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
    """A frozen timm backbone; only the layers after its features are trained.

    Features of each dataset are computed once, so a step costs as much as a linear layer. For
    plugins, the features are the inputs: replay stores them, generative replay generates them, EWC
    and LwF constrain the layers after them.

    Args:
        input_shape: Channels, height and width; a fourth channel is depth.
        n_outputs: Output units.
        data_dir: The data folder; its folder ``features`` caches features.
        backbone: timm's name of the backbone.
        pretrained: Load pretrained weights: for tf_efficientnet_lite0 from the extra
            ``pretrained``, for others from the network or timm's cache. False uses random weights.
        size: Scale images to this side first; larger is slower but better for weights that were
            learned on large images. None does not scale them.
        hidden: Widths of layers between the features and the head, trained with it.
        cache: Keep features on disk for later runs, by the checksum of weights and images.
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
    """Register the model."""
    registry.add("model", "frozen", frozen)
