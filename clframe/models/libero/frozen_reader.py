"""Images through a frozen encoder: each frame is encoded once, and training reads features.

This is like :mod:`clframe.models.frozen` for sequences. Several augmented views of every frame
(shifted, other colors) are encoded too, and training draws one per sequence.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clframe.data.observations import TASK
from clframe.errors import SettingError
from clframe.models.libero.augment import Augment
from clframe.models.libero.film_resnet import FiLM
from clframe.models.libero.keypoints import SIDE, KeypointNet, read
from clframe.models.libero.observation_encoder import Parts, States
from clframe.utils import files
from clframe.utils.progress import ProgressMeter

WEIGHTS = Path(__file__).parent / "data" / "tabletop_keypoints.npz"
"""The shipped encoder, made by ``scripts/train_tabletop_encoder.py``."""
_CHUNK = 128
"""Images per call of the encoder."""
_LEAST_SPREAD = 0.02
"""Added to each feature's deviation: a constant feature of the first task may change later."""
_CLIP = 5.0


class FrozenEncoder:
    """A frozen encoder, and a cache of its features on disk.

    It is not a module: it is not trained, saved in checkpoints or copied with teachers.

    Args:
        weights: The file of weights.
        views: Encoded views of each frame: the original, then augmented ones.
        augment: Makes the augmented views.
        folder: The folder of the cache; None does not cache.
    """

    def __init__(self, weights: Path, views: int, augment: Augment, folder: Path | None) -> None:
        net, self.digest = read(weights)
        self.net: KeypointNet = net
        self.width = net.width
        self.views, self.folder = views, folder
        self.augment = augment.train()

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenEncoder:
        return self

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Encode byte images ``[..., 3, side, side]`` as vectors ``[..., width]``."""
        self.net.to(images.device)
        flat = images.flatten(0, -4).to(torch.float32) / 255.0
        features: Tensor = self.net.features(flat).unflatten(0, images.shape[:-3])
        return features

    def encode(self, images: Tensor, what: str, device: torch.device) -> Tensor:
        """Encode all views of frames ``[n, side, side, 3]``: ``[n, views, width]`` in float16."""
        path = None if self.folder is None else self.folder / f"{self._key(images)}.npy"
        features = None if path is None else self._read(path, len(images))
        if features is None:
            features = self._compute(images, what, device)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                content = io.BytesIO()
                np.save(content, features.numpy(), allow_pickle=False)
                files.write_bytes(path, content.getvalue())
        return features

    @torch.no_grad()
    def _compute(self, images: Tensor, name: str, device: torch.device) -> Tensor:
        self.net.to(device)
        features = torch.empty(len(images), self.views, self.width, dtype=torch.float16)
        with ProgressMeter(f"features {name}", len(images), "frames") as meter:
            for first in range(0, len(images), _CHUNK):
                chunk = images[first : first + _CHUNK].to(device)
                chunk = chunk.permute(0, 3, 1, 2).to(torch.float32) / 255.0
                for view in range(self.views):
                    changed = self._changed(chunk, view) if view else chunk
                    features[first : first + len(chunk), view] = self.net.features(changed).cpu()
                meter.update(len(chunk))
        return features

    def _changed(self, images: Tensor, view: int) -> Tensor:
        """Return the images of a view, with the same augmentation for all images and cameras."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(view)
            changed: Tensor = self.augment([images[None]])[0][0]
        return changed

    def _key(self, images: Tensor) -> str:
        """Return a key for the encoder, the augmentation and the frames."""
        jitter = None if self.augment.jitter is None else self.augment.jitter.brightness
        settings = f"{self.digest} {self.views} {self.augment.shift} {jitter}"
        key = hashlib.blake2b(settings.encode(), digest_size=16)
        key.update(np.ascontiguousarray(images.numpy()).data.cast("B"))
        return key.hexdigest()

    def _read(self, path: Path, n: int) -> Tensor | None:
        """Return features from the cache, or None if they are missing or damaged."""
        try:
            features = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        matches = features.shape == (n, self.views, self.width) and features.dtype == np.float16
        return torch.from_numpy(features) if matches else None


class FeatureReader(nn.Module):
    """Reads batches of sequences whose images are features of a frozen encoder.

    While acting, the inputs are images and are encoded here. Features are normalized by mean and
    deviation of the first learned task, and dropped out in training: otherwise a policy identifies
    its few demonstrations by irrelevant features.

    Args:
        states: Reads the robot's state.
        encoder: Computes the features.
        dropout: Dropout of an image's features in training.
        n_condition: Length of the instruction's vector.
        hidden: Width of the layer before a token, which the instruction modulates.
        width: Width of a token.
    """

    def __init__(
        self,
        states: States,
        encoder: FrozenEncoder,
        dropout: float,
        n_condition: int,
        hidden: int,
        width: int,
    ) -> None:
        super().__init__()
        layout = states.layout
        if layout.side != SIDE:
            raise SettingError(
                f"model.encoder=frozen needs images of {SIDE} pixels a side, but stream.size is "
                f"{layout.side}"
            )
        self.layout, self.states, self.encoder = layout, states, encoder
        self.dropout = nn.Dropout(dropout)
        cameras = layout.images
        # Set by the first task's frames, and saved with the policy like its weights.
        shape = (len(cameras), encoder.width)
        self.center: Tensor
        self.spread: Tensor
        self.known: Tensor
        self.register_buffer("center", torch.zeros(shape))
        self.register_buffer("spread", torch.ones(shape))
        self.register_buffer("known", torch.zeros(len(cameras), dtype=torch.bool))
        self.inner = nn.ModuleList(nn.Linear(encoder.width, hidden) for _ in cameras)
        self.films = nn.ModuleList(FiLM(n_condition, hidden) for _ in cameras)
        self.project = nn.ModuleList(nn.Linear(hidden, width) for _ in cameras)
        # Saved in checkpoints instead of the encoder's weights.
        digest = torch.tensor(list(bytes.fromhex(encoder.digest)), dtype=torch.uint8)
        self.register_buffer("digest", digest)

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        digest = state.get(f"{prefix}digest")
        if digest is not None and bytes(digest.tolist()).hex() != self.encoder.digest:
            raise SettingError(
                "the policy was trained on features of another frozen encoder "
                f"({bytes(digest.tolist()).hex()}) than this one ({self.encoder.digest}); set "
                "model.weights to its file"
            )
        super()._load_from_state_dict(state, prefix, *rest)

    def encode_frames(self, device: torch.device, images: Tensor, camera: str, task: int) -> Tensor:
        """Return the features of a task's frames, which are encoded once."""
        features = self.encoder.encode(images, f"{camera} of task {task}", device)
        row = self.layout.images.index(camera)
        if not self.known[row]:
            plain = features[:, 0].float()
            self.center[row] = plain.mean(0)
            self.spread[row] = plain.std(0, correction=0) + _LEAST_SPREAD
            self.known[row] = True
        return features

    def forward(self, x: dict[str, Tensor]) -> Parts:
        """Return the parts of a batch."""
        features = self._normalized(self._views([x[name] for name in self.layout.images]))
        constant = features[0].new_ones(len(features[0]), 1)
        condition = x[TASK] if self.layout.task else constant
        tokens = []
        layers = zip(features, self.inner, self.films, self.project, strict=True)
        for vectors, inner, film, project in layers:
            hidden = film(inner(self.dropout(vectors)).relu().transpose(1, 2)[..., None], condition)
            tokens.append(project(hidden[..., 0].transpose(1, 2).relu()))
        return Parts(condition, self.states(x), tokens)

    def _normalized(self, features: list[Tensor]) -> list[Tensor]:
        return [
            ((vectors - center) / spread).clamp(-_CLIP, _CLIP)
            for vectors, center, spread in zip(features, self.center, self.spread, strict=True)
        ]

    def _views(self, images: list[Tensor]) -> list[Tensor]:
        """Return each camera's features ``[n, steps, width]``, in training of a random view."""
        if images[0].dtype == torch.uint8:
            return [self.encoder(image) for image in images]
        n, views = len(images[0]), images[0].shape[2]
        if not self.training or views == 1:
            return [image[:, :, 0].float() for image in images]
        drawn = torch.randint(views, (n,)).to(images[0].device)
        rows = torch.arange(n, device=drawn.device)
        return [image[rows, :, drawn].float() for image in images]
