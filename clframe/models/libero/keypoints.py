"""A small network that finds named points in an image: things, their handles, the hand.

Trained once on what a simulator knows of its images (``scripts/train_tabletop_encoder.py``) and
then frozen. An image becomes a vector: for each point how surely it is seen, its place in the
image and its depth, and after all points a summary of the whole image.
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
"""Pixels of an image's side that the network is made for."""
CELLS = 16
"""Cells along a side of the maps: one for each 4 pixels."""
_EACH = 4
"""Numbers that a point gives: seen, across, down, depth."""


class Points(NamedTuple):
    """What is found of n points: logits of the maps, ``[b, n, cells]``, and ``[b, n]`` each."""

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
        names: Of the points.
        fine: Channels at 16 x 16.
        coarse: Channels at 8 x 8.
        summary: Numbers that sum up the image.
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
        # Middles of the cells, in -1..1 of the image.
        middles = (torch.arange(CELLS) + 0.5) * 2 / CELLS - 1
        self.register_buffer("middles", middles, persistent=False)

    @property
    def width(self) -> int:
        """Numbers of an image's vector."""
        return _EACH * len(self.names) + self.sizes[2]

    def forward(self, images: Tensor) -> Points:
        """Images ``[b, 3, 64, 64]`` in 0..1 to points; x and y in -1..1, y downwards."""
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
        """Images to vectors ``[b, width]``; what is not seen gives zeros."""
        found = self(images)
        seen = found.seen.sigmoid()
        places = [seen * number for number in (found.across, found.down, found.depth)]
        return torch.cat([torch.stack([seen, *places], 2).flatten(1), found.summary], 1)


def to_bytes(net: KeypointNet, note: dict[str, Any]) -> bytes:
    """The network as a compressed NumPy archive in half precision; loading it runs no code.

    Args:
        net: What is kept.
        note: How it was made, for people.
    """
    arrays = {
        name: value.detach().cpu().numpy().astype(np.float16)
        for name, value in net.state_dict().items()
        if value.is_floating_point()
    }
    made = {"names": net.names, "sizes": net.sizes, "note": note}
    content = io.BytesIO()
    np.savez_compressed(content, made=np.array(json.dumps(made)), **arrays)
    return content.getvalue()


def read(path: Path) -> tuple[KeypointNet, str]:
    """A network as it was kept, ready to use, and the checksum of its file.

    Raises:
        DataError: There is no such file, or it is not one of :func:`to_bytes`.
    """
    try:
        content = path.read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            made = json.loads(str(kept["made"]))
            net = KeypointNet(made["names"], *made["sizes"])
            state = {
                name: torch.from_numpy(kept[name].astype(np.float32))
                for name in kept.files
                if name != "made"
            }
        missing, unknown = net.load_state_dict(state, strict=False)
        # Only the counters of batch norms are not kept.
        if unknown or any(not name.endswith("num_batches_tracked") for name in missing):
            raise ValueError("other weights than the network has")
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile) as error:
        raise DataError(f"'{path}' holds no network that finds points: {error}") from error
    net.eval().requires_grad_(False)
    return net, hashlib.blake2b(content, digest_size=16).hexdigest()
