from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clframe
from clframe.core.stream import Stream
from clframe.data.dataset import TensorData
from clframe.errors import SettingError
from clframe.models.frozen import Frozen
from clframe.plugins.generative_replay import GenerativeReplay
from clframe.run import run
from clframe.testing import prepare

MODEL = {"name": "frozen", "backbone": "test_efficientnet_gn", "pretrained": False}
Make = Callable[..., Stream]


def fit(stream: Stream, strategy: Any, data_dir: Path, **model: Any) -> tuple[Any, Any]:
    prepared = prepare(
        stream,
        strategy,
        {**MODEL, **model},
        data_dir=data_dir,
        optimizer={"name": "adam", "lr": 0.01},
        trainer={"max_steps": 20, "batch_size": 12},
    )
    return run(prepared.learner, prepared.stream, "it"), prepared.learner


@pytest.mark.parametrize(
    "strategy",
    [
        "naive",
        "cumulative",
        {"replay": {"size": 12}},
        {"ewc": {"weight": 10.0}},
        "lwf",
        "dgr_distill",
        {"generative_replay": {"replay": "features"}},
        "rtf",
    ],
    ids=str,
)
def test_strategies_learn_on_features(image_stream: Make, tmp_path: Path, strategy) -> None:  # type: ignore[no-untyped-def]
    result, learner = fit(image_stream(), strategy, tmp_path)
    assert result.matrix.values[-1].mean() > 0.6
    assert sum(p.numel() for p in learner.model.parameters()) == 4 * (256 + 1)


def test_features_are_the_inputs_and_equal_those_of_the_images(
    image_stream: Make, tmp_path: Path
) -> None:
    stream = image_stream()
    prepared = prepare(stream, "naive", MODEL, data_dir=tmp_path)
    model = prepared.learner.model
    assert isinstance(model, Frozen)
    assert prepared.stream.input_shape == (model.encoder.width,)
    for new, old in zip(prepared.stream.tasks, stream.tasks, strict=True):
        features = next(iter(new.data.batches(torch.arange(24), 24)))
        images = next(iter(old.data.batches(torch.arange(24), 24)))
        assert torch.equal(features.y, images.y)
        assert torch.equal(features.task, images.task)
        assert torch.allclose(model(features.x), model(images.x), atol=1e-5)


def test_the_backbone_is_neither_saved_nor_trained_nor_copied(
    image_stream: Make, tmp_path: Path
) -> None:
    import copy

    prepared = prepare(image_stream(), "naive", MODEL, data_dir=tmp_path)
    model = prepared.learner.model
    prepared.learner.train()
    assert not model.encoder.body.training
    assert set(model.state_dict()) == {"head.weight", "head.bias"}
    assert copy.deepcopy(model).encoder is model.encoder


def test_features_are_computed_once_and_kept_by_weights_and_data(
    image_stream: Make, tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    stream = image_stream()
    fresh, _ = fit(stream, "naive", tmp_path)
    kept = sorted((tmp_path / "features").rglob("*.npy"))
    assert len(kept) == 6  # training and test data of three tasks
    with monkeypatch.context() as patch:
        patch.setattr(
            "clframe.models.frozen.Encoder._compute",
            lambda *_: pytest.fail("features were computed again"),
        )
        again, _ = fit(stream, "naive", tmp_path)
    assert (fresh.matrix.values == again.matrix.values).all()
    # Other images, another scaling, other weights: other files.
    fit(image_stream(per_class=5), "naive", tmp_path)
    fit(stream, "naive", tmp_path, size=48)
    fit(stream, "naive", tmp_path, backbone="test_efficientnet_ln")
    assert len(list((tmp_path / "features").rglob("*.npy"))) == 24


@pytest.mark.parametrize("damage", [b"", b"no array", None])
def test_damaged_features_are_computed_again(
    image_stream: Make, tmp_path: Path, damage: bytes | None
) -> None:
    stream = image_stream()
    fresh, _ = fit(stream, "naive", tmp_path)
    for path in (tmp_path / "features").rglob("*.npy"):
        if damage is None:
            np.save(path, np.zeros((2, 2), np.float32))
        else:
            path.write_bytes(damage)
    again, _ = fit(stream, "naive", tmp_path)
    assert (fresh.matrix.values == again.matrix.values).all()


def test_without_cache_nothing_is_written(image_stream: Make, tmp_path: Path) -> None:
    fit(image_stream(), "naive", tmp_path, cache=False)
    assert not list(tmp_path.iterdir())


def test_hidden_layers_are_trained_and_make_features_change(
    image_stream: Make, tmp_path: Path
) -> None:
    _, learner = fit(image_stream(), "naive", tmp_path, hidden=[16])
    assert sum(p.numel() for p in learner.model.parameters()) == 256 * 16 + 16 + 4 * 17
    with pytest.raises(clframe.ClframeError, match="needs features that do not"):
        fit(image_stream(), [GenerativeReplay(replay="features")], tmp_path, hidden=[16])


def test_random_transforms_are_refused(image_stream: Make, tmp_path: Path) -> None:
    def flip(x: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        return x.float()

    flip.random = True  # type: ignore[attr-defined]
    stream = image_stream()
    for item in (*stream.experiences, *stream.tasks):
        assert isinstance(item.data, TensorData)
        item.data.transform = flip
    with pytest.raises(SettingError, match="at random; use model=timm"):
        fit(stream, "naive", tmp_path)


def test_a_run_continues_from_its_folder(image_stream: Make, tmp_path: Path) -> None:
    def go(**options: Any) -> Any:
        return clframe.fit(
            image_stream(),
            {"replay": {"size": 12}},
            MODEL,
            data_dir=tmp_path / "data",
            progress=False,
            logger=None,
            max_steps=5,
            **options,
        )

    first = go(run_dir=tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    again = go(resume=tmp_path / "run")
    assert (first.matrix.values == again.matrix.values).all()


def test_rgbd_is_encoded(image_stream: Make, tmp_path: Path) -> None:
    result, _ = fit(image_stream((4, 32, 32)), "naive", tmp_path)
    assert result.matrix.values[0].mean() >= 0
