"""Perturbation saliency: Greydanus et al., by hand and in a video."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

import clframe
from clframe.api import load_learner
from clframe.cli.main import main
from clframe.robot.video.saliency import overlay, perturbed, saliency

SIZE, POINTS = 16, 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a policy that sees, hardly trained."""
    folder = tmp_path_factory.mktemp("saliency")
    settings = {"cameras": ["agentview", "wrist"], "size": SIZE, "tasks": [7]}
    clframe.fit(
        {
            **{"name": "tabletop_goal", "num_demos": 1, "eval_episodes": 1, "horizon": 6},
            **{"num_workers": 0, **settings},
        },
        model={"name": "policy", "image": SIZE, "hidden": [8]},
        strategy="naive",
        max_epochs=1,
        data_dir=folder,
        run_dir=folder / "run",
    )
    return folder / "run"


class Corner(torch.nn.Module):
    """A policy that acts on the red of the upper left quarter of the first image alone."""

    def __init__(self, before: int) -> None:
        super().__init__()
        self.before = before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        red = x[:, self.before : self.before + SIZE * SIZE].reshape(-1, SIZE, SIZE)
        return red[:, :8, :8].mean((1, 2))[:, None].repeat(1, 7)


def test_what_a_policy_acts_on_is_salient(run: Path) -> None:
    learner, _ = load_learner(run)
    task = learner.stream.tasks[0]
    how = task.evaluation
    images = 2 * 3 * SIZE * SIZE
    learner.model = Corner(how.inputs.size - images)
    learner._split_model = False
    learner.eval()
    seen, _ = how.robot.environment().reset(seed=0)
    found = saliency(learner, task, how, seen, POINTS)
    assert found.shape == (POINTS, POINTS)
    assert found.max() == found[:2, :2].max()
    assert found[2:, 2:].max() < found.max() / 10
    # Equations 1 and 2 at one point, by loops.
    image = seen["agentview_rgb"]
    blurred = Image.fromarray(image).filter(ImageFilter.GaussianBlur(SIZE * 3 / 64))
    center = 0.5 * SIZE / POINTS
    total = 0.0
    for y in range(8):
        for x in range(8):
            off = (x + 0.5 - center) ** 2 + (y + 0.5 - center) ** 2
            mask = np.exp(-off / (2 * (SIZE * 5 / 64) ** 2))
            one, other = float(image[y, x, 0]), float(np.asarray(blurred)[y, x, 0])
            total += (np.rint((1 - mask) * one + mask * other) - one) / 255
    assert found[0, 0] == pytest.approx(0.5 * 7 * (total / 64) ** 2, rel=1e-3, abs=1e-9)


def test_a_image_without_detail_stays_as_it_is() -> None:
    flat = np.full((SIZE, SIZE, 3), 90, np.uint8)
    assert (perturbed(flat) == 90).all()
    assert np.array_equal(overlay(flat, np.zeros((POINTS, POINTS))), flat)
    found = np.zeros((POINTS, POINTS))
    found[0, 0] = 2.0
    red = overlay(np.full((64, 64, 3), 90, np.uint8), found)
    assert red[0, 0, 0] > 180
    assert (red[32:, 32:] == 90).all()


def test_a_video_shows_it(run: Path, tmp_path: Path, capsys: Any) -> None:
    for more in ([], ["--saliency"]):
        video = tmp_path / f"video{len(more)}"
        assert main(["rollout", str(run), "--episodes", "1", "--video", str(video), *more]) == 0
    plain, red = ([*map(_pixels, sorted(f.iterdir()))] for f in sorted(tmp_path.iterdir()))
    assert len(plain) == len(red) == 6
    assert any((a != b).any() for a, b in zip(plain, red, strict=True))
    assert main(["rollout", str(run), "--saliency"]) == 2
    assert "add --video" in capsys.readouterr().err


def _pixels(path: Path) -> Any:
    return np.asarray(Image.open(path))
