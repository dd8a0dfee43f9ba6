"""The cost of a strategy: the bytes it keeps and the operations of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch.utils.flop_counter import FlopCounterMode

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.errors import PluginError
from clframe.evaluation.kept_memory import methods_of, size_of
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Result


class Cost(Plugin):
    """Cost of a strategy: bytes kept by its plugins and operations of training steps.

    * ``state_bytes``: tensors and arrays in the plugins' saved state, after each experience. This
      must be kept between experiences: buffers, importance, sums.
    * ``held_bytes``: all tensors, arrays and modules that the plugins hold, each once: teachers,
      masks, random projections and caches too. The value is the maximum over the ends of the
      experience's epochs and its own end. The learner's own model is not counted.
    * ``train_flops``: operations (a product and a sum are two) of matrix products, convolutions
      and attention in the steps of the training loop, forward and backward, with what plugins add
      to a step. torch counts them (``torch.utils.flop_counter``) in the steps 1, 2, 4, 8, ... of
      each experience, and each stands for the steps up to the next. Not counted: elementwise work,
      the optimizer, evaluation, and work outside of steps (a Fisher estimate, herding, a pass over
      the data of a method without steps). An experience in which nothing is counted has None.

    Example:
        >>> from clframe.plugins import Cost
        >>> from clframe.testing import toy_run, toy_stream
        >>> result, _ = toy_run([Cost()], toy_stream())
        >>> result.metrics["cost"]["state_bytes"]
        0
    """

    name = "cost"
    paper = "Lomonaco & Maltoni, CORe50, 2017; torch.utils.flop_counter"
    capabilities = Capabilities(evaluator=True, distributed=False)
    state: ClassVar[tuple[str, ...]] = ("values", "flops", "per_step", "steps", "held")

    def __init__(self) -> None:
        self.values: dict[str, list[int | None]] = {
            "state_bytes": [],
            "held_bytes": [],
            "train_flops": [],
        }
        self.flops = 0
        """Operations of the current experience's steps so far."""
        self.per_step = 0
        self.steps = 0
        self.held = 0
        """Maximum number of bytes in the current experience."""
        self._counter: FlopCounterMode | None = None
        self._counted = 0

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Raise an error for settings under which torch cannot count."""
        for name in ("compile", "cuda_graphs"):
            if getattr(learner.engine.settings, name):
                raise PluginError(
                    f"plugin 'cost' counts single operations, which trainer.{name}=true hides: "
                    f"measure a short run without it"
                )

    @hookimpl
    def before_experience(self) -> None:
        """Reset the counts."""
        self.flops = self.per_step = self.steps = self.held = 0

    @hookimpl(tryfirst=True)
    def extra_batches(self) -> None:
        """Start counting if this step is to be counted."""
        following = self.steps + 1
        if following & (following - 1) == 0:
            self._counter = FlopCounterMode(display=False)
            self._counter.__enter__()

    @hookimpl
    def after_step(self) -> None:
        """Count the step."""
        if self._counter is not None:
            self._stop()
            self.per_step = self._counted
        self.steps += 1
        self.flops += self.per_step

    @hookimpl(tryfirst=True)
    def teardown(self) -> None:
        """Remove the counter of a run that ends within a step."""
        self._stop()

    def _stop(self) -> None:
        if self._counter is not None:
            self._counter.__exit__(None, None, None)
            self._counted = self._counter.get_total_flops()
            self._counter = None

    @hookimpl(trylast=True)
    def after_epoch(self, learner: Learner) -> None:
        """Measure what the plugins hold during training."""
        self.held = max(
            self.held, size_of(learner, [vars(plugin) for plugin in methods_of(learner)])
        )

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        """Measure what the plugins hold now, and what they would save."""
        states = [plugin.state_dict() for plugin in methods_of(learner)]
        held = size_of(learner, [vars(plugin) for plugin in methods_of(learner)])
        values = {
            "state_bytes": size_of(learner, states),
            "held_bytes": max(self.held, held),
            "train_flops": self.flops if self.per_step else None,
        }
        for name, value in values.items():
            self.values[name].append(value)
            if value is not None:
                learner.log(f"{self.name}/{name}", value)

    @hookimpl
    def metrics(self, result: Result) -> None:
        """Store the values of each experience."""
        result.measured[self.name] = {"values": self.values}
