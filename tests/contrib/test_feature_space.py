"""Classifiers in a fixed feature space, against plain NumPy calculations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from clframe_contrib._feature_space import FeatureSpaceClassifier
from clframe_contrib.fecam import FeCAM
from clframe_contrib.ncm import NCM
from clframe_contrib.randumb import RanDumb, oas
from clframe_contrib.ranpac import RIDGES, RanPAC
from clframe_contrib.slda import SLDA

import clframe
from clframe import PluginError, SettingError
from clframe.plugins import EWC
from clframe.testing import check_plugin, toy_run, toy_stream

LEARNERS: list[tuple[type[FeatureSpaceClassifier], dict[str, Any]]] = [
    (NCM, {}),
    (NCM, {"metric": "cosine", "features": "raw"}),
    (SLDA, {}),
    (SLDA, {"covariance": "scatter"}),
    (FeCAM, {}),
    (RanPAC, {"projection": 20}),
    (RanDumb, {"embedding": 30}),
]


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize(("kind", "settings"), LEARNERS)
def test_keeps_the_contract(
    kind: type[FeatureSpaceClassifier], settings: dict[str, Any], scenario: Any
) -> None:
    check_plugin(kind(**settings), toy_stream(scenario))


def _all_data(stream: Any, learner: Any, raw: bool) -> tuple[np.ndarray, np.ndarray]:
    """Every training sample in the order of the stream: vectors and labels."""
    x = torch.cat([e.data.gather(torch.arange(len(e.data))) for e in stream.experiences])
    y = torch.cat([e.data.labels for e in stream.experiences])
    if not raw:
        learner.eval()
        with torch.no_grad():
            x = learner.model.features(x)
    return x.double().numpy(), y.numpy()


def _scores(plugin: Any, learner: Any, stream: Any) -> np.ndarray:
    x = stream.tasks[-1].data.gather(torch.arange(len(stream.tasks[-1].data)))
    with torch.no_grad():
        return plugin.predict(learner, x, stream.tasks[-1]).double().numpy()


def _test_vectors(learner: Any, stream: Any, raw: bool) -> np.ndarray:
    x = stream.tasks[-1].data.gather(torch.arange(len(stream.tasks[-1].data)))
    with torch.no_grad():
        return (x if raw else learner.model.features(x)).double().numpy()


def _same_up_to_rows(ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1e-3) -> None:
    """Scores may differ by a number for each sample, which decides nothing."""
    ours, theirs = (a - a.mean(1, keepdims=True) for a in (ours, theirs))
    assert np.abs(ours - theirs).max() < tolerance * np.abs(theirs).max()


def test_nearest_mean_against_numpy() -> None:
    stream, plugin = toy_stream("class"), NCM()
    _, learner = toy_run([plugin], stream)
    x, y = _all_data(stream, learner, raw=False)
    means = np.stack([x[y == c].mean(0) for c in range(6)])
    test = _test_vectors(learner, stream, raw=False)
    distance = ((test[:, None] - means) ** 2).sum(2)
    _same_up_to_rows(_scores(plugin, learner, stream), -distance)


def test_slda_against_one_sample_after_the_other() -> None:
    stream, plugin = toy_stream("class"), SLDA(shrinkage=1e-2)
    _, learner = toy_run([plugin], stream)
    x, y = _all_data(stream, learner, raw=False)
    width = x.shape[1]
    means, counts, sigma = np.zeros((6, width)), np.zeros(6), np.zeros((width, width))
    for t, (row, label) in enumerate(zip(x, y, strict=True)):
        off = row - means[label]
        sigma = (t * sigma + t / (t + 1) * np.outer(off, off)) / (t + 1)
        means[label] += off / (counts[label] + 1)
        counts[label] += 1
    precision = np.linalg.inv((1 - 1e-2) * sigma + 1e-2 * np.eye(width))
    test = _test_vectors(learner, stream, raw=False)
    expected = test @ precision @ means.T - 0.5 * np.einsum("ki,ij,kj->k", means, precision, means)
    _same_up_to_rows(_scores(plugin, learner, stream), expected)


def test_slda_scatter_is_the_pooled_covariance() -> None:
    stream, plugin = toy_stream("class"), SLDA(covariance="scatter")
    _, learner = toy_run([plugin], stream)
    x, y = _all_data(stream, learner, raw=False)
    pooled = sum(
        (x[y == c] - x[y == c].mean(0)).T @ (x[y == c] - x[y == c].mean(0)) for c in range(6)
    )
    ours = plugin.scatter.numpy() - (plugin.sums.T @ (plugin.sums / plugin.counts[:, None])).numpy()
    assert np.allclose(ours, pooled, rtol=1e-8, atol=1e-6)


def test_fecam_against_numpy() -> None:
    stream, plugin = toy_stream("class"), FeCAM(power=0.5)
    _, learner = toy_run([plugin], stream)
    x, y = _all_data(stream, learner, raw=False)
    x = np.sqrt(x)
    test = np.sqrt(_test_vectors(learner, stream, raw=False))
    test /= np.linalg.norm(test, axis=1, keepdims=True)
    expected = np.zeros((len(test), 6))
    for c in range(6):
        covariance = np.cov(x[y == c], rowvar=False)
        eye = np.eye(len(covariance))
        rest = covariance[~eye.astype(bool)].mean()
        covariance = covariance + np.diag(covariance).mean() * eye + rest * (1 - eye)
        deviation = np.sqrt(np.diag(covariance))
        inverse = np.linalg.pinv(covariance / np.outer(deviation, deviation))
        mean = x[y == c].mean(0)
        off = test - mean / np.linalg.norm(mean)
        expected[:, c] = -np.einsum("ni,ij,nj->n", off, inverse, off)
    _same_up_to_rows(_scores(plugin, learner, stream), expected)


def test_ranpac_against_numpy() -> None:
    stream, plugin = toy_stream("class"), RanPAC(projection=30, ridge=10.0)
    _, learner = toy_run([plugin], stream)
    x, y = _all_data(stream, learner, raw=False)
    weights = torch.randn(x.shape[1], 30, generator=torch.Generator().manual_seed(learner.seed))
    h = np.maximum(x @ weights.double().numpy(), 0)
    solution = np.linalg.solve(h.T @ h + 10 * np.eye(30), h.T @ np.eye(6)[y])
    test = np.maximum(_test_vectors(learner, stream, raw=False) @ weights.double().numpy(), 0)
    _same_up_to_rows(_scores(plugin, learner, stream), test @ solution)


def test_the_ridge_is_the_best_on_held_out_training_data() -> None:
    from clframe_contrib.ranpac import best_ridge

    rng = np.random.default_rng(0)
    h, noise = rng.normal(size=(60, 40)), rng.normal(size=(60, 3))
    targets = h[:, :3] + 2 * noise
    fit, held = slice(0, 48), slice(48, 60)
    sums = [torch.from_numpy(m) for p in (fit, held) for m in (h[p].T @ h[p], h[p].T @ targets[p])]
    errors = [
        (
            (
                h[held]
                @ np.linalg.solve(h[fit].T @ h[fit] + r * np.eye(40), h[fit].T @ targets[fit])
                - targets[held]
            )
            ** 2
        ).mean()
        for r in RIDGES
    ]
    assert best_ridge(*sums) == RIDGES[int(np.argmin(errors))]
    assert 1e-8 < RIDGES[int(np.argmin(errors))] < 1e8


def test_randumb_against_numpy() -> None:
    stream, plugin = toy_stream("class"), RanDumb(embedding=25, gamma=0.02)
    _, learner = toy_run([plugin], stream)
    x, y = _all_data(stream, learner, raw=True)
    generator = torch.Generator().manual_seed(learner.seed)
    w = torch.randn(x.shape[1], 25, generator=generator).double().numpy() * np.sqrt(0.04)
    b = 2 * np.pi * torch.rand(25, generator=generator).double().numpy()
    z = np.sqrt(2 / 25) * np.cos(x @ w + b)
    means = np.stack([z[y == c].mean(0) for c in range(6)])
    covariance = (z - means[y]).T @ (z - means[y]) / len(z)
    p, n = 25, len(z)
    tr, sq = np.trace(covariance), np.trace(covariance @ covariance)
    rho = min(1, ((1 - 2 / p) * sq + tr**2) / ((n + 1 - 2 / p) * (sq - tr**2 / p)))
    precision = np.linalg.inv((1 - rho) * covariance + rho * tr / p * np.eye(p))
    test = np.sqrt(2 / 25) * np.cos(_test_vectors(learner, stream, raw=True) @ w + b)
    expected = -np.einsum(
        "nki,ij,nkj->nk", *[test[:, None] - means, precision, test[:, None] - means]
    )
    _same_up_to_rows(_scores(plugin, learner, stream), expected / 2)


def test_the_kernel_is_approximated() -> None:
    plugin = RanDumb(embedding=20_000, gamma=0.1)
    plugin.begin(5, 2, 0, torch.device("cpu"))
    x = torch.randn(8, 5)
    z = plugin.embed(x)
    kernel = torch.exp(-0.1 * torch.cdist(x, x).square())
    assert (z @ z.T - kernel).abs().max() < 0.03


def test_shrinkage_of_an_identity_is_whole() -> None:
    eye = torch.eye(6, dtype=torch.float64)
    assert torch.allclose(oas(2 * eye, 10), 2 * eye)


def test_one_pass_does_not_forget_and_needs_no_order() -> None:
    """After the stream the classifier is that of all data at once."""
    stream = toy_stream("class")
    result, _ = toy_run([SLDA(covariance="scatter")], stream)
    joint, _ = toy_run([SLDA(covariance="scatter")], toy_stream("class", 1, 6))
    assert min(result.matrix.values[-1]) >= 0.9
    assert joint.matrix.values[-1][0] >= 0.9


def test_first_session_adaptation_trains_once() -> None:
    stream = toy_stream("class")
    _, learner = toy_run([NCM(adapt_first=True)], stream, max_epochs=2)
    first = len(stream.experiences[0].data)
    assert learner.samples == 2 * first + sum(len(e.data) for e in stream.experiences[1:])
    batch = learner.engine.settings.batch_size
    assert learner.global_steps == 2 * -(-first // batch)


def test_refuses_what_could_not_act() -> None:
    with pytest.raises(PluginError, match="'slda' cannot be combined with 'ewc'"):
        toy_run([SLDA(), EWC()], toy_stream("class"))
    with pytest.raises(PluginError, match="'slda' cannot be combined with 'ncm'"):
        toy_run([SLDA(), NCM()], toy_stream("class"))
    with pytest.raises(SettingError, match=r"slda\.shrinkage"):
        SLDA(shrinkage=0.0)
    with pytest.raises(SettingError, match=r"randumb\.gamma"):
        RanDumb(gamma=-1.0)


def test_features_below_zero_have_no_root() -> None:
    with pytest.raises(clframe.ClframeError, match=r"fecam\.power=1"):
        toy_run([FeCAM(features="raw")], toy_stream("class"))
