"""Images of a camera that stands still equal those for which all rays are cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clframe.worlds.render import Light, Lighting, RayCamera, StillCamera, Texture, View

ROOM = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="3 3 .1" rgba=".7 .68 .64 1"/>
    <geom name="top" type="box" size=".6 .6 .02" pos="0 0 .3" rgba=".65 .45 .28 1"/>
    <body name="chest" pos=".3 .2 .42">
      <geom name="case" type="box" size=".1 .1 .1" rgba=".5 .3 .2 1"/>
      <body name="drawer" pos="0 -.11 0">
        <joint name="drawer" type="slide" axis="0 -1 0" range="0 .2"/>
        <geom type="box" size=".08 .02 .05" rgba=".8 .7 .6 1"/>
      </body>
    </body>
    <body name="ball" pos="-.2 0 .4">
      <freejoint name="ball"/><geom type="sphere" size=".06" rgba=".8 .2 .2 1"/>
    </body>
    <body name="can" pos="0 .2 .45">
      <freejoint name="can"/><geom type="cylinder" size=".04 .09" rgba=".2 .4 .8 1"/>
    </body>
  </worldbody>
</mujoco>
"""
TEXTURES: dict[str | int, Texture] = {"top": Texture("wood"), "case": Texture("checker")}
TWO_SHADOWS = Lighting(
    lights=(Light(position=(0.5, -0.8, 1.8)), Light(direction=(-1, 0.4, -1), intensity=0.3))
)


@pytest.mark.parametrize("lighting", [Lighting(), TWO_SHADOWS], ids=["one", "two"])
def test_images_equal_those_of_a_camera_that_casts_all_rays(
    make_scene: Callable[[str], tuple[Any, Any]], lighting: Lighting
) -> None:
    mujoco = pytest.importorskip("mujoco")
    model, data = make_scene(ROOM)
    view = View.look_at((1.0, -1.1, 1.2), (0, 0, 0.35))
    camera = RayCamera(model, 48, 40, textures=TEXTURES)
    still = StillCamera(camera)
    rng = np.random.default_rng(0)
    cast = 0
    for step in range(60):
        data.qpos[1:4] += rng.normal(0, 0.04, 3)  # the ball always
        if step % 7 == 0:
            data.qpos[0] = rng.uniform(0, 0.2)  # the drawer sometimes
        if step in (20, 21):
            data.qpos[8:11] = [*rng.uniform(-0.3, 0.3, 2), 0.5]  # the can twice
        if step == 40:
            model.body_pos[model.body("chest").id] += [-0.3, 0.1, 0]  # a new start
        mujoco.mj_forward(model, data)
        wanted = camera.render(data, view, lighting)
        sight = still.look(data, view, lighting)
        cast += len(sight.light[0])
        frame = still.render(data, view, lighting)
        np.testing.assert_array_equal(frame.rgb, wanted.rgb)
        np.testing.assert_array_equal(frame.depth, wanted.depth)
        np.testing.assert_array_equal(frame.geom, wanted.geom)
    assert cast < 0.4 * 60 * 48 * 40  # most rays are not cast


def test_colors_are_read_anew_when_told(make_scene: Callable[[str], tuple[Any, Any]]) -> None:
    model, data = make_scene(ROOM)
    view = View.look_at((1.0, -1.1, 1.2), (0, 0, 0.35))
    camera = RayCamera(model, 32, 32)
    still = StillCamera(camera)
    before = still.render(data, view, Lighting())
    model.geom_rgba[model.geom("top").id] = [0.1, 0.9, 0.1, 1]
    camera.set_model(model)
    still.forget()
    after = still.render(data, view, Lighting())
    assert (after.rgb != before.rgb).any()
    np.testing.assert_array_equal(after.rgb, camera.render(data, view, Lighting()).rgb)


def test_another_view_is_rendered_from_there(
    make_scene: Callable[[str], tuple[Any, Any]],
) -> None:
    model, data = make_scene(ROOM)
    camera = RayCamera(model, 32, 32)
    still = StillCamera(camera)
    for place in ((1.0, -1.1, 1.2), (-1.0, -1.1, 1.2)):
        view = View.look_at(place, (0, 0, 0.35))
        frame = still.render(data, view, Lighting())
        np.testing.assert_array_equal(frame.rgb, camera.render(data, view, Lighting()).rgb)
