"""Statistics of the sensor models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clframe.errors import ClframeError
from clframe.worlds.render import RayCamera, View, depth_noise, sensor_noise
from clframe.worlds.render.noise import BASELINE, FOCAL, SUBPIXEL


def wall(distance: float) -> Any:
    return np.full((100, 100), distance, dtype=np.float32)


@pytest.mark.parametrize("distance", [0.5, 1.0, 2.0, 4.0])
def test_depth_error_grows_with_the_square_of_distance(distance: float) -> None:
    noisy = depth_noise(wall(distance), np.random.default_rng(0))
    expected = SUBPIXEL * distance**2 / (FOCAL * BASELINE)
    quantized = math.hypot(expected, 0.001 / math.sqrt(12))
    assert (noisy > 0).all()
    assert (noisy - distance).std() == pytest.approx(quantized, rel=0.04)
    assert abs((noisy - distance).mean()) < 4 * quantized / 100


def test_depth_is_in_whole_millimeters() -> None:
    millimeters = depth_noise(wall(1.2345), np.random.default_rng(0)) * 1000.0
    np.testing.assert_allclose(millimeters, np.round(millimeters), atol=1e-3)
    assert len(np.unique(millimeters)) > 10


def test_there_is_no_depth_where_nothing_is_or_out_of_range() -> None:
    depth = np.array([[0.0, 0.1, 0.5, 9.0, 12.0]] * 3, dtype=np.float32)
    noisy = depth_noise(depth[:, :1].repeat(4, axis=1), np.random.default_rng(0))
    assert (noisy == 0).all()
    assert (depth_noise(wall(0.1), np.random.default_rng(0)) == 0).all()
    assert (depth_noise(wall(12.0), np.random.default_rng(0)) == 0).all()


def test_holes_are_left_of_near_things_as_wide_as_the_disparity_step() -> None:
    depth = wall(1.5)
    depth[:, 40:60] = 0.5
    focal = 100 / (2 * math.tan(math.radians(22.5)))
    width = focal * BASELINE * (1 / 0.5 - 1 / 1.5)
    lost = depth_noise(depth, np.random.default_rng(0)) == 0
    share = lost.mean(axis=0)
    left = int(width)  # whole columns that the second imager does not see
    assert left >= 5
    assert (share[40 - left : 40] == 1).all()
    assert share[: 40 - left - 2].max() == 0
    assert share[62:].max() == 0
    assert share[45:55].max() == 0


def test_grazing_surfaces_lose_points(table: tuple[Any, Any]) -> None:
    model, data = table
    flat = View.look_at((0, -3, 0.02), (0, 0, 0.0), fovy=20)
    steep = View.look_at((0, -3, 2.5), (0, -1.5, 0), fovy=20)
    floor = model.geom("floor").id
    lost = []
    for view in (flat, steep):
        frame = RayCamera(model).render(data, view, rgb=False)
        noisy = depth_noise(frame.depth, np.random.default_rng(0), fovy=20)
        measurable = (frame.geom == floor) & (frame.depth < 10)
        lost.append((noisy[measurable] == 0).mean())
    assert lost[0] > 0.3
    assert lost[1] < 0.02


def test_noise_depends_on_the_generator_alone() -> None:
    rgb = np.full((8, 8, 3), 100, dtype=np.uint8)
    for make in (
        lambda seed: depth_noise(wall(1.0), np.random.default_rng(seed)),
        lambda seed: sensor_noise(rgb, np.random.default_rng(seed)),
    ):
        np.testing.assert_array_equal(make(0), make(0))
        assert (make(0) != make(1)).any()


def test_sensor_noise_keeps_brightness_and_grows_with_gain() -> None:
    gray = np.full((64, 64, 3), 120, dtype=np.uint8)
    rng = np.random.default_rng(0)
    deviations = []
    for gain in (0.0, 1.0, 4.0, 16.0):
        noisy = sensor_noise(gray, rng, gain=gain)
        assert noisy.dtype == np.uint8
        assert abs(noisy.mean() - 120) < 1.5
        deviations.append(float(noisy.std()))
    assert deviations[0] == 0
    assert deviations[1] < 0.6 * deviations[2] < 0.36 * deviations[3]


def test_a_dark_image_is_relatively_noisier() -> None:
    gray = np.full((64, 64, 3), 160, dtype=np.uint8)
    bright = sensor_noise(gray, np.random.default_rng(0)).astype(float)
    dark = sensor_noise(gray, np.random.default_rng(0), exposure=0.1).astype(float)
    assert dark.mean() < 0.5 * bright.mean()
    assert dark.std() / dark.mean() > 2 * bright.std() / bright.mean()


def test_what_no_sensor_can_do_is_named() -> None:
    with pytest.raises(ClframeError, match="rows and columns"):
        depth_noise(np.ones(4, dtype=np.float32), np.random.default_rng(0))
    with pytest.raises(ClframeError, match="gain -1"):
        sensor_noise(np.zeros((2, 2, 3), dtype=np.uint8), np.random.default_rng(0), gain=-1)
