"""Signs of lost plasticity: dormant units, the rank of the features, the norm of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules import activation

from clframe.core import hooks
from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.core.protocols import features_of
from clframe.errors import SettingError
from clframe.evaluation.evaluation_mode import evaluation_mode
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Experience
    from clframe.data.dataset import Data

_NAMES = ("dormant", "srank", "effective_rank", "stable_rank", "weight_norm")
_NOT_UNITS = ("MultiheadAttention", "Softmax", "Softmax2d", "Softmin", "LogSoftmax")
ACTIVATIONS = tuple(
    getattr(activation, name) for name in activation.__all__ if name not in _NOT_UNITS
)
"""Modules whose outputs are units."""


class Plasticity(Plugin):
    """Dormant units, ranks of the features and the weights' norm after each experience.

    On samples of the experience just learned, in evaluation mode:

    * ``dormant`` (Sokar et al. 2023, Definition 3.1): a unit with the mean |activation| a_i over
      the samples has the score a_i / (mean of a over its layer); it is dormant if that is at most
      ``tau``. The share is over the units of all layers. Layers are the outputs of the model's
      activation modules; channels of a convolution are units (mean over places).
    * ranks of the features (the head's inputs, a row per sample, with singular values s):
      ``srank`` is the least k with s_1 + ... + s_k at least 1 - ``delta`` of their sum (Kumar et
      al. 2021), ``effective_rank`` exp of the entropy of s / sum(s) (Roy & Vetterli 2007, as in
      Dohare et al. 2024), ``stable_rank`` sum(s^2) / max(s)^2.
    * ``weight_norm``: norm of all trained parameters as one vector.

    Values that a model does not expose (activations that are not modules, no head) are None.

    Args:
        samples: Samples of the experience, evenly spaced over its data.
        tau: Units with a score up to this are dormant.
        delta: Share of the sum of singular values that ``srank`` leaves out.

    Example:
        >>> from clframe.plugins import Plasticity
        >>> from clframe.testing import toy_run, toy_stream
        >>> result, _ = toy_run([Plasticity(samples=40)], toy_stream())
        >>> len(result.metrics["plasticity"]["dormant_k"])
        3
    """

    name = "plasticity"
    paper = "Sokar et al., The Dormant Neuron Phenomenon in Deep Reinforcement Learning, 2023"
    capabilities = Capabilities(evaluator=True)
    state: ClassVar[tuple[str, ...]] = ("values",)

    def __init__(self, samples: int = 512, tau: float = 0.025, delta: float = 0.01) -> None:
        self.samples = samples
        self.tau = tau
        self.delta = delta
        check_at_least(self, self.name, samples=1, tau=0)
        if not 0 <= delta < 1:
            raise SettingError(f"{self.name}.delta must be at least 0 and below 1, got {delta!r}")
        self.values: dict[str, list[float | None]] = {name: [] for name in _NAMES}

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Measure the model on samples of the experience."""
        with evaluation_mode(learner), hooks.in_task(learner, experience.tasks[0]):
            activity, features = self._look(learner, data)
        values: dict[str, float | None] = dict.fromkeys(_NAMES)
        if activity:
            dormant = torch.cat([scores(layer) <= self.tau for layer in activity])
            values["dormant"] = float(dormant.double().mean())
        if features is not None and features.isfinite().all():
            values |= ranks(features, self.delta)
        weights = [p.detach().norm() for p in learner.named_trainable().values()]
        values["weight_norm"] = float(torch.stack(weights).norm()) if weights else None
        for name, value in values.items():
            self.values[name].append(value)
            if value is not None:
                learner.log(f"{self.name}/{name}", value)

    def _look(self, learner: Learner, data: Data) -> tuple[list[Tensor], Tensor | None]:
        """Return the mean |activation| of every unit, by layer, and the features of all samples."""
        count = min(self.samples, len(data))
        # The same on every process; a fixed choice draws no random numbers.
        order = torch.linspace(0, len(data) - 1, count).round().long()
        features: list[Tensor] = []
        with watching(learner.model) as totals, learner.engine.autocast():
            size = learner.engine.evaluation.eval_batch_size
            for batch in data.to(learner.engine.device).batches(order, size):
                of_batch = learner.run_model(batch.x, batch.task)[1]
                if of_batch is not None:
                    features.append(of_batch.flatten(1).double().cpu())
        activity = [total / count for total in totals.values()]
        return activity, torch.cat(features) if features else None

    @hookimpl
    def metrics(self, result: Result) -> None:
        """Store the values of each experience."""
        result.measured[self.name] = {"tau": self.tau, "delta": self.delta, "values": self.values}


@contextlib.contextmanager
def watching(model: nn.Module) -> Iterator[dict[tuple[str, int], Tensor]]:
    """Collect sums over samples of each unit's |activation|, by module and call."""
    totals: dict[tuple[str, int], Tensor] = {}
    calls: dict[str, int] = {}

    def watch(name: str) -> contextlib.AbstractContextManager[object]:
        def add(module: nn.Module, inputs: object, outputs: Tensor) -> None:
            key = name, calls.get(name, 0)
            calls[name] = key[1] + 1
            # Units are along the second dimension, or along the last for tokens (three dimensions).
            units = outputs.detach().abs().double()
            units = units.movedim(-1 if units.ndim == 3 else 1, -1)
            while units.ndim > 2:
                units = units.mean(1)
            total = units.sum(0)
            totals[key] = totals[key] + total if key in totals else total

        handle: contextlib.AbstractContextManager[object] = named[name].register_forward_hook(add)
        return handle

    named = {name: m for name, m in model.named_modules() if isinstance(m, ACTIVATIONS)}
    with contextlib.ExitStack() as around:
        for name in named:
            around.enter_context(watch(name))
        # One activation module may serve several layers, so number the calls within a pass.
        begin = features_of(model) or model
        around.enter_context(begin.register_forward_pre_hook(lambda *_: calls.clear()))
        yield totals


def scores(activity: Tensor) -> Tensor:
    """Return each unit's activity relative to the mean of its layer; 0 in a silent layer.

    >>> scores(torch.tensor([0.0, 1.0, 3.0, 0.0])).tolist()
    [0.0, 1.0, 3.0, 0.0]
    """
    return activity / activity.mean().clamp(min=torch.finfo(activity.dtype).tiny)


def ranks(features: Tensor, delta: float) -> dict[str, float]:
    """Return the three ranks of a matrix of features, a row per sample.

    >>> {name: round(value, 3) for name, value in ranks(torch.eye(3), 0.01).items()}
    {'srank': 3.0, 'effective_rank': 3.0, 'stable_rank': 3.0}
    """
    values = torch.linalg.svdvals(features.double())
    total = values.sum()
    if not total > 0:
        return {"srank": 0.0, "effective_rank": 0.0, "stable_rank": 0.0}
    share = values / total
    # Rounding must not require more values than there are.
    enough = share.cumsum(0) >= 1 - delta - 1e-12
    entropy = -(share * share.clamp(min=torch.finfo(share.dtype).tiny).log()).sum()
    return {
        "srank": float(len(values) - enough.sum() + 1),
        "effective_rank": float(entropy.exp()),
        "stable_rank": float(values.square().sum() / values[0].square()),
    }
