"""Sample images of each experience, stored in the run folder for its report."""

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
"""Name in the run folder."""
_SIDE = 48
"""Maximum height and width of an image in pixels."""
_SLENDER = 8
"""Maximum ratio of an image's longer side to its shorter side."""


class Samples(Plugin):
    """Strips of training images of each experience, stored before it is learned, a few kB each.

    The strip of the first experience is ``samples/exp0_NAME.png`` in the run folder; depth, if
    there is any, is a second row. Inputs that are not images are left out. Training is the same
    with and without strips.

    Args:
        folder: Folder of the strips.
        count: Images per strip.
    """

    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, folder: str, count: int = 8) -> None:
        self.folder, self.count = Path(folder), count

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if strips are enabled and the run is written to a folder."""
        count = context.logging.sample_images
        if not count or context.run_dir is None:
            return None
        return cls(str(context.run_dir / FOLDER), count)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Store the experience's strip, and send it to loggers that accept images."""
        if not is_shown(experience.index, len(learner.stream)):
            return
        path = self._store(learner, experience)
        replaying = learner.state.checkpointer.replaying
        if path is not None and learner.step_log.takes_media and not replaying:
            learner.log_media("samples", path, experience.name)

    def _store(self, learner: Learner, experience: Experience) -> Path | None:
        """Store the strip of an experience; return None if its inputs are not images."""
        name = re.sub(r"[^\w.+-]+", "_", experience.name)[:60]
        path = self.folder / f"exp{experience.index}_{name}.png"
        data = experience.data
        if path.exists():
            return path
        if not len(data.labels):  # reinforcement learning has no samples yet
            return None
        positions = torch.linspace(0, len(data) - 1, min(self.count, len(data))).round().long()
        with evaluation_mode(learner):
            here = positions.to(data.labels.device)
            content = strip(data.transform(data.gather(here), data.tasks[here]))
        if content is None:
            return None
        make_folder(self.folder)
        write_bytes(path, content)  # flushed: a resumed run treats an existing file as complete
        return path


def strip(inputs: Any) -> bytes | None:
    """Return samples side by side as a PNG, depth below colors, or None if they are not images."""
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
    """Return a strip of colors and, with a fourth channel, one of depth: bytes [3, h, w]."""
    if batch.ndim == 5:  # sequences: use the image in the middle of each
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
        torch.cat(list(_bytes(channels).expand(-1, 3, -1, -1)), dim=2)
        for channels in (values[:, :3], values[:, 3:])
        if channels.shape[1]
    ]


def _bytes(values: Tensor) -> Tensor:
    """Return values in 0..1 unchanged; scale others (normalized inputs) from least to largest."""
    low, high = values.min(), values.max()
    if low < -0.01 or high > 1.01:
        values = (values - low) / (high - low).clamp(min=1e-8)
    return (values.clamp(0, 1) * 255).round().to(torch.uint8)
