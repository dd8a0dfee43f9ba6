"""Experience replay: some samples of the past in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clframe.core.memory import make_buffer, remember
from clframe.core.plugin import Plugin
from clframe.data.buffer import Buffer
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.utils.settings import check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream
    from clframe.data.dataset import Batch, Data


class Replay(Plugin):
    """Mixes stored samples of earlier experiences into every step.

    The step's loss is the mean over all samples (``weighting=samples``), or, with t experiences so
    far, (1/t) L_current + (1 - 1/t) L_replay (``weighting=tasks``; van de Ven & Tolias, "Three
    scenarios for continual learning", 2019). Stored are the untransformed inputs, whatever they
    are (images, RGB-D, features, trajectories), so a random transform acts anew each time.

    Args:
        size: Samples kept in all; not used when ``per_class`` is given.
        per_class: Samples kept of each class; memory is taken for all classes of the stream.
        policy: What to keep: a uniform sample of everything (``reservoir``; with ``per_class`` a
            reservoir for each class), an equal share of each class drawn uniformly
            (``class_balanced``), the newest of each class (``ring``) or iCaRL's ``herding``.
        batch_size: Samples replayed per step; None for as many as the current batch has.
        weighting: ``samples`` or ``tasks``, as above.
    """

    supports_batched_seeds = True
    paper = "Chaudhry et al., On Tiny Episodic Memories in Continual Learning, 2019"
    state = ("buffer",)

    def __init__(
        self,
        size: int = 1000,
        per_class: int | None = None,
        policy: Literal["reservoir", "class_balanced", "ring", "herding"] = "reservoir",
        batch_size: int | None = None,
        weighting: Literal["samples", "tasks"] = "samples",
    ) -> None:
        if weighting not in ("samples", "tasks"):
            raise SettingError(f"replay.weighting must be samples or tasks, got {weighting!r}")
        self.size = size
        self.per_class = per_class
        self.policy = policy
        self.batch_size = batch_size
        self.weighting = weighting
        check_at_least(self, self.name, size=1, per_class=1, batch_size=1)
        self.buffer: Buffer

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Make the buffer, which takes no memory yet."""
        self.buffer = make_buffer(stream, self.size, self.per_class, self.policy)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """Samples of the buffer, once there are any."""
        if not len(self.buffer):
            return None
        n = self.batch_size or len(batch)
        weight = len(learner.seen) if self.weighting == "tasks" else n / len(batch)
        return self.buffer.sample(learner, n, weight)

    @hookimpl
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Offer the experience's data to the buffer."""
        remember(self.buffer, learner, data)
