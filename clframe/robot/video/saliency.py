"""Perturbation saliency: which part of an image determines the policy's action.

Greydanus et al., "Visualizing and Understanding Atari Agents", ICML 2018, Eqs. 1 and 2, as in
LIBERO's Appendix E.4: blur the image around a point; the change of the policy's outputs is the
point's saliency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from clframe.core import hooks
from clframe.errors import SettingError
from clframe.robot.observation_windows import STATE
from clframe.robot.task import as_dictionary
from clframe.robot.video.record_video import RecordVideo
from clframe.robot.video.video_frames import Shot

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Task
    from clframe.robot.evaluation import Evaluation
    from clframe.robot.task import Observation

Floats = NDArray[np.float64]
POINTS = 12
"""Points along each side at which an image is blurred."""
_BLUR, _SPREAD = 3.0 / 64, 5.0 / 64
"""Standard deviations of the blur and of the mask, relative to the image's side; the paper uses
3 and 5 pixels of 80."""


def check(evaluation: Evaluation) -> str:
    """Return the name of the images for saliency: the policy's first camera.

    Raises:
        SettingError: The policy sees no images.
    """
    if not evaluation.inputs.images:
        raise SettingError(
            f"the policy of task '{evaluation.robot.name}' sees no images; use --saliency with "
            "runs that set stream.cameras"
        )
    return evaluation.inputs.images[0]


def perturbed(image: NDArray[np.uint8], points: int = POINTS) -> NDArray[np.uint8]:
    """Blur the image around each point of a grid; return ``[points * points, h, w, 3]``.

    Eq. 1: ``(1 - M) * I + M * A`` with a Gaussian mask M around the point and A the blurred I.
    """
    side = image.shape[0]
    clear, faded = image.astype(np.float64), _blurred(image, _BLUR * side)
    centers = (np.arange(points) + 0.5) * side / points
    bell = np.exp(-0.5 * ((np.arange(side)[None] + 0.5 - centers[:, None]) / (_SPREAD * side)) ** 2)
    masks = np.einsum("py,qx->pqyx", bell, bell).reshape(-1, side, side, 1)
    return np.asarray(np.rint(clear + masks * (faded - clear)), np.uint8)


def saliency(
    learner: Learner,
    task: Task,
    evaluation: Evaluation,
    observation: Observation,
    points: int = POINTS,
) -> Floats:
    """Return the saliency of an observation's first image on a grid, ``[points, points]``.

    Eq. 2: half the squared distance between the policy's outputs for the original and for the
    blurred image. A policy with memory treats the image as the first of an episode.

    Args:
        learner: The learner that acts.
        task: The task to do.
        evaluation: The task's evaluation.
        observation: Arrays by name, as the environment returns them.
        points: Points along each side of the image.
    """
    name, inputs = check(evaluation), evaluation.inputs
    several = np.concatenate([observation[name][None], perturbed(observation[name], points)])
    names = (STATE, *inputs.images)
    arrays = {n: np.repeat(observation[n][None], len(several), 0) for n in names if n != name}
    arrays[name] = several
    device = learner.engine.device
    raw = {
        # The observation fills the whole window.
        n: torch.from_numpy(np.repeat(arrays[n][:, None], inputs.window, 1)).to(device)
        for n in names
    }
    number = torch.full((len(several),), task.index, dtype=torch.long, device=device)
    policy = learner.policy
    with (
        torch.inference_mode(),
        learner.engine.autocast(),
        policy.acting(),
        hooks.in_task(learner, task),
    ):
        policy.reset(torch.ones(len(several), dtype=torch.bool, device=device))
        outputs = hooks.predict(learner, inputs(raw, number), task)
    flat = outputs.double().flatten(1)
    change = 0.5 * (flat[1:] - flat[:1]).square().sum(1)
    scores: Floats = change.reshape(points, points).cpu().numpy()
    return scores


def overlay(
    frame: NDArray[np.uint8], found: Floats, most: float | None = None
) -> NDArray[np.uint8]:
    """Color the salient parts of an image red.

    Args:
        frame: The image, of any size.
        found: Its saliency on a grid.
        most: The saliency shown in full red; None for the maximum of this image.
    """
    most = float(found.max()) if most is None else most
    share = np.clip(found / most, 0.0, 1.0) if most > 0 else np.zeros_like(found)
    height, width = frame.shape[:2]
    rows, columns = (
        np.clip((np.arange(n) + 0.5) * len(found) / n - 0.5, 0, len(found) - 1)
        for n in (height, width)
    )
    weight = _interpolated(_interpolated(share, rows).T, columns).T[..., None]
    red = np.array([255.0, 30.0, 30.0])
    return np.asarray(np.rint(frame * (1 - 0.65 * weight) + red * (0.65 * weight)), np.uint8)


def _interpolated(grid: Floats, positions: Floats) -> Floats:
    """Interpolate between the rows of a grid."""
    low = np.minimum(positions.astype(int), max(0, len(grid) - 2))
    weight = (positions - low)[:, None]
    high = np.minimum(low + 1, len(grid) - 1)
    return np.asarray(grid[low] * (1 - weight) + grid[high] * weight)


def _blurred(image: NDArray[np.uint8], sigma: float) -> Floats:
    """Return the image under a Gaussian blur; edges are repeated."""
    from PIL import Image, ImageFilter

    blurred = Image.fromarray(image).filter(ImageFilter.GaussianBlur(sigma))
    return np.asarray(blurred, np.float64)


class SalientVideo(RecordVideo):
    """A video that shows in red which parts of the image the policy acts on.

    Call `overlay` after the episode: another prediction during the episode would change a
    policy with memory.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and a video."""
        self._seen: list[Observation] = []
        return super().reset(seed=seed, options=options)

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action, and keep the observation if an image was recorded."""
        result = super().step(action)
        if len(self.shots) > len(self._seen):
            self._seen.append(as_dictionary(result[0]))
        return result

    def overlay(self, learner: Learner, task: Task, evaluation: Evaluation) -> None:
        """Color the video's images of the policy's first camera on a common scale."""
        camera = check(evaluation).removesuffix("_rgb")
        maps = [saliency(learner, task, evaluation, observation) for observation in self._seen]
        most = float(np.quantile([scores.max() for scores in maps], 0.9))
        self.shots[:] = [
            Shot(
                {
                    name: overlay(view, scores, most) if name == camera else view
                    for name, view in shot.views.items()
                },
                shot.step,
                shot.success,
            )
            for shot, scores in zip(self.shots, maps, strict=True)
        ]
