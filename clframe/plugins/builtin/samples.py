"""A few images of what each experience shows, kept beside the run for its report."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.data.inputs import tensors_of
from clframe.evaluation.evaluation_mode import evaluation_mode
from clframe.evaluation.schedule import is_shown
from clframe.hookspecs import hookimpl
from clframe.utils.files import make_folder, write_bytes

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience

FOLDER = "samples"
"""In the run folder."""
_SIDE = 48
"""Pixels that an image has at most in height and width."""
_SLENDER = 8
"""How many times its shorter side the longer side of an image may be."""


class Samples(Plugin):
    """Stores a strip of training images of each experience before it is learned, a few kB each.

    That of the first experience is ``samples/exp0_NAME.png`` in the run folder; depth, where there
    is any, is a second row. Inputs that are no images are left out. Learning is the same with
    them and without.

    Args:
        folder: Where strips go.
        count: Images of each.
    """

    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, folder: str, count: int = 8) -> None:
        self.folder, self.count = Path(folder), count

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Only where they are asked for and the run is written."""
        count = context.logging.sample_images
        if not count or context.run_dir is None:
            return None
        return cls(str(context.run_dir / FOLDER), count)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Store what it shows, and send it to loggers that take images."""
        if not is_shown(experience.index, len(learner.stream)):
            return
        path = self._store(learner, experience)
        replaying = learner.state.checkpointer.replaying
        if path is not None and learner.step_log.takes_media and not replaying:
            learner.log_media("samples", path, experience.name)

    def _store(self, learner: Learner, experience: Experience) -> Path | None:
        """The strip of an experience; None where it shows nothing."""
        name = re.sub(r"[^\w.+-]+", "_", experience.name)[:60]
        path = self.folder / f"exp{experience.index}_{name}.png"
        data = experience.data
        if path.exists():
            return path
        if not len(data.labels):  # what is acted for has no samples yet
            return None
        places = torch.linspace(0, len(data) - 1, min(self.count, len(data))).round().long()
        with evaluation_mode(learner):
            here = places.to(data.labels.device)
            content = strip(data.transform(data.gather(here), data.tasks[here]))
        if content is None:
            return None
        make_folder(self.folder)
        write_bytes(path, content)  # flushed: a resumed run takes a file that is there for whole
        return path


def strip(inputs: Any) -> bytes | None:
    """Samples side by side as a PNG, depth below colors; None where they are no images."""
    rows = [row for tensor in tensors_of(inputs) for row in _rows(tensor)]
    if not rows:
        return None
    from PIL import Image

    width = max(row.shape[2] for row in rows)
    rows = [functional.pad(row, (0, width - row.shape[2])) for row in rows]
    pixels = torch.cat(rows, dim=1).permute(1, 2, 0).contiguous().numpy()
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def _rows(batch: Tensor) -> list[Tensor]:
    """One strip of colors and, with a fourth channel, one of depth: bytes [3, height, width]."""
    if batch.ndim == 5:  # sequences: the image in the middle of each
        batch = batch[:, batch.shape[1] // 2]
    if batch.ndim != 4 or batch.shape[1] not in (1, 3, 4):
        return []
    short, long = sorted(batch.shape[2:])
    if short < 4 or long > _SLENDER * short:  # features of a frozen encoder have such shapes
        return []
    values = batch.detach().to("cpu", torch.float32)
    if not torch.is_floating_point(batch):
        values = values / 255
    factor = _SIDE / max(values.shape[2:])
    if factor < 1:
        values = functional.interpolate(values, scale_factor=factor, mode="area")
    return [
        torch.cat(list(_bytes(part).expand(-1, 3, -1, -1)), dim=2)
        for part in (values[:, :3], values[:, 3:])
        if part.shape[1]
    ]


def _bytes(values: Tensor) -> Tensor:
    """Values in 0..1 as they are; others (normalized inputs) from their least to their largest."""
    low, high = values.min(), values.max()
    if low < -0.01 or high > 1.01:
        values = (values - low) / (high - low).clamp(min=1e-8)
    return (values.clamp(0, 1) * 255).round().to(torch.uint8)
