"""The streams on rendered frames, and a whole run of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clframe
from clframe.cli.main import main
from clframe.testing import check_stream
from clframe.worlds.objects.frames.cache_plan import TEST, TRAIN, VALIDATION, split_frames

FACTORS = ("illumination", "occlusion", "pixel", "clutter")
TINY: dict[str, Any] = {"n_instances": 2, "frames": 3, "size": 16, "num_workers": 1}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.mark.parametrize("kind", [*FACTORS, "sequence", "mixture"])
@pytest.mark.parametrize("modality", ["rgb", "rgbd"])
def test_every_stream_keeps_the_contract(data_dir: Path, kind: str, modality: str) -> None:
    stream = clframe.stream(f"openloris_{kind}", data_dir=data_dir, modality=modality, **TINY)
    check_stream(stream)
    assert len(stream) == len(stream.tasks) == (9 if kind in FACTORS else 12)
    assert stream.n_outputs == 2
    assert stream.source.startswith("rendered stand-in for OpenLORIS-Object, not the real images")


def test_splits_are_apart_and_complete(data_dir: Path) -> None:
    stream = clframe.stream("openloris_pixel", data_dir=data_dir, **TINY)
    validated = clframe.stream(
        "openloris_pixel", data_dir=data_dir, evaluate_on="validation", **TINY
    )
    for train, test, validation in zip(stream, stream.tasks, validated.tasks, strict=True):
        rows = [set(item.data.indices.tolist()) for item in (train, test, validation)]
        assert sum(len(part) for part in rows) == len(set.union(*rows)) == 2 * 3


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 11, 26, 260, 381])
def test_frames_are_split_eight_to_one_to_one(n: int) -> None:
    counts = np.bincount(split_frames(n), minlength=3)
    assert counts.sum() == n
    assert counts[TRAIN] >= 1
    if n >= 10:
        assert counts[VALIDATION] == counts[TEST] == round(n / 10)
        held = np.flatnonzero(split_frames(n) == TEST)
        assert np.diff(held).max(initial=0) <= 12  # spread over the clip
        assert held[0] > 0
        assert held[-1] < n - 1


def test_depth_of_the_fourth_channel_is_metric(data_dir: Path) -> None:
    one = clframe.stream("openloris_pixel", data_dir=data_dir, modality="depth", **TINY)
    two = clframe.stream(
        "openloris_pixel", data_dir=data_dir, modality="depth", depth_range=4.0, **TINY
    )
    batches = [next(iter(s.tasks[0].data.batches(torch.arange(2), 2))).x for s in (one, two)]
    near = (batches[0] < 1.0) & (batches[0] > 0.0)
    assert bool(near.any())
    assert torch.allclose(batches[0][near], 2 * batches[1][near])


def test_a_run_fills_the_matrix_and_keeps_the_papers_identity(
    data_dir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        "fit",
        "strategy=replay",
        "strategy.replay.size=20",
        "stream=openloris_illumination",
        "stream.size=16",
        "stream.modality=rgbd",
        "frames=3",
        "n_instances=2",
        "num_workers=1",
        "max_epochs=1",
        "logger=none",
        f"data_dir={data_dir}",
        f"run_dir={tmp_path / 'run'}",
    ]
    assert main(words) == 0
    result = json.loads((tmp_path / "run/results.json").read_text())
    values = np.array(result["matrix"]["values"])
    assert values.shape == (10, 9)
    assert result["scenario"] == "domain"
    assert "not the real images" in result["source"]
    assert "rendered stand-in" in capfd.readouterr().out
    metrics, n = result["metrics"]["openloris"], 9
    expected = ((n + 1) * metrics["accuracy"] + (n - 1) * metrics["fwt"]) / (2 * n)
    assert metrics["overall"] == pytest.approx(expected)
    assert metrics["overall"] == pytest.approx(values[1:].mean())


def test_listing_streams_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLFRAME_DATA", str(tmp_path / "fresh"))
    assert main(["list", "streams"]) == 0
    assert "openloris_sequence" in capfd.readouterr().out
    assert not (tmp_path / "fresh").exists()
