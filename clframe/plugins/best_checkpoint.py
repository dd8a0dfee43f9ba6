"""Keep the model that was best on the current tasks, as in LIBERO's protocol."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from clframe.core.plugin import Plugin
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience


class BestCheckpoint(Plugin):
    """Best checkpoint of each experience, by the measure of its own tasks.

    Liu et al., LIBERO, 2023: of the points at which the current task is measured (before learning
    and every ``evaluation.check_val_every_n_epoch`` epochs) the best one is kept, the earliest of
    equals. Tasks of one experience count by their mean. As in LIBERO, it chooses by the same
    episodes (or samples) that the matrix reports.

    Example:
        >>> from clframe.plugins import BestCheckpoint
        >>> from clframe.testing import toy_run, toy_stream
        >>> result, _ = toy_run([BestCheckpoint()], toy_stream(), check_val_every_n_epoch=1)
        >>> "libero" in result.metrics  # the area under the curve, among others
        True
    """

    name = "best_checkpoint"
    paper = "Liu et al., LIBERO: Benchmarking knowledge transfer for lifelong robot learning, 2023"
    state: ClassVar[tuple[str, ...]] = ("best", "weights", "points")

    def __init__(self) -> None:
        self.best: float | None = None
        self.weights: dict[str, Tensor] = {}
        self.points = 0

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Check that something is measured during training."""
        if learner.engine.evaluation.check_val_every_n_epoch is None:
            raise PluginError(
                "plugin 'best_checkpoint' needs measurements during training: set "
                "evaluation.check_val_every_n_epoch, for instance to 5"
            )

    def _look(self, learner: Learner, experience: Experience) -> None:
        """Copy the model if the newest measurement is the best so far."""
        curves = learner.curves.get(experience.name, {})
        points = min((len(values) for values in curves.values()), default=0)
        if points == self.points:
            return
        self.points = points
        value = sum(values[-1] for values in curves.values()) / len(curves)
        if self.best is None or value > self.best:
            self.best = value
            self.weights = {
                key: tensor.detach().clone() for key, tensor in learner.model.state_dict().items()
            }

    @hookimpl(wrapper=True)
    def fit_experience(self, learner: Learner, experience: Experience) -> Generator[None, Any, Any]:
        """Measure before and during training; restore the best model at the end."""
        self.best, self.weights, self.points = None, {}, 0
        self._look(learner, experience)
        done = yield
        if self.weights:
            with torch.no_grad():
                learner.model.load_state_dict(self.weights)
        self.best, self.weights = None, {}
        return done

    @hookimpl(trylast=True)
    def after_epoch(self, learner: Learner, experience: Experience) -> None:
        """Compare the measurement after this epoch."""
        if self.best is not None or self.weights:
            self._look(learner, experience)
