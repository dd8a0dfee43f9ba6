"""What the outputs of a policy mean: the loss of demonstrated actions, and the actions to do."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.errors import SettingError
from clframe.models.actions.flow import ActionFlow
from clframe.models.actions.head_settings import ActionSettings, Rule
from clframe.models.actions.mixture import GaussianMixture


class Direct(nn.Module):
    """Outputs are the action itself.

    Args:
        numbers: Of an action, or of a chunk of them.
        error: Squared or absolute.
    """

    def __init__(self, numbers: int, error: Literal["mse", "l1"]) -> None:
        super().__init__()
        self.sizes, self.error = (numbers,), error

    def losses(self, outputs: Tensor, actions: Tensor, there: Tensor | None) -> Tensor:
        """The error of each sample, summed over numbers; ``there`` is 0 for padding."""
        apart = outputs - actions
        errors = apart.square() if self.error == "mse" else apart.abs()
        return (errors if there is None else errors * there).sum(-1)

    def act(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """The outputs."""
        return outputs


class ActionDecoder(nn.Module):
    """Loss and way of acting of a policy with any head, grip and chunk.

    Outputs are those of the head for the numbers of all steps of a chunk and then, with
    ``grip=bernoulli``, a logit for the grip at each of these steps.

    Args:
        settings: Which.
        n_actions: Numbers of an action.
        rule: How to act where the settings say nothing.
    """

    def __init__(self, settings: ActionSettings, n_actions: int, rule: Rule) -> None:
        super().__init__()
        self.settings, self.n_actions = settings, n_actions
        self.chunk = settings.chunk
        self.acts = settings.in_words(rule)
        self.gripper = settings.grip == "bernoulli"
        if self.gripper and n_actions < 2:
            raise SettingError(
                "model.grip=bernoulli needs actions whose last number is the gripper's; these have "
                f"{n_actions} number"
            )
        self.moves = n_actions - self.gripper
        """Numbers of an action without the grip that has its own output."""
        numbers = self.chunk * self.moves
        self.head: GaussianMixture | ActionFlow | Direct
        if settings.head == "gmm":
            self.head = GaussianMixture(
                numbers,
                settings.modes,
                settings.least_deviation,
                settings.act or rule,
                settings.most_deviation,
            )
        elif settings.head == "flow":
            self.head = ActionFlow(numbers, settings.flow_steps)
        else:
            self.head = Direct(numbers, settings.head)
        # The mean over steps of a chunk, and over numbers unless it is a likelihood, in which
        # numbers are summed: so losses of chunks are of the same size as those of actions.
        self._scale = 1 / self.chunk if settings.head == "gmm" else 1 / numbers
        self.sizes = (*self.head.sizes, *([self.chunk] if self.gripper else []))
        """Outputs in groups, each of which a policy may give a layer of its own."""

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Mean over samples and steps; labels are actions, or chunks of them and their flags.

        Args:
            outputs: ``[..., numbers]``.
            labels: ``[..., n_actions]``, or of chunks ``[..., chunk, n_actions + 1]`` whose last
                number is 0 behind the end of a demonstration, where nothing is learned.
        """
        labels = labels.unsqueeze(-2) if self.chunk == 1 else labels
        moves = labels[..., : self.moves]
        flags = None if self.chunk == 1 else labels[..., -1]
        there = None if flags is None else flags.unsqueeze(-1).expand(moves.shape).flatten(-2)
        outputs, logits = self._split(outputs)
        losses = self.head.losses(outputs, moves.flatten(-2), there) * self._scale
        if logits is not None:
            closed = (labels[..., self.moves] + 1) / 2
            of_grip = functional.binary_cross_entropy_with_logits(
                logits, closed, flags, reduction="none"
            )
            losses = losses + of_grip.mean(-1)
        return losses.mean()

    def act(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Chunks of actions ``[n, chunk, n_actions]``."""
        outputs, logits = self._split(outputs)
        moves: Tensor = self.head.act(outputs, generator)
        moves = moves.unflatten(-1, (self.chunk, self.moves))
        if logits is None:
            return moves
        grip = logits.sigmoid()
        if self.settings.act == "draw":
            grip = torch.bernoulli(grip, generator=generator)
        return torch.cat([moves, 2 * grip.unsqueeze(-1) - 1], -1)

    def single_gaussian(self, outputs: Tensor) -> tuple[Tensor, Tensor] | None:
        """Means and deviations where outputs are a single Gaussian over one action, else None."""
        if not isinstance(self.head, GaussianMixture) or self.head.modes > 1:
            return None
        if self.gripper or self.chunk > 1:
            return None
        means, deviations, _ = self.head.mixture(outputs)
        return means.squeeze(1), deviations.squeeze(1)

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The head's outputs, and the grip's."""
        if not self.gripper:
            return outputs, None
        return outputs[..., : -self.chunk], outputs[..., -self.chunk :]
