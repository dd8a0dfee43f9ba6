"""Variational autoencoders: the generators of generative replay (Kingma & Welling, 2014).

The parts are separate (:class:`Latent`, the decoders, :func:`vae_loss`), because replay through
feedback puts them after a classifier's own features instead of an encoder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.errors import PluginError, SettingError
from clframe.utils.setting_checks import at_least

Likelihood = Literal["bernoulli", "gaussian"]
"""The meaning of the decoder's outputs: logits of values in 0..1, or the values themselves."""


def kl_to_prior(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return ``KL(N(mean, variance) || N(0, I))`` per sample, summed over latent dimensions.

    >>> kl_to_prior(torch.zeros(1, 3), torch.zeros(1, 3))
    tensor([0.])
    """
    return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(1)


def reconstruction_loss(decoded: Tensor, x: Tensor, likelihood: Likelihood) -> Tensor:
    """Return each sample's mean cross-entropy (bernoulli) or squared error (gaussian)."""
    if likelihood == "bernoulli":
        losses = functional.binary_cross_entropy_with_logits(decoded, x, reduction="none")
    else:
        losses = (decoded - x).square()
    return losses.flatten(1).mean(1)


def vae_loss(
    decoded: Tensor, x: Tensor, mean: Tensor, log_variance: Tensor, likelihood: Likelihood
) -> Tensor:
    """Return reconstruction error plus KL divergence per sample, both divided by the input size.

    The form of van de Ven & Tolias (2018): mean over pixels of the reconstruction term plus
    ``KL / number of pixels``, which is the negative evidence bound per pixel.
    """
    return reconstruction_loss(decoded, x, likelihood) + kl_to_prior(mean, log_variance) / (
        x[0].numel()
    )


def choose_likelihood(chosen: str, x: Any, who: str) -> Likelihood:
    """Return the likelihood for inputs like these; reject inputs that cannot be generated.

    Args:
        chosen: The requested likelihood; if empty, the inputs' range decides.
        x: Inputs of one batch.
        who: The name in messages.
    """
    if not isinstance(x, Tensor):
        raise PluginError(
            f"{who} generates inputs that are one tensor, but this stream has several by name"
        )
    low, high = float(x.detach().amin()), float(x.detach().amax())
    inside = low >= 0 and high <= 1
    if chosen == "bernoulli" and not inside:
        raise PluginError(
            f"{who} learns with likelihood=bernoulli, which needs inputs between 0 and 1, got "
            f"{low:g} to {high:g}; set likelihood=gaussian"
        )
    if chosen:
        return cast(Likelihood, chosen)
    return "bernoulli" if inside else "gaussian"


def to_values(decoded: Tensor, likelihood: Likelihood) -> Tensor:
    """Return the expected input from decoded numbers."""
    return torch.sigmoid(decoded) if likelihood == "bernoulli" else decoded


class Latent(nn.Module):
    """Linear heads for mean and log-variance (the latter without bias), and a sample from them.

    Args:
        n_features: Length of the encoder's output.
        size: Latent dimensions.
    """

    def __init__(self, n_features: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.mean = nn.Linear(n_features, size)
        self.log_variance = nn.Linear(n_features, size, bias=False)

    def forward(
        self, features: Tensor, noise: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``z = mean + sqrt(variance) * e``, ``e ~ N(0, I)``, the mean and log-variance."""
        mean, log_variance = self.mean(features), self.log_variance(features)
        drawn = torch.randn(mean.shape, device=mean.device, dtype=mean.dtype, generator=noise)
        return mean + (0.5 * log_variance).exp() * drawn, mean, log_variance


def mlp_encoder(input_shape: Sequence[int], hidden: Sequence[int]) -> tuple[nn.Module, int]:
    """Return fully connected layers with ReLU, and the length of their output."""
    layers: list[nn.Module] = [nn.Flatten()]
    width = math.prod(input_shape)
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*layers), width


def mlp_decoder(latent: int, output_shape: Sequence[int], hidden: Sequence[int]) -> nn.Module:
    """Return the mirror of :func:`mlp_encoder`: from latent values to outputs."""
    layers: list[nn.Module] = []
    width = latent
    for units in reversed(hidden):
        layers += [nn.Linear(width, units), nn.ReLU()]
        width = units
    layers += [nn.Linear(width, math.prod(output_shape)), nn.Unflatten(1, tuple(output_shape))]
    return nn.Sequential(*layers)


def _check_image(shape: Sequence[int]) -> None:
    if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
        raise SettingError(
            "a convolutional generator needs images (channels, height, width) with height and "
            f"width divisible by 4, got {tuple(shape)}; set generator=mlp"
        )


def conv_encoder(
    input_shape: Sequence[int], hidden: Sequence[int], channels: tuple[int, int] = (32, 64)
) -> tuple[nn.Module, int]:
    """Return two convolutions that halve the sides, then fully connected layers."""
    _check_image(input_shape)
    colors, height, width = input_shape
    dense, out = mlp_encoder((channels[1], height // 4, width // 4), hidden)
    return nn.Sequential(
        nn.Conv2d(colors, channels[0], 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels[0], channels[1], 4, stride=2, padding=1),
        nn.ReLU(),
        dense,
    ), out


def conv_decoder(
    latent: int,
    output_shape: Sequence[int],
    hidden: Sequence[int],
    channels: tuple[int, int] = (32, 64),
) -> nn.Module:
    """Return the mirror of :func:`conv_encoder`."""
    _check_image(output_shape)
    colors, height, width = output_shape
    return nn.Sequential(
        mlp_decoder(latent, (channels[1], height // 4, width // 4), hidden),
        nn.ReLU(),
        nn.ConvTranspose2d(channels[1], channels[0], 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(channels[0], colors, 4, stride=2, padding=1),
    )


def decoder(kind: str, latent: int, shape: Sequence[int], hidden: Sequence[int]) -> nn.Module:
    """Return a decoder by name: ``mlp`` or ``conv``."""
    build = conv_decoder if kind == "conv" else mlp_decoder
    return build(latent, shape, hidden)


class VAE(nn.Module):
    """A variational autoencoder with the prior N(0, I).

    Args:
        input_shape: Shape of one sample.
        kind: ``mlp`` (784-400-400-z100 and back, as in van de Ven & Tolias) or ``conv``.
        hidden: Units of the fully connected layers.
        latent: Latent dimensions.
        likelihood: ``bernoulli`` for inputs in 0..1, ``gaussian`` for any.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        kind: Literal["mlp", "conv"] = "mlp",
        hidden: Sequence[int] = (400, 400),
        latent: int = 100,
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__()
        at_least(latent, 1, "latent")
        for units in hidden:
            at_least(units, 1, "hidden")
        build = conv_encoder if kind == "conv" else mlp_encoder
        self.encoder, width = build(input_shape, hidden)
        self.latent = Latent(width, latent)
        self.decoder = decoder(kind, latent, input_shape, hidden)
        self.likelihood: Likelihood = likelihood

    def forward(
        self, x: Tensor, noise: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the decoded input (logits for ``bernoulli``), the latent mean and log-variance."""
        z, mean, log_variance = self.latent(self.encoder(x), noise)
        return self.decoder(z), mean, log_variance

    def losses(self, x: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Return the loss of each sample; see :func:`vae_loss`."""
        decoded, mean, log_variance = self(x, noise)
        return vae_loss(decoded, x, mean, log_variance, self.likelihood)

    def sample(self, n: int, noise: torch.Generator | None = None) -> Tensor:
        """Sample n inputs from the model."""
        device = self.latent.mean.weight.device
        z = torch.randn(n, self.latent.size, device=device, generator=noise)
        return to_values(self.decoder(z), self.likelihood)
