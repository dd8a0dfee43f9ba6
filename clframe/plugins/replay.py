"""Experience replay: some samples of the past in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.data.buffer import Buffer
from clframe.data.class_buffer import make_buffer, remember
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.step import Step
    from clframe.core.stream import Experience, Stream
    from clframe.data.dataset import Batch, Data


class Replay(Plugin):
    """Experience replay: stored samples of earlier experiences in every step.

    The step's loss is the mean over all samples (``weighting=samples``), or, with t experiences so
    far, (1/t) L_current + (1 - 1/t) L_replay (``weighting=tasks``; van de Ven & Tolias, "Three
    scenarios for continual learning", 2019). The buffer stores untransformed inputs of any kind
    (images, RGB-D, features, trajectories), so a random transform differs each time.

    Samples enter the buffer after their experience (``fill=experience``), or at each step, so that
    those of the current experience are replayed as well (``fill=step``; Chaudhry et al. 2019, and
    Mammoth, the program of DER's paper). ``fill=step`` needs a plain reservoir and stores the
    inputs as the model receives them.

    Args:
        size: Number of samples in the buffer; not used when ``per_class`` is given.
        per_class: Samples kept of each class; memory is allocated for all classes of the stream.
        policy: Which samples to keep: a uniform sample of everything (``reservoir``; with
            ``per_class`` a reservoir for each class), an equal share of each class drawn uniformly
            (``class_balanced``), the newest of each class (``ring``) or iCaRL's ``herding``.
        batch_size: Samples replayed per step; None for the size of the current batch.
        weighting: ``samples`` or ``tasks``, as above.
        fill: After each ``experience`` or at each ``step``, as above.

    Example:
        ``clframe fit strategy=replay+lwf strategy.replay.size=500``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import Replay
        >>> from clframe.testing import prepare
        >>> strategy = [Replay(size=500, policy="class_balanced"), "lwf"]
        >>> prepare("split_mnist", strategy).strategy
        'replay+lwf'
    """

    roles = ("replayed samples",)
    capabilities = Capabilities(batched_seeds=True)
    paper = "Chaudhry et al., On Tiny Episodic Memories in Continual Learning, 2019"
    state = ("buffer",)

    def __init__(
        self,
        size: int = 1000,
        per_class: int | None = None,
        policy: Literal["reservoir", "class_balanced", "ring", "herding"] = "reservoir",
        batch_size: int | None = None,
        weighting: Literal["samples", "tasks"] = "samples",
        fill: Literal["experience", "step"] = "experience",
    ) -> None:
        if weighting not in ("samples", "tasks"):
            raise SettingError(f"replay.weighting must be samples or tasks, got {weighting!r}")
        self.size = size
        self.per_class = per_class
        self.policy = policy
        self.batch_size = batch_size
        if fill == "step" and (policy != "reservoir" or per_class is not None):
            raise SettingError(
                "replay.fill=step needs replay.policy=reservoir and replay.per_class=null: only a "
                "plain reservoir accepts the samples of single steps"
            )
        if fill == "step" and weighting == "tasks":
            raise SettingError(
                "replay.weighting=tasks weighs past experiences against the current one; with "
                "replay.fill=step both are replayed, so choose replay.weighting=samples"
            )
        self.weighting = weighting
        self.fill = fill
        check_at_least(self, self.name, size=1, per_class=1, batch_size=1)
        self.buffer: Buffer

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Create the buffer, which takes no memory yet."""
        if self.fill == "step":
            self.buffer = Buffer(self.size, "reservoir", transformed=True)
        else:
            self.buffer = make_buffer(stream, self.size, self.per_class, self.policy)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """Return samples of the buffer, once there are any."""
        if not len(self.buffer):
            return None
        n = self.batch_size or len(batch)
        weight = len(learner.seen) if self.weighting == "tasks" else n / len(batch)
        return self.buffer.sample(learner, n, weight)

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Offer the step's own samples to the buffer, with ``fill=step``."""
        if self.fill == "step":
            batch = step.batch
            self.buffer.add_batch(batch.x, batch.y, batch.task, learner.generator)

    @hookimpl
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Offer the experience's data to the buffer, with ``fill=experience``."""
        if self.fill == "experience":
            remember(self.buffer, learner, data)
