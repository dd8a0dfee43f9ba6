"""A small network that finds named points in an image: objects, their handles, the hand.

It was trained once on a simulator's ground truth (``scripts/train_tabletop_encoder.py``) and is
frozen. It converts an image to a vector: the visibility, position and depth of each point, then a
summary of the whole image.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.errors import DataError

SIDE = 64
"""Side in pixels of the network's input images."""
CELLS = 16
"""Cells along a side of the maps, one for 4 pixels."""
_EACH = 4
"""Numbers per point: visibility, across, down, depth."""


class Points(NamedTuple):
    """The n points found: logits of the maps ``[b, n, cells]``, and ``[b, n]`` each."""

    maps: Tensor
    across: Tensor
    down: Tensor
    depth: Tensor
    seen: Tensor
    summary: Tensor


def _block(channels: int, dilation: int = 1) -> nn.Sequential:
    def convolution() -> nn.Conv2d:
        return nn.Conv2d(channels, channels, 3, 1, dilation, dilation, bias=False)

    first, second = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
    return nn.Sequential(convolution(), first, nn.ReLU(), convolution(), second)


class KeypointNet(nn.Module):
    """Patches of 4 pixels, two scales of convolutions, and a spatial softmax for each point.

    Args:
        names: Names of the points.
        fine: Channels at 16 x 16.
        coarse: Channels at 8 x 8.
        summary: Length of the summary of the image.
    """

    def __init__(
        self, names: Sequence[str], fine: int = 48, coarse: int = 96, summary: int = 64
    ) -> None:
        super().__init__()
        self.names = tuple(names)
        self.sizes = (fine, coarse, summary)
        n = len(self.names)
        self.stem = nn.Sequential(
            nn.Conv2d(3, fine, 8, 4, 2, bias=False), nn.BatchNorm2d(fine), nn.ReLU()
        )
        self.fine = _block(fine)
        self.narrow = nn.Sequential(
            nn.Conv2d(fine, coarse, 2, 2, bias=False), nn.BatchNorm2d(coarse), nn.ReLU()
        )
        self.coarse = nn.ModuleList([_block(coarse), _block(coarse, 2)])
        self.widen = nn.Conv2d(coarse, fine, 1)
        self.mixed = nn.Sequential(
            nn.Conv2d(fine, fine, 3, 1, 1, bias=False), nn.BatchNorm2d(fine), nn.ReLU()
        )
        self.maps = nn.Conv2d(fine, 3 * n, 1)
        self.summary = nn.Linear(coarse, summary)
        self.presence = nn.Linear(summary, n)
        # Centers of the cells, in -1..1 of the image.
        middles = (torch.arange(CELLS) + 0.5) * 2 / CELLS - 1
        self.register_buffer("middles", middles, persistent=False)

    @property
    def width(self) -> int:
        """The length of an image's vector."""
        return _EACH * len(self.names) + self.sizes[2]

    def forward(self, images: Tensor) -> Points:
        """Find points in images ``[b, 3, 64, 64]`` in 0..1; x and y are in -1..1, y downwards."""
        fine = self.stem(images - 0.5)
        fine = (fine + self.fine(fine)).relu()
        coarse = self.narrow(fine)
        for block in self.coarse:
            coarse = (coarse + block(coarse)).relu()
        wide = functional.interpolate(self.widen(coarse), scale_factor=2)
        maps = self.maps(self.mixed((fine + wide).relu())).float()
        logits, depth, seen = maps.flatten(2).unflatten(1, (3, -1)).unbind(1)
        mass = logits.softmax(2)
        square = mass.unflatten(2, (CELLS, CELLS))
        summary = self.summary(coarse.float().mean((2, 3))).tanh()
        return Points(
            logits,
            square.sum(2) @ self.middles,
            square.sum(3) @ self.middles,
            (mass * depth).sum(2),
            (mass * seen).sum(2) + self.presence(summary),
            summary,
        )

    def features(self, images: Tensor) -> Tensor:
        """Encode images as vectors ``[b, width]``; invisible points are zeros."""
        points = self(images)
        seen = points.seen.sigmoid()
        coordinates = [seen * number for number in (points.across, points.down, points.depth)]
        return torch.cat([torch.stack([seen, *coordinates], 2).flatten(1), points.summary], 1)


def to_bytes(net: KeypointNet, note: dict[str, Any]) -> bytes:
    """Return the network as a compressed float16 NumPy archive; loading it runs no code.

    Args:
        net: The network.
        note: A description of its training, for readers.
    """
    arrays = {
        name: value.detach().cpu().numpy().astype(np.float16)
        for name, value in net.state_dict().items()
        if value.is_floating_point()
    }
    description = {"names": net.names, "sizes": net.sizes, "note": note}
    content = io.BytesIO()
    np.savez_compressed(content, made=np.array(json.dumps(description)), **arrays)
    return content.getvalue()


def read(path: Path) -> tuple[KeypointNet, str]:
    """Return a stored network, ready to use, and the checksum of its file.

    Raises:
        DataError: The file does not exist, or is not from :func:`to_bytes`.
    """
    try:
        content = path.read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            description = json.loads(str(arrays["made"]))
            net = KeypointNet(description["names"], *description["sizes"])
            state = {
                name: torch.from_numpy(arrays[name].astype(np.float32))
                for name in arrays.files
                if name != "made"
            }
        missing, unknown = net.load_state_dict(state, strict=False)
        # Only the counters of batch norms are not stored.
        if unknown or any(not name.endswith("num_batches_tracked") for name in missing):
            raise ValueError("its weights do not match the network")
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile) as error:
        raise DataError(f"cannot read a keypoint network from '{path}': {error}") from error
    net.eval().requires_grad_(False)
    return net, hashlib.blake2b(content, digest_size=16).hexdigest()
