"""What a real RGB-D camera adds to a clean image: depth errors and holes, grain in the dark.

The depth model is that of active stereo (Intel RealSense D435: two imagers 50 mm apart): disparity
is measured with a constant error, so the error of depth grows with its square, and what only one of
the two imagers sees has no depth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.worlds.render.color import decode, encode_exactly

BASELINE = 0.05
"""Meters between the imagers of a D435."""
FOCAL = 424 / math.tan(math.radians(87.0 / 2))
"""Focal length in pixels of its imagers at 848 columns and an opening of 87 degrees."""
SUBPIXEL = 0.08
"""Standard error of a measured disparity in pixels, the maker's figure for a textured scene."""
RANGE = (0.2, 10.0)
"""Meters between which it measures."""
GRAZING = 80.0
"""Degrees between ray and normal from which the pattern it projects is hardly seen again."""


def depth_noise(
    depth: NDArray[np.float32],
    rng: np.random.Generator,
    fovy: float = 45.0,
    strength: float = 1.0,
) -> NDArray[np.float32]:
    """A clean depth image as the sensor would give it, in whole millimeters, 0 in holes.

    Args:
        depth: (H, W) meters, 0 where nothing is.
        rng: the only source of chance.
        fovy: the vertical opening angle of the image in degrees.
        strength: by which the error of disparity is multiplied; holes do not depend on it.
    """
    if depth.ndim != 2:
        raise SettingError(f"A depth image has rows and columns, not the shape {depth.shape}.")
    valid = (depth >= RANGE[0]) & (depth <= RANGE[1])
    focal = depth.shape[0] / (2 * math.tan(math.radians(fovy) / 2))
    error = rng.standard_normal(depth.shape, dtype=np.float32)
    chance = rng.random(depth.shape, dtype=np.float32)
    holes = _hidden_from_second_imager(depth, valid, focal) | _lost_by_slant(depth, focal, chance)
    # dz = z^2 / (f B) * dd: the derivative of z = f B / d.
    noisy = depth + strength * SUBPIXEL / (FOCAL * BASELINE) * depth**2 * error
    noisy = np.round(noisy * 1000) / np.float32(1000)
    return np.where(valid & ~holes & (noisy > 0), noisy, 0).astype(np.float32)


def _hidden_from_second_imager(
    depth: NDArray[np.float32], valid: NDArray[np.bool_], focal: float
) -> NDArray[np.bool_]:
    """Points behind the left edge of something nearer, where the right imager cannot see them.

    A point at column u with disparity d is covered when one k columns further right has a disparity
    of at least d + k: both then fall on the same column of the second imager.
    """
    disparity = np.where(valid, focal * BASELINE / np.where(valid, depth, 1), 0)
    covered = np.zeros(depth.shape, dtype=bool)
    reach = min(int(disparity.max(initial=0)) + 1, depth.shape[1] - 1)
    for k in range(1, reach + 1):
        # Half a pixel is enough to spoil the match of the small window around a point.
        covered[:, :-k] |= disparity[:, k:] - disparity[:, :-k] >= k - 0.5
    return covered


def _lost_by_slant(
    depth: NDArray[np.float32], focal: float, chance: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Points on surfaces seen at a grazing angle, lost the more often the flatter the angle.

    Also most pixels at a step of depth, whose window mixes near and far.
    """
    slope = np.hypot(*np.gradient(depth)) * focal / np.where(depth > 0, depth, 1)
    limit = math.tan(math.radians(GRAZING))
    return np.asarray(chance < np.clip(slope / limit - 1, 0.0, 0.9))


def sensor_noise(
    rgb: NDArray[np.uint8],
    rng: np.random.Generator,
    exposure: float = 1.0,
    gain: float = 1.0,
    shot: float = 0.012,
    read: float = 0.003,
) -> NDArray[np.uint8]:
    """A clean image as an image sensor would give it.

    Args:
        rgb: uint8 pixels of any shape.
        rng: the only source of chance.
        exposure: by which the light is multiplied before the sensor counts it; 1 keeps brightness.
        gain: amplification of the sensor in weak light; noise grows with it, brightness does not.
        shot: standard deviation, at white, of the error that grows with the root of the light.
        read: standard deviation of the error that is always there, as a part of white.
    """
    if exposure < 0 or gain < 0:
        raise SettingError(f"Exposure {exposure} and gain {gain} of a sensor must be 0 or more.")
    light = decode(rgb) * np.float32(exposure)
    deviation = np.sqrt(np.float32(shot**2 * gain) * light + np.float32((read * gain) ** 2))
    light += deviation * rng.standard_normal(rgb.shape, dtype=np.float32)
    return encode_exactly(light)
