"""Convert a policy's outputs to the loss of demonstrated actions and to actions."""

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
    """A head whose outputs are the action itself.

    Args:
        numbers: Numbers in an action or a chunk.
        error: Squared or absolute error.
    """

    def __init__(self, numbers: int, error: Literal["mse", "l1"]) -> None:
        super().__init__()
        self.sizes, self.error = (numbers,), error

    def losses(self, outputs: Tensor, actions: Tensor, there: Tensor | None) -> Tensor:
        """Return the error per sample, summed over numbers; ``there`` is 0 for padding."""
        difference = outputs - actions
        errors = difference.square() if self.error == "mse" else difference.abs()
        return (errors if there is None else errors * there).sum(-1)

    def act(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the outputs."""
        return outputs


class ActionDecoder(nn.Module):
    """The loss and the way of acting of a policy with any head, grip and chunk.

    Outputs are the head's outputs for all numbers of a chunk, then, with ``grip=bernoulli``, a
    logit for the grip at each of the chunk's steps.

    Args:
        settings: The settings of the head.
        n_actions: Numbers in an action.
        rule: How to act by default.
    """

    def __init__(self, settings: ActionSettings, n_actions: int, rule: Rule) -> None:
        super().__init__()
        self.settings, self.n_actions = settings, n_actions
        self.chunk = settings.chunk
        self.acts = settings.in_words(rule)
        self.gripper = settings.grip == "bernoulli"
        if self.gripper and n_actions < 2:
            raise SettingError(
                "model.grip=bernoulli needs actions whose last number is the gripper's, but these "
                f"have {n_actions} number"
            )
        self.moves = n_actions - self.gripper
        """Numbers in an action without the grip, if that has its own output."""
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
        # The mean over steps of a chunk, and over numbers except for a likelihood, which sums over
        # them. Losses of chunks and of single actions then have the same scale.
        self._scale = 1 / self.chunk if settings.head == "gmm" else 1 / numbers
        self.sizes = (*self.head.sizes, *([self.chunk] if self.gripper else []))
        """Sizes of output groups; a policy may use one layer per group."""

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over samples and steps; labels are actions, or chunks with flags.

        Args:
            outputs: ``[..., numbers]``.
            labels: ``[..., n_actions]``, or for chunks ``[..., chunk, n_actions + 1]`` whose last
                number is 0 after the end of a demonstration, which does not count.
        """
        labels = labels.unsqueeze(-2) if self.chunk == 1 else labels
        moves = labels[..., : self.moves]
        flags = None if self.chunk == 1 else labels[..., -1]
        present = None if flags is None else flags.unsqueeze(-1).expand(moves.shape).flatten(-2)
        outputs, logits = self._split(outputs)
        losses = self.head.losses(outputs, moves.flatten(-2), present) * self._scale
        if logits is not None:
            closed = (labels[..., self.moves] + 1) / 2
            of_grip = functional.binary_cross_entropy_with_logits(
                logits, closed, flags, reduction="none"
            )
            losses = losses + of_grip.mean(-1)
        return losses.mean()

    def act(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return chunks of actions ``[n, chunk, n_actions]``."""
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
        """Return means and deviations of a single Gaussian over one action, else None."""
        if not isinstance(self.head, GaussianMixture) or self.head.modes > 1:
            return None
        if self.gripper or self.chunk > 1:
            return None
        means, deviations, _ = self.head.mixture(outputs)
        return means.squeeze(1), deviations.squeeze(1)

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the head's outputs and the grip's."""
        if not self.gripper:
            return outputs, None
        return outputs[..., : -self.chunk], outputs[..., -self.chunk :]
