from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import clframe
from clframe.errors import SettingError
from clframe.plugins.builtin.samples import strip


def _pixels(content: bytes | None) -> Any:
    assert content is not None
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def test_depth_is_a_row_below_the_colors() -> None:
    x = torch.zeros(2, 4, 8, 8)
    x[0, 0], x[1, 2], x[1, 3] = 1.0, 0.5, 1.0
    pixels = _pixels(strip(x))
    assert pixels.shape == (16, 16, 3)
    assert pixels[0, 0].tolist() == [255, 0, 0]
    assert pixels[0, 8].tolist() == [0, 0, 128]
    assert pixels[8, 0].tolist() == [0, 0, 0]
    assert pixels[8, 8].tolist() == [255, 255, 255]


def test_bytes_sequences_and_normalized_inputs_are_images_and_vectors_are_none() -> None:
    sequence = torch.zeros(3, 5, 3, 10, 10, dtype=torch.uint8)
    sequence[:, 2] = 200
    pixels = _pixels(strip({"eye": sequence, "joints": torch.zeros(3, 5, 7)}))
    assert pixels.shape == (10, 30, 3)
    assert (pixels == 200).all(), "the image in the middle"
    normalized = torch.tensor([-2.0, 3.0]).view(2, 1, 1, 1).expand(2, 1, 96, 96)
    pixels = _pixels(strip(normalized))
    assert pixels.shape == (48, 96, 3), "scaled down"
    assert (pixels[:, :48].max(), pixels[:, 48:].min()) == (0, 255)
    assert strip(torch.zeros(4, 9)) is None


def test_cached_features_are_no_images() -> None:
    views = torch.randn(6, 1, 4, 1440, dtype=torch.float16)
    assert strip({"agentview": views, "wrist": views}) is None


def test_learning_is_the_same_with_samples_and_without(tmp_path: Path) -> None:
    def fit(name: str, **settings: Any) -> Any:
        return clframe.fit(
            {"name": "split_mnist", "n_experiences": 2}, "naive", max_steps=2, augment=["flip"],
            run_dir=tmp_path / name, progress=False, logger=None, **settings,
        )  # fmt: skip

    plain, kept = fit("plain", sample_images=0), fit("kept", sample_images=5)
    for one, two in zip(plain.model.parameters(), kept.model.parameters(), strict=True):
        assert (one == two).all()
    assert not (tmp_path / "plain" / "samples").exists()
    files = sorted((tmp_path / "kept" / "samples").iterdir())
    assert [path.name for path in files] == ["exp0_exp0.png", "exp1_exp1.png"]
    assert _pixels(files[0].read_bytes()).shape == (28, 5 * 28, 3)
    assert files[0].stat().st_size < 10_000
    samples = kept.measured["evaluation"]["samples"]
    assert samples == {"task0": 500, "task1": 500}
    with pytest.raises(SettingError, match="sample_images"):
        fit("wrong", sample_images=-1)
