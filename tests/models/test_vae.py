from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clframe.errors import PluginError, SettingError
from clframe.models.vae import (
    VAE,
    Latent,
    choose_likelihood,
    kl_to_prior,
    reconstruction_loss,
    vae_loss,
)


def test_kl_equals_the_integral_it_stands_for() -> None:
    mean, log_variance = 0.7, -0.4
    deviation = math.exp(0.5 * log_variance)
    x = np.linspace(mean - 12 * deviation, mean + 12 * deviation, 200_001)
    log_q = -0.5 * ((x - mean) / deviation) ** 2 - math.log(deviation * math.sqrt(2 * math.pi))
    log_p = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
    integral = np.trapezoid(np.exp(log_q) * (log_q - log_p), x)
    one = kl_to_prior(torch.tensor([[mean]]), torch.tensor([[log_variance]]))
    assert float(one) == pytest.approx(integral, rel=1e-5)
    three = kl_to_prior(torch.full((1, 3), mean), torch.full((1, 3), log_variance))
    assert float(three) == pytest.approx(3 * integral, rel=1e-5)


def test_the_loss_is_cross_entropy_per_pixel_plus_kl_per_pixel() -> None:
    rng = np.random.default_rng(1)
    x, logits = rng.uniform(size=(4, 1, 2, 3)), rng.normal(size=(4, 1, 2, 3))
    mean, log_variance = rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
    p = 1 / (1 + np.exp(-logits))
    expected = []
    for i in range(4):
        bits = [
            -(a * math.log(b) + (1 - a) * math.log(1 - b))
            for a, b in zip(x[i].ravel(), p[i].ravel(), strict=True)
        ]
        kl = sum(
            0.5 * (m * m + math.exp(v) - v - 1)
            for m, v in zip(mean[i], log_variance[i], strict=True)
        )
        expected.append(sum(bits) / 6 + kl / 6)
    value = vae_loss(
        torch.tensor(logits),
        torch.tensor(x),
        torch.tensor(mean),
        torch.tensor(log_variance),
        "bernoulli",
    )
    assert value.tolist() == pytest.approx(expected, rel=1e-10)


def test_gaussian_likelihood_is_the_mean_squared_error() -> None:
    decoded, x = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 5.0]])
    assert reconstruction_loss(decoded, x, "gaussian").tolist() == [5.0]


def test_latent_values_have_the_mean_and_variance_of_their_heads() -> None:
    latent = Latent(3, 2)
    assert latent.log_variance.bias is None
    features = torch.tensor([[1.0, -2.0, 0.5]]).expand(40_000, 3)
    z, mean, log_variance = latent(features, torch.Generator().manual_seed(0))
    assert z.mean(0).tolist() == pytest.approx(mean[0].tolist(), abs=0.03)
    assert z.var(0).tolist() == pytest.approx(log_variance[0].exp().tolist(), rel=0.05)


def test_the_mlp_is_784_400_400_100_and_back() -> None:
    shapes = [tuple(p.shape) for n, p in VAE((1, 28, 28)).named_parameters() if "weight" in n]
    assert shapes == [
        (400, 784),
        (400, 400),
        (100, 400),
        (100, 400),
        (400, 100),
        (400, 400),
        (784, 400),
    ]


@pytest.mark.parametrize(
    ("kind", "shape"), [("mlp", (7,)), ("conv", (3, 8, 12)), ("mlp", (1, 4, 4))]
)
def test_samples_have_the_shape_of_inputs_and_are_in_0_to_1(kind, shape) -> None:  # type: ignore[no-untyped-def]
    model = VAE(shape, kind, hidden=(16,), latent=4)
    sample = model.sample(5, torch.Generator().manual_seed(0))
    assert sample.shape == (5, *shape)
    assert float(sample.detach().amin()) > 0
    assert float(sample.detach().amax()) < 1
    assert torch.equal(sample, model.sample(5, torch.Generator().manual_seed(0)))


def test_conv_refuses_sides_not_divisible_by_4() -> None:
    with pytest.raises(SettingError, match="divisible by 4, got \\(3, 10, 8\\)"):
        VAE((3, 10, 8), "conv")


@pytest.mark.parametrize("kind", ["mlp", "conv"])
def test_it_learns_to_tell_two_patterns(kind) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    patterns = torch.zeros(2, 1, 8, 8)
    patterns[0, :, :4] = 1
    patterns[1, :, :, :4] = 1
    model = VAE((1, 8, 8), kind, hidden=(32,), latent=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    noise = torch.Generator().manual_seed(0)
    for _ in range(300):
        loss = model.losses(patterns.repeat(16, 1, 1, 1), noise).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    samples = model.sample(200, noise).detach()
    distances = (samples[:, None] - patterns).square().flatten(2).mean(2)
    near = distances.argmin(1)
    assert float(distances.min(1).values.mean()) < 0.05
    assert 0.2 < float(near.float().mean()) < 0.8


def test_the_likelihood_follows_the_range_of_the_inputs() -> None:
    assert choose_likelihood("", torch.tensor([0.0, 1.0]), "it") == "bernoulli"
    assert choose_likelihood("", torch.tensor([-0.1, 1.0]), "it") == "gaussian"
    assert choose_likelihood("gaussian", torch.tensor([0.5]), "it") == "gaussian"
    with pytest.raises(PluginError, match="between 0 and 1, got -2 to 1; set likelihood=gaussian"):
        choose_likelihood("bernoulli", torch.tensor([-2.0, 1.0]), "it")
    with pytest.raises(PluginError, match="several by name"):
        choose_likelihood("", {"rgb": torch.zeros(1)}, "it")


def test_on_openloris_images_it_is_7500_400_400_100_and_back() -> None:
    shapes = [tuple(p.shape) for n, p in VAE((3, 50, 50)).named_parameters() if "weight" in n]
    assert shapes[0] == (400, 7500)
    assert shapes[-1] == (7500, 400)
    assert len(shapes) == 7
