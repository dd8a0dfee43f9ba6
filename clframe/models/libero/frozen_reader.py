"""Images through a frozen encoder: each frame is encoded once, and training sees features only.

As :mod:`clframe.models.frozen` does for images. Some changed views of every frame are encoded as
well (moved, other colors), of which training draws one a sequence, so that augmentation survives.
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
"""The encoder that is shipped; ``scripts/train_tabletop_encoder.py`` made it."""
_CHUNK = 128
"""Images that go through the encoder at a time."""
_LEAST_SPREAD = 0.02
"""Added to the deviation of each feature: what never moves in the first task may move later."""
_CLIP = 5.0


class FrozenEncoder:
    """An encoder that never changes, and the features it gave, kept on disk.

    Not a module: it is not trained, saved in checkpoints or copied with teachers.

    Args:
        weights: The file of its weights.
        views: How many views of each frame are encoded: itself, then changed ones.
        augment: Changes views.
        folder: Where features are kept; None keeps none.
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
        """Images ``[..., 3, side, side]`` as bytes to vectors ``[..., width]``."""
        self.net.to(images.device)
        flat = images.flatten(0, -4).to(torch.float32) / 255.0
        features: Tensor = self.net.features(flat).unflatten(0, images.shape[:-3])
        return features

    def encode(self, images: Tensor, what: str, device: torch.device) -> Tensor:
        """All views of stored frames ``[n, side, side, 3]``: ``[n, views, width]`` in halves."""
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
    def _compute(self, images: Tensor, what: str, device: torch.device) -> Tensor:
        self.net.to(device)
        made = torch.empty(len(images), self.views, self.width, dtype=torch.float16)
        with ProgressMeter(f"features {what}", len(images), "frames") as meter:
            for first in range(0, len(images), _CHUNK):
                chunk = images[first : first + _CHUNK].to(device)
                chunk = chunk.permute(0, 3, 1, 2).to(torch.float32) / 255.0
                for view in range(self.views):
                    changed = self._changed(chunk, view) if view else chunk
                    made[first : first + len(chunk), view] = self.net.features(changed).cpu()
                meter.update(len(chunk))
        return made

    def _changed(self, images: Tensor, view: int) -> Tensor:
        """The images as a view has them: all of them, of all cameras, changed alike."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(view)
            changed: Tensor = self.augment([images[None]])[0][0]
        return changed

    def _key(self, images: Tensor) -> str:
        """Tells apart encoders, ways of changing views, and frames."""
        jitter = None if self.augment.jitter is None else self.augment.jitter.brightness
        settings = f"{self.digest} {self.views} {self.augment.shift} {jitter}"
        key = hashlib.blake2b(settings.encode(), digest_size=16)
        key.update(np.ascontiguousarray(images.numpy()).data.cast("B"))
        return key.hexdigest()

    def _read(self, path: Path, n: int) -> Tensor | None:
        """Features kept earlier; None where there are none or the file is damaged."""
        try:
            kept = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        whole = kept.shape == (n, self.views, self.width) and kept.dtype == np.float16
        return torch.from_numpy(kept) if whole else None


class FeatureReader(nn.Module):
    """Takes a batch of sequences apart whose images are features of a frozen encoder.

    While acting the images are images, and are encoded here. Features are normalized by their
    mean and deviation in the first task that is learned, and some are left out in training:
    otherwise a policy tells its few demonstrations apart by numbers that mean nothing.

    Args:
        states: Reads the robot's state.
        encoder: Gives the features.
        dropout: Share of an image's features that is left out in training.
        n_condition: Length of the instruction's vector.
        hidden: Width of the layer before a token, which the instruction modulates.
        width: Of a token.
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
                f"model.encoder=frozen is made for images of {SIDE} pixels a side; stream.size "
                f"is {layout.side}"
            )
        self.layout, self.states, self.encoder = layout, states, encoder
        self.dropout = nn.Dropout(dropout)
        cameras = layout.images
        # Known when the first task's frames have been seen; part of the policy, as weights are.
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
        # In checkpoints instead of the encoder's weights.
        digest = torch.tensor(list(bytes.fromhex(encoder.digest)), dtype=torch.uint8)
        self.register_buffer("digest", digest)

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        kept = state.get(f"{prefix}digest")
        if kept is not None and bytes(kept.tolist()).hex() != self.encoder.digest:
            raise SettingError(
                "the policy was trained on features of another frozen encoder "
                f"({bytes(kept.tolist()).hex()}) than the one given ({self.encoder.digest}): "
                "give its file in model.weights"
            )
        super()._load_from_state_dict(state, prefix, *rest)

    def encode_frames(self, device: torch.device, images: Tensor, camera: str, task: int) -> Tensor:
        """Features of the frames of a task's demonstrations, which are encoded once."""
        features = self.encoder.encode(images, f"{camera} of task {task}", device)
        row = self.layout.images.index(camera)
        if not self.known[row]:
            plain = features[:, 0].float()
            self.center[row] = plain.mean(0)
            self.spread[row] = plain.std(0, correction=0) + _LEAST_SPREAD
            self.known[row] = True
        return features

    def forward(self, x: dict[str, Tensor]) -> Parts:
        """The parts of a batch."""
        features = self._normalized(self._views([x[name] for name in self.layout.images]))
        nothing = features[0].new_ones(len(features[0]), 1)
        condition = x[TASK] if self.layout.task else nothing
        seen = []
        layers = zip(features, self.inner, self.films, self.project, strict=True)
        for vectors, inner, film, project in layers:
            hidden = film(inner(self.dropout(vectors)).relu().transpose(1, 2)[..., None], condition)
            seen.append(project(hidden[..., 0].transpose(1, 2).relu()))
        return Parts(condition, self.states(x), seen)

    def _normalized(self, features: list[Tensor]) -> list[Tensor]:
        return [
            ((vectors - center) / spread).clamp(-_CLIP, _CLIP)
            for vectors, center, spread in zip(features, self.center, self.spread, strict=True)
        ]

    def _views(self, images: list[Tensor]) -> list[Tensor]:
        """Features ``[n, steps, width]`` of each camera; of one view that is drawn in training."""
        if images[0].dtype == torch.uint8:
            return [self.encoder(image) for image in images]
        n, views = len(images[0]), images[0].shape[2]
        if not self.training or views == 1:
            return [image[:, :, 0].float() for image in images]
        drawn = torch.randint(views, (n,)).to(images[0].device)
        rows = torch.arange(n, device=drawn.device)
        return [image[rows, :, drawn].float() for image in images]
