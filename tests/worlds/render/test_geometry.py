"""Depth, geoms and normals against formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clframe.errors import ClframeError
from clframe.worlds.render import RayCamera, View
from clframe.worlds.render.rays import Caster, gives_normals
from clframe.worlds.render.view import pixel_rays

MakeScene = Callable[[str], tuple[Any, Any]]
DOWN = View.look_at((0, 0, 2), (0, 0, 0), fovy=40)


def test_depth_of_a_plane_across_the_optical_axis_is_its_distance(make_scene: MakeScene) -> None:
    model, data = make_scene('<geom type="plane" size="0 0 1"/>')
    frame = RayCamera(model, 40, 30).render(data, DOWN, rgb=False)
    assert frame.depth.shape == frame.geom.shape == (30, 40)
    assert frame.depth.dtype == np.float32
    np.testing.assert_allclose(frame.depth, 2.0, atol=1e-6)
    assert (frame.geom == 0).all()


def test_depth_of_a_slanted_plane(make_scene: MakeScene) -> None:
    model, data = make_scene('<geom type="plane" size="0 0 1"/>')
    view = View.look_at((0.3, -1.0, 0.8), (0, 0, 0), fovy=50)
    depth = RayCamera(model, 33, 21).render(data, view, rgb=False).depth
    rays = view.rotation @ pixel_rays(33, 21, 50.0)
    np.testing.assert_allclose(depth.reshape(-1), -0.8 / rays[2], rtol=1e-5)


def test_depth_and_outline_of_a_sphere(make_scene: MakeScene) -> None:
    model, data = make_scene('<geom type="sphere" size="0.5"/>')
    frame = RayCamera(model, 65, 65).render(data, DOWN, rgb=False)
    x, y, _ = pixel_rays(65, 65, 40.0).reshape(3, 65, 65)
    square = x**2 + y**2
    # |eye + t ray| = 0.5 with eye = (0, 0, 2) and ray = (x, y, -1).
    root = 16 - 4 * (1 + square) * (4 - 0.25)
    expected = np.where(root > 0, (4 - np.sqrt(np.maximum(root, 0))) / (2 * (1 + square)), 0)
    np.testing.assert_allclose(frame.depth, expected, atol=1e-5)
    np.testing.assert_array_equal(frame.geom, np.where(root > 0, 0, -1))
    assert frame.depth[32, 32] == pytest.approx(1.5, abs=1e-6)


def test_depth_of_a_box_and_the_ground_beside_it(make_scene: MakeScene) -> None:
    model, data = make_scene(
        '<geom type="plane" size="0 0 1"/><geom type="box" size=".2 .1 .3" pos="0 0 .3"/>'
    )
    frame = RayCamera(model, 64, 64).render(data, DOWN, rgb=False)
    top = frame.geom == 1
    np.testing.assert_allclose(frame.depth[top & (frame.depth < 1.5)], 1.4, atol=1e-6)
    np.testing.assert_allclose(frame.depth[~top], 2.0, atol=1e-6)
    x, y, _ = pixel_rays(64, 64, 40.0).reshape(3, 64, 64) * 1.4
    np.testing.assert_array_equal(np.isclose(frame.depth, 1.4), (abs(x) <= 0.2) & (abs(y) <= 0.1))


def test_the_image_is_upright(make_scene: MakeScene) -> None:
    model, data = make_scene(
        '<geom name="up" type="sphere" size=".1" pos="0 0 .5"/>'
        '<geom name="right" type="sphere" size=".1" pos=".5 0 0"/>'
    )
    geom = RayCamera(model, 64, 64).render(data, View.look_at((0, -2, 0), (0, 0, 0))).geom
    assert (geom[:32] == 0).sum() > 20
    assert (geom[32:] == 0).sum() == 0
    assert (geom[:, 32:] == 1).sum() > 20
    assert (geom[:, :32] == 1).sum() == 0


def test_a_wide_image_has_square_pixels(make_scene: MakeScene) -> None:
    model, data = make_scene('<geom type="sphere" size="0.5"/>')
    geom = RayCamera(model, 120, 60).render(data, DOWN, rgb=False).geom
    rows, columns = np.nonzero(geom == 0)
    assert np.ptp(rows) == np.ptp(columns)


def test_nothing_is_depth_zero_and_geom_minus_one(make_scene: MakeScene) -> None:
    model, data = make_scene('<geom type="sphere" size=".1" pos="0 0 -5"/>')
    frame = RayCamera(model, 8, 8).render(data, View.look_at((0, 0, 0), (0, 1, 1)))
    assert (frame.depth == 0).all()
    assert (frame.geom == -1).all()


def test_what_is_transparent_or_in_a_collision_group_is_not_seen(table: tuple[Any, Any]) -> None:
    model, data = table
    view = View.of_camera(model, data, "front")
    seen = np.unique(RayCamera(model).render(data, view).geom)
    ghost, shape = model.geom("ghost").id, model.geom("shape").id
    assert ghost not in seen
    assert shape not in seen
    everything = RayCamera(model, groups=(0, 1, 2, 3)).render(data, view).geom
    assert (everything == shape).any()


def test_masks_follow_the_geoms(table: tuple[Any, Any]) -> None:
    model, data = table
    frame = RayCamera(model).render(data, View.of_camera(model, data, "front"), rgb=False)
    ball, can = model.geom("ball").id, model.geom("can").id
    both = frame.mask([ball, can])
    np.testing.assert_array_equal(both, frame.mask(ball) | frame.mask(can))
    assert 10 < both.sum() < 1000


@pytest.mark.parametrize(
    "geom",
    [
        'type="sphere" size=".3"',
        'type="box" size=".3 .2 .2" euler="10 20 30"',
        'type="cylinder" size=".2 .3" euler="50 10 0"',
        'type="capsule" size=".15 .2" euler="80 0 20"',
        'type="ellipsoid" size=".3 .2 .1"',
    ],
)
def test_normals_by_differences_are_the_surface_normals(make_scene: MakeScene, geom: str) -> None:
    if not gives_normals():
        pytest.skip("this MuJoCo gives no normals to compare with")
    model, data = make_scene(f"<geom {geom}/>")
    view = View.look_at((0.4, -1, 0.7), (0, 0, 0))
    rays = (view.rotation @ pixel_rays(48, 48, 45.0)).T
    arguments = (data, view.position, rays, True)
    caster = Caster(model, (0,))
    given, computed = caster.cast(*arguments), caster.cast(*arguments, by_differences=True)
    assert given.normal is not None
    assert computed.normal is not None
    hit = given.geom >= 0
    np.testing.assert_array_equal(computed.geom, given.geom)
    cosine = (given.normal * computed.normal).sum(axis=1)[hit]
    assert (cosine > 0.999).mean() > 0.99  # an outline ray may just miss
    assert ((given.normal * rays).sum(axis=1)[hit] <= 0).all()


def test_normals_of_a_sphere_point_from_its_center(make_scene: MakeScene) -> None:
    model, data = make_scene('<geom type="sphere" size=".3"/>')
    rays = (DOWN.rotation @ pixel_rays(32, 32, 20.0)).T
    hits = Caster(model, (0,)).cast(data, DOWN.position, rays, True)
    hit = hits.geom >= 0
    points = DOWN.position + hits.distance[hit, None] * rays[hit]
    assert hits.normal is not None
    np.testing.assert_allclose(hits.normal[hit], points / 0.3, atol=1e-3)


def test_a_view_along_the_upright_is_still_a_rotation() -> None:
    for aim in ((0, 0, -1), (0, 0, 1), (0, 1, 0)):
        rotation = View.look_at((0, 0, 0), aim).rotation
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-12)
        assert np.linalg.det(rotation) == pytest.approx(1)
        np.testing.assert_allclose(rotation[:, 2], -np.array(aim), atol=1e-12)


def test_what_cannot_be_a_view_or_a_camera_is_named(table: tuple[Any, Any]) -> None:
    model, data = table
    with pytest.raises(ClframeError, match="no camera 'frnt'; its cameras: front"):
        View.of_camera(model, data, "frnt")
    with pytest.raises(ClframeError, match="no camera 7"):
        View.of_camera(model, data, 7)
    with pytest.raises(ClframeError, match="cannot look at the same point"):
        View.look_at((1, 2, 3), (1, 2, 3))
    with pytest.raises(ClframeError, match="between 0 and 180"):
        View.look_at((1, 2, 3), (0, 0, 0), fovy=180)
    with pytest.raises(ClframeError, match="shapes"):
        View(np.zeros(2), np.eye(3))
    with pytest.raises(ClframeError, match="width must be 1 or more, not 0"):
        RayCamera(model, 0, 64)
    frame = RayCamera(model).render(data, View.of_camera(model, data, 0), rgb=False)
    with pytest.raises(ClframeError, match="rgb=False"):
        _ = frame.rgb


def test_a_model_without_geoms_is_all_sky(make_scene: MakeScene) -> None:
    model, data = make_scene("")
    frame = RayCamera(model, 8, 8, samples=2).render(data, View.look_at((0, 0, 1), (0, 1, 1)))
    assert (frame.geom == -1).all()
    assert frame.rgb.min() > 100


def test_masks_take_numbers_of_any_kind(make_scene: MakeScene) -> None:
    model, data = make_scene('<geom type="sphere" size="0.5"/>')
    frame = RayCamera(model, 16, 16).render(data, DOWN, rgb=False)
    for wanted in (0, np.int32(0), [0], np.array([0, 5]), {0}, range(1)):
        assert frame.mask(wanted).sum() == (frame.geom == 0).sum() > 0


@pytest.mark.parametrize("ground", ["box", "plane"])
def test_every_ray_hits_what_it_would_hit_alone(make_scene: MakeScene, ground: str) -> None:
    """Wide boards close by, and geoms for the eye that reach out of a body's collision shapes."""
    import mujoco

    model, data = make_scene(
        f'<geom type="{ground}" size="2 2 .02" pos="0 0 -.6"/>'
        '<geom type="sphere" size=".1" pos=".3 -.3 -.4" contype="0" conaffinity="0"/>'
        '<body pos="0 0 .2"><freejoint/><geom type="sphere" size=".05"/>'
        '<geom type="box" size=".7 .05 .05" pos=".5 .2 0" contype="0" conaffinity="0"/>'
        '<geom type="capsule" size=".04 .4" pos="-.5 0 0" contype="0" conaffinity="0"/></body>'
    )
    bounds, met = model.bvh_aabb.copy(), set[int]()
    for position in ((0.4, -1.2, 0.9), (-0.5, -0.4, 0.6), (1, 1, 0.1)):
        view = View.look_at(position, (0, 0, 0), fovy=80)
        frame = RayCamera(model, 24, 24).render(data, view, rgb=False)
        seen = np.empty(1, dtype=np.int32)
        groups = np.array([1, 1, 1, 0, 0, 0], dtype=np.uint8)
        alone = []
        for ray in (view.rotation @ pixel_rays(24, 24, 80.0)).T:
            mujoco.mj_ray(model, data, view.position, ray, groups, True, -1, seen)
            alone.append(int(seen[0]))
        np.testing.assert_array_equal(frame.geom.reshape(-1), alone)
        met.update(alone)
    assert met == {-1, 0, 1, 2, 3, 4}
    np.testing.assert_array_equal(model.bvh_aabb, bounds)
