"""Deep generative replay: a generator recalls past inputs, the previous model labels them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn

from clframe.core.step import Term
from clframe.data.dataset import Batch
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl
from clframe.models.vae import VAE, Likelihood
from clframe.plugins._generated import _GeneratedReplay, head_to_replay
from clframe.plugins._past_targets import PastTargets, copy_values, frozen_copy
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.step import Step
    from clframe.core.stream import Stream


class GenerativeReplay(_GeneratedReplay):
    """Replay of inputs of a variational autoencoder with the previous model's labels (DGR).

    At experience t the loss is ``1/t L_current + (1 - 1/t) L_replay``. Replayed inputs are drawn
    from a copy of the generator after the previous experience. The copy of the classifier
    from the same time labels them: with its most likely label (Shin et al., 2017), or with
    ``distill`` by its softened probabilities (van de Ven & Tolias, 2018), for which
    ``L_replay = -T^2 sum_c p_c log q_c``. The generator learns in the same steps from the same mix
    with the same weights, with its own Adam optimizer.

    Args:
        distill: Softened probabilities as targets instead of labels.
        temperature: Softening temperature.
        replay_size: Replayed inputs per step; None for the size of the current batch.
        generator: Fully connected (``mlp``) or convolutional (``conv``) autoencoder.
        hidden: Units of its fully connected layers (OpenLORIS: 7500-400-400, the same default).
        latent: Its latent dimensions.
        lr: Learning rate of its Adam.
        likelihood: ``bernoulli`` for inputs in 0..1 (cross-entropy), ``gaussian`` for any (squared
            error); ``auto`` chooses by the first batch.
        replay: Generate the model's ``inputs``, or ``features``: the inputs of its head (internal
            replay), which needs features that do not change.

    Example:
        ``clframe fit strategy=generative_replay strategy.generative_replay.distill=true``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import GenerativeReplay
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [GenerativeReplay(distill=True)]).strategy
        'generative_replay'
    """

    name = "generative_replay"
    paper = "Shin et al., Continual Learning with Deep Generative Replay, 2017"
    roles = ("generator", "replayed samples")
    capabilities = replace(
        _GeneratedReplay.capabilities,
        attachable="it builds a generator of inputs before their shape is known",
    )
    state = (
        "generator_model",
        "optimizer",
        "previous_generator",
        "previous_model",
        "chosen",
        "loss_of_epoch",
    )

    def __init__(
        self,
        distill: bool = False,
        temperature: float = 2.0,
        replay_size: int | None = None,
        generator: Literal["mlp", "conv"] = "mlp",
        hidden: tuple[int, ...] = (400, 400),
        latent: int = 100,
        lr: float = 1e-3,
        likelihood: Literal["auto", "bernoulli", "gaussian"] = "auto",
        replay: Literal["inputs", "features"] = "inputs",
    ) -> None:
        super().__init__(distill, temperature, replay_size, hidden, latent, likelihood)
        at_least(lr, 0, "generative_replay.lr")
        self.generator = generator
        self.lr = lr
        self.replay = replay
        self._replayed: Tensor | None = None
        self.loss_of_epoch: Tensor | None = None

    # ------------------------------------------------------------ set-up

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Build the generator, its optimizer, and the copies that remember."""
        device = learner.engine.device
        shape = stream.input_shape
        labeler: nn.Module = learner.model
        if self.replay == "features":
            labeler = self._head(learner)
            if len(stream) > 1:
                _check_features(learner)
            shape = (labeler.in_features,)
        kind = "mlp" if self.replay == "features" else self.generator
        self.generator_model = VAE(shape, kind, self.hidden, self.latent).to(device)
        self.optimizer = torch.optim.Adam(self.generator_model.parameters(), lr=self.lr, fused=True)
        self.previous_generator = frozen_copy(self.generator_model, device)
        self.previous_model = frozen_copy(labeler, device)
        self.targets = PastTargets(learner, self.distill, self.temperature)

    def _head(self, learner: Learner) -> nn.Linear:
        """Return the head whose inputs are generated; raise an error if the model has none."""
        who = "plugin 'generative_replay' with replay=features"
        return head_to_replay(learner.model, who, "set replay=inputs")

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        """Update the task count; renew the generator's optimizer together with the learner's."""
        super().before_experience(learner)
        if not learner.seen:
            return
        if learner.engine.settings.reset_optimizer:
            self.optimizer.state.clear()
        if self.replay == "features":
            _check_features(learner)

    def _check_inputs(self, x: Any) -> None:
        """Set the likelihood of the generators as well."""
        super()._check_inputs(x)
        for model in (self.generator_model, self.previous_generator):
            cast(VAE, model).likelihood = cast(Likelihood, self.chosen)

    # ------------------------------------------------------------ every step

    def recall(self, learner: Learner, batch: Batch) -> Batch:
        """Draw from the previous generator and label with the previous model."""
        n = self.replay_size or len(batch)
        with torch.no_grad():
            x = cast(VAE, self.previous_generator).sample(n, learner.generator)
        self._replayed = x
        return self.targets.batch(x, self.previous_model, float(self.past_experiences))

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """Return replayed inputs with weight t - 1."""
        if self.replay == "features":
            return None
        if not self._inputs_checked:
            self._check_inputs(batch.x)
        return self.recall(learner, batch) if self.past_experiences else None

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Term | None:
        """Return the loss of the head on replayed features, with weight t - 1 (internal replay)."""
        if self.replay == "inputs":
            return None
        if not self._inputs_checked:
            self._check_inputs(step.features[0])
        if not self.past_experiences:
            return None
        replayed = self.recall(learner, step.batch)
        outputs = learner.mask_outputs(self._head(learner)(replayed.x), replayed.task)
        return Term(learner.part_loss(outputs, replayed), replayed.weight)

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Train the generator on the same mix with the same weights."""
        inputs = step.batch.x if self.replay == "inputs" else step.features[0].detach().float()
        share = 1.0 / (self.past_experiences + 1)
        model = self.generator_model
        if self._replayed is None:
            loss = model.losses(inputs, learner.generator).mean()
        else:
            losses = model.losses(torch.cat([inputs, self._replayed]), learner.generator)
            loss = share * losses[: len(inputs)].mean() + (1 - share) * losses[len(inputs) :].mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self._replayed = None
        self.loss_of_epoch = (
            loss.detach() if self.loss_of_epoch is None else self.loss_of_epoch + loss.detach()
        )

    # ------------------------------------------------------------ between

    @hookimpl(tryfirst=True)
    def after_epoch(self, logs: dict[str, Any]) -> None:
        """Log the generator's mean loss."""
        if self.loss_of_epoch is not None:
            logs["generator_loss"] = float(self.loss_of_epoch) / max(logs["steps"], 1)
            self.loss_of_epoch = None

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        """Copy generator and classifier."""
        source = learner.model if self.replay == "inputs" else self._head(learner)
        copy_values(source, self.previous_model)
        copy_values(self.generator_model, self.previous_generator)


def _check_features(learner: Learner) -> None:
    """Raise an error if features keep changing after the first experience."""
    if any(plugin.capabilities.frozen_features for plugin in learner.plugins.ordered):
        return
    features = cast(nn.Module, learner.model.features)
    if any(parameter.requires_grad for parameter in features.parameters()):
        raise PluginError(
            "plugin 'generative_replay' with replay=features needs features that do not change: "
            "add plugin 'freeze', or set replay=inputs"
        )
