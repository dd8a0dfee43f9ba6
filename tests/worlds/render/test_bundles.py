"""Rays cast in bundles meet what they meet when all are cast at everything, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clframe.worlds.render import RayCamera, View
from clframe.worlds.render.boxes import Grid
from clframe.worlds.render.rays import gives_normals

pytest.importorskip("mujoco")
pytestmark = pytest.mark.skipif(not gives_normals(), reason="MuJoCo before 3.5 casts one by one")


def crowded(rng: np.random.Generator, things: int = 40) -> str:
    """A floor, a wall and things of all shapes, one of them for the eye only."""
    geoms = []
    for number in range(things):
        kind = ("box", "sphere", "cylinder", "capsule", "ellipsoid")[number % 5]
        x, y, z, a, b, c = rng.uniform(-0.5, 0.5, 6)
        size = " ".join(f"{side:.4f}" for side in rng.uniform(0.01, 0.12, 3))
        eye = 'contype="0" conaffinity="0"' if number % 7 == 0 else ""
        geoms.append(
            f'<body pos="{x} {y} {z + 0.5}" euler="{90 * a} {90 * b} {90 * c}">'
            f'<freejoint/><geom type="{kind}" size="{size}" {eye}/></body>'
        )
    return (
        '<mujoco><worldbody><geom type="plane" size="2 2 .1"/>'
        '<geom type="plane" size="0 0 1" pos="-1 0 0" zaxis="1 0 0"/>'
        '<geom name="unseen" type="box" size="1 1 .01" pos="0 0 .9" group="4"/>'
        f"{''.join(geoms)}</worldbody></mujoco>"
    )


@pytest.mark.parametrize("seed", range(6))
def test_bundles_meet_the_same(make_scene: Callable[[str], tuple[Any, Any]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, data = make_scene(crowded(rng))
    camera = RayCamera(model, 50, 36)  # not a multiple of a tile
    groups, bounds, numbers = (
        np.array(field) for field in (model.geom_group, model.body_bvhadr, model.body_geomnum)
    )
    seen = set()
    for _ in range(12):
        # In the middle of things, so that boxes reach behind the camera and around it.
        place = rng.uniform([-0.5, -0.5, 0.1], [0.5, 0.5, 0.9])
        view = View.look_at(place, place + rng.normal(size=3), fovy=float(rng.uniform(20, 120)))
        rays, hits = camera._cast(data, view, normals=True)
        wanted = camera.caster.cast(data, view.position, rays.T, normals=True)
        np.testing.assert_array_equal(hits.geom, wanted.geom)
        np.testing.assert_array_equal(hits.distance, wanted.distance)
        met = hits.geom >= 0
        np.testing.assert_array_equal(hits.normal[met], wanted.normal[met])
        seen.update(hits.geom.tolist())
    assert len(seen) > 20  # else nothing was compared
    np.testing.assert_array_equal(model.geom_group, groups)
    np.testing.assert_array_equal(model.body_bvhadr, bounds)
    np.testing.assert_array_equal(model.body_geomnum, numbers)


def test_most_geoms_are_left_out(make_scene: Callable[[str], tuple[Any, Any]]) -> None:
    model, data = make_scene(crowded(np.random.default_rng(0)))
    camera = RayCamera(model, 64, 64)
    view = View.look_at((0, 0, 2.0), (0, 0, 0))  # straight down
    rays = np.zeros((64 * 64, 3))
    candidates = camera.caster.bundles.candidates(data, view.position, rays, camera.fan(view))
    assert candidates is not None
    assert candidates.shape == (64, model.ngeom)
    assert candidates[:, :2].all()  # planes have no bounds
    assert not candidates[:, model.geom("unseen").id].any()
    assert candidates.sum(axis=1).mean() < 10


def test_a_box_is_covered_where_it_is_seen() -> None:
    grid = Grid(np.zeros(3), np.eye(3), np.array([-1.0, -1.0]), np.full(2, 20.0), (40, 40))
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float).T

    def cover(center: tuple[float, float, float], half: float) -> Any:
        corners = np.array(center)[:, None] + half * signs
        return grid.cover(corners[:, :, None])

    ahead = cover((0.0, 0.5, 2.0), 0.1)
    rows, columns = np.nonzero(ahead)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (22, 27, 17, 22)
    assert not cover((0.0, 0.0, -2.0), 0.1).any()  # behind
    assert cover((0.0, 0.0, 0.0), 0.1).all()  # around the point
    side = cover((0.6, 0.0, 0.0), 0.3)  # beside, half of it behind
    assert side[20, -1] == 1
    assert not side[:, :20].any()
