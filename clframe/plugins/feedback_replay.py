"""Replay through feedback: the classifier is its own generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from clframe.hookspecs import hookimpl
from clframe.models import vae
from clframe.plugins._generated import _GeneratedReplay, head_to_replay
from clframe.plugins._past_targets import PastTargets, copy_values, frozen_copy

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.step import Step
    from clframe.core.stream import Stream
    from clframe.data.dataset import Batch


class _Feedback(nn.Module):
    """Decoder from the model's features to its inputs, over latent values.

    Args:
        n_features: Length of the features.
        shape: Shape of one input.
        kind: Kind of the decoder.
        hidden: Units of the decoder.
        size: Latent dimensions.
    """

    def __init__(
        self, n_features: int, shape: tuple[int, ...], kind: str, hidden: tuple[int, ...], size: int
    ) -> None:
        super().__init__()
        self.latent = vae.Latent(n_features, size)
        self.decoder = vae.decoder(kind, size, shape, hidden)


class FeedbackReplay(_GeneratedReplay):
    """Replay of inputs that the classifier's own feedback connections generate (RtF).

    One network is both classifier and variational autoencoder: the model's features are the
    encoder, and linear heads for mean and log-variance and a decoder are attached to them and
    trained by the learner's own optimizer. At experience t, with ``L_V`` the autoencoder's loss
    (mean over pixels of the reconstruction error plus ``KL / pixels``)::

        L = 1 / t(L_V + L_class)[current] + (1 - 1 / t)(L_V + L_distil)[replayed]

    Replayed inputs and their softened targets come from a copy of the whole network after the
    previous experience.

    Args:
        distill: Softened probabilities as targets; False for the most likely label.
        temperature: Softening temperature.
        replay_size: Replayed inputs per step; None for the size of the current batch.
        decoder: Fully connected (``mlp``) or convolutional (``conv``).
        hidden: Units of its fully connected layers, in the order of the encoder.
        latent: Latent dimensions.
        likelihood: ``bernoulli`` for inputs in 0..1 (cross-entropy), ``gaussian`` for any (squared
            error); ``auto`` chooses by the first batch.

    Example:
        ``clframe fit strategy=feedback_replay``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import FeedbackReplay
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [FeedbackReplay(hidden=(100, 100))]).strategy
        'feedback_replay'
    """

    name = "feedback_replay"
    paper = (
        "van de Ven & Tolias, Generative replay with feedback connections as a general strategy "
        "for continual learning, 2018"
    )
    roles = ("generator", "replayed samples")
    excludes: ClassVar[Mapping[str, str]] = {
        "new head": "it reads the width of the features from the existing linear head"
    }
    capabilities = replace(
        _GeneratedReplay.capabilities,
        attachable="it builds a generator of inputs before their shape is known",
    )
    state = ("previous_feedback", "previous_model", "chosen")

    def __init__(
        self,
        distill: bool = True,
        temperature: float = 2.0,
        replay_size: int | None = None,
        decoder: Literal["mlp", "conv"] = "mlp",
        hidden: tuple[int, ...] = (400, 400),
        latent: int = 100,
        likelihood: Literal["auto", "bernoulli", "gaussian"] = "auto",
    ) -> None:
        super().__init__(distill, temperature, replay_size, hidden, latent, likelihood)
        self.decoder = decoder
        self._replayed: Batch | None = None

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Attach the feedback connections, so that the learner's optimizer trains them."""
        advice = "use plugin 'generative_replay'"
        head = head_to_replay(learner.model, "plugin 'feedback_replay'", advice)
        shape = stream.input_shape
        self.feedback = _Feedback(head.in_features, shape, self.decoder, self.hidden, self.latent)
        learner.add_module("feedback", self.feedback)
        device = learner.engine.device
        self.previous_feedback = frozen_copy(self.feedback, device)
        self.previous_model = frozen_copy(learner.model, device)
        self.targets = PastTargets(learner, self.distill, self.temperature)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """Return inputs drawn from the previous copy, with its targets and weight t - 1."""
        if not self._inputs_checked:
            self._check_inputs(batch.x)
        self._replayed = None
        if not self.past_experiences:
            return None
        n, device = self.replay_size or len(batch), learner.engine.device
        with torch.no_grad():
            z = torch.randn(n, self.latent, device=device, generator=learner.generator)
            previous = cast(_Feedback, self.previous_feedback)
            x = vae.to_values(previous.decoder(z), cast(vae.Likelihood, self.chosen))
        self._replayed = self.targets.batch(x, self.previous_model, float(self.past_experiences))
        return self._replayed

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor:
        """Return the autoencoder's loss on current and replayed inputs: ``1/t`` and ``1 - 1/t``."""
        x, features = step.batch.x, step.features[0]
        n = len(x)
        if self._replayed is not None:
            where = next(i for i, part in enumerate(step.parts) if part is self._replayed)
            x = torch.cat([x, self._replayed.x])
            features = torch.cat([features, step.features[where]])
        z, mean, log_variance = self.feedback.latent(features, learner.generator)
        decoded = self.feedback.decoder(z)
        losses = vae.vae_loss(decoded, x, mean, log_variance, cast(vae.Likelihood, self.chosen))
        if self._replayed is None:
            return losses.mean()
        share = 1.0 / (self.past_experiences + 1)
        return share * losses[:n].mean() + (1 - share) * losses[n:].mean()

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        """Copy the whole network."""
        copy_values(learner.model, self.previous_model)
        copy_values(self.feedback, self.previous_feedback)
