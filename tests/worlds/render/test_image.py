"""Light, shadow, color and texture, and that the same input gives the same bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clframe.errors import ClframeError
from clframe.worlds.render import (
    PATTERNS,
    GLCamera,
    Light,
    Lighting,
    RayCamera,
    Texture,
    View,
    camera,
)
from clframe.worlds.render.color import decode, encode, encode_exactly

MakeScene = Callable[[str], tuple[Any, Any]]
BLACK = (0.0, 0.0, 0.0)
DOWN = View.look_at((0, 0, 3), (0, 0, 0), fovy=40)
# Without highlights brightness follows Lambert's law alone.
MATT = (
    '<mujoco><asset><material name="matt" rgba=".6 .6 .6 1" specular="0"/></asset>'
    "<worldbody>{}</worldbody></mujoco>"
)
GROUND = '<geom name="ground" type="plane" size="0 0 1" material="matt"/>'
BALL = '<geom name="ball" type="sphere" size=".25" pos="0 0 1" material="matt"/>'


def lit_by(*lights: Light, **settings: Any) -> Lighting:
    return Lighting(lights=lights, **{"ambient": BLACK, **settings})


def sun(direction: tuple[float, float, float] = (0, 0, -1), **settings: Any) -> Light:
    return Light(direction=direction, **settings)


def image(
    scene: tuple[Any, Any],
    lighting: Lighting | None = None,
    view: View = DOWN,
    size: int = 64,
    **settings: Any,
) -> NDArray[np.uint8]:
    model, data = scene
    return RayCamera(model, size, size, **settings).render(data, view, lighting).rgb


def test_full_light_shows_the_color_as_it_is_written(make_scene: MakeScene) -> None:
    rgb = image(make_scene(MATT.format(GROUND)), lit_by(sun()))
    assert rgb.shape == (64, 64, 3)
    assert rgb.dtype == np.uint8
    assert abs(rgb.astype(int) - 153).max() <= 1  # 0.6 * 255


def test_lambert_law(make_scene: MakeScene) -> None:
    scene = make_scene(MATT.format(GROUND))
    straight = decode(image(scene, lit_by(sun()))).mean()
    slanted = decode(image(scene, lit_by(sun((0, 1, -1))))).mean()
    assert slanted / straight == pytest.approx(np.cos(np.pi / 4), rel=0.02)
    assert image(scene, lit_by(sun((0, 0, 1)))).max() == 0  # from below


@pytest.mark.parametrize("factor", [0.2, 0.5, 1.2])
def test_intensity_exposure_and_ambient_scale_luminance(
    make_scene: MakeScene, factor: float
) -> None:
    scene = make_scene(MATT.format(GROUND + BALL))
    whole = decode(image(scene, lit_by(sun(), ambient=(0.2, 0.2, 0.2)))).mean()
    exposed = lit_by(sun(), ambient=(0.2, 0.2, 0.2), exposure=factor)
    brighter = lit_by(sun(intensity=factor), ambient=(0.2 * factor,) * 3)
    for lighting in (exposed, brighter):
        assert decode(image(scene, lighting)).mean() / whole == pytest.approx(factor, rel=0.03)


def test_a_light_has_a_color(make_scene: MakeScene) -> None:
    rgb = image(make_scene(MATT.format(GROUND)), lit_by(sun(color=(1.0, 0.5, 0.0))))
    red, green, blue = decode(rgb).reshape(-1, 3).mean(axis=0)
    assert green / red == pytest.approx(0.5, rel=0.03)
    assert blue == 0


def test_a_shadow_falls_where_the_light_is_blocked(make_scene: MakeScene) -> None:
    model, data = make_scene(MATT.format(GROUND + BALL))
    # Light at 45 degrees: the ball at height 1 shades the ground one meter to the right.
    slanted = lit_by(sun((1, 0, -1)))
    frame = RayCamera(model, 128, 128).render(data, DOWN, slanted)
    ground = frame.geom == 0
    scale = 3 * 2 * np.tan(np.radians(20)) / 128
    x = ((np.arange(128) + 0.5) - 64) * scale
    # The shadow of a ball of radius r is an ellipse of half axes r * sqrt(2) and r.
    inside = ((x[None, :] - 1) / np.sqrt(2)) ** 2 + x[:, None] ** 2 - 0.25**2
    dark = (frame.rgb == 0).all(axis=2)
    sure = ground & (abs(inside) > 0.02)
    np.testing.assert_array_equal(dark[sure], (inside < 0)[sure])
    assert (sure & (inside < 0)).sum() > 100


def test_a_lamp_throws_a_larger_shadow_than_the_sun(make_scene: MakeScene) -> None:
    model, data = make_scene(MATT.format(GROUND + BALL))
    view = View.look_at((2, 0, 2.5), (0, 0, 0.2), fovy=60)

    def shaded(light: Light) -> int:
        frame = RayCamera(model, 64, 64).render(data, view, lit_by(light))
        return int(((frame.rgb == 0).all(axis=2) & (frame.geom == 0)).sum())

    assert shaded(Light(position=(0, 0, 2))) > 2 * shaded(sun()) > 0
    assert shaded(sun(shadow=False)) == 0


def test_nothing_shades_itself(table: tuple[Any, Any]) -> None:
    model, data = table
    view = View.of_camera(model, data, "front")
    lone = lit_by(sun((0.3, 0.5, -1)))
    top = RayCamera(model, 96, 96).render(data, view, lone)
    flat = top.rgb[(top.geom == model.geom("top").id)]
    # The table top is either fully lit or in a cast shadow; speckle would be something between.
    values, counts = np.unique(flat[:, 0], return_counts=True)
    assert counts.max() / counts.sum() > 0.5
    assert len(values) < 40


def test_a_shiny_thing_has_a_highlight(make_scene: MakeScene) -> None:
    shiny = MATT.replace('specular="0"', 'specular="1" shininess="0.5"')
    light = lit_by(sun((0, 0.3, -1)))
    matt = image(make_scene(MATT.format(BALL)), light)
    gloss = image(make_scene(shiny.format(BALL)), light)
    brighter = gloss.astype(int) - matt
    assert brighter.min() >= 0
    assert brighter.max() > 30
    assert (brighter > 0).mean() < 0.1


def test_colors_come_from_the_geom_then_from_its_material(make_scene: MakeScene) -> None:
    xml = MATT.format(
        '<geom type="plane" size="0 0 1" material="matt" rgba="1 0 0 1"/>'
        '<geom type="box" size=".3 .3 .1" material="matt"/>'
    )
    model, data = make_scene(xml)
    frame = RayCamera(model).render(data, DOWN, lit_by(sun()))
    assert frame.rgb[frame.geom == 0].mean(axis=0).tolist() == [255 - 5, 0, 0]  # highlights bend
    assert abs(frame.rgb[frame.geom == 1].astype(int) - 153).max() <= 1


def test_the_sky_runs_from_horizon_to_zenith(make_scene: MakeScene) -> None:
    scene = make_scene(BALL.replace('material="matt"', ""))
    sky = Lighting(horizon=(0.5, 0.5, 0.5), zenith=(0.1, 0.1, 0.3))
    view = View.look_at((0, -5, 1), (0, -9, 1.8), fovy=60)
    rgb = image(scene, sky, view).astype(int)
    rows = rgb.mean(axis=(1, 2))
    assert (np.diff(rows) >= 0).all()
    assert rows[-1] > rows[0] + 10
    assert abs(rgb[-1] - 127).max() <= 2


@pytest.mark.parametrize("pattern", sorted(set(PATTERNS) - {"plain"}))
def test_textures_vary_between_their_two_colors(make_scene: MakeScene, pattern: str) -> None:
    texture = Texture(pattern, dark=(0.2, 0.1, 0.4), light=(0.6, 0.7, 0.2), period=0.6)
    rgb = image(make_scene(MATT.format(GROUND)), lit_by(sun()), textures={"ground": texture})
    flat = rgb.reshape(-1, 3)
    assert flat.std(axis=0).min() > 3
    assert (flat >= [50, 25, 50]).all()
    assert (flat <= [154, 180, 103]).all()


def test_a_texture_moves_with_its_geom(make_scene: MakeScene) -> None:
    texture = {"ground": Texture("checker", period=0.5)}
    cube = '<geom name="ground" type="box" size=".5 .5 .1" pos="{} 0 0" material="matt" {}/>'
    here = make_scene(MATT.format(cube.format(0, "")))
    shifted = make_scene(MATT.format(cube.format(0.4, "")))
    aside = View.look_at((0.4, 0, 3), (0.4, 0, 0), fovy=40)
    first = image(here, lit_by(sun()), textures=texture)
    moved = image(shifted, lit_by(sun()), aside, textures=texture)
    assert (first == moved).all(axis=2).mean() > 0.99  # edges of squares may round differently
    turned = make_scene(MATT.format(cube.format(0, 'euler="0 0 45"')))
    assert (image(turned, lit_by(sun()), textures=texture) != first).any()


def test_a_checker_has_squares_of_half_its_period(make_scene: MakeScene) -> None:
    scene = make_scene(MATT.format(GROUND))
    texture = {0: Texture("checker", dark=BLACK, light=(0.5, 0.5, 0.5), period=1.0)}
    rgb = image(scene, lit_by(sun()), textures=texture)
    x = ((np.arange(64) + 0.5) - 32) * (3 * 2 * np.tan(np.radians(20)) / 64)
    across = (np.floor(x / 0.5) % 2).astype(bool)
    np.testing.assert_array_equal(rgb[:, :, 0] > 0, ~(across[None, :] ^ ~across[::-1][:, None]))


def test_a_fine_texture_far_away_becomes_its_mean(make_scene: MakeScene) -> None:
    scene = make_scene(MATT.format(GROUND))
    texture = {0: Texture("checker", dark=BLACK, light=(1, 1, 1), period=0.004)}
    light = decode(image(scene, lit_by(sun(intensity=0.7)), textures=texture))
    assert light.std() < 0.01
    assert light.mean() == pytest.approx(0.35, rel=0.02)


def test_the_texture_of_a_mesh_is_in_the_frame_it_was_drawn_in(make_scene: MakeScene) -> None:
    mesh = (
        '<mujoco><asset><mesh name="slab" vertex="-.5 -.5 0 .5 -.5 0 .5 .5 0 -.5 .5 0 '
        '-.5 -.5 .1 .5 -.5 .1 .5 .5 .1 -.5 .5 .4"/></asset><worldbody>{}</worldbody></mujoco>'
    )
    view = View.look_at((0, 0, -3), (0, 0, 0), fovy=25, up=(0, 1, 0))
    texture = {"it": Texture("checker", period=0.5)}
    light = lit_by(sun((0, 0, 1)))
    drawn = make_scene(mesh.format('<geom name="it" type="mesh" mesh="slab"/>'))
    box = make_scene('<geom name="it" type="box" size=".5 .5 .1" pos="0 0 .1"/>')
    same = image(drawn, light, view, textures=texture) == image(box, light, view, textures=texture)
    assert same.all(axis=2).mean() > 0.97


def test_finer_rays_smooth_edges_and_leave_depth_and_geoms_alone(table: tuple[Any, Any]) -> None:
    model, data = table
    view = View.of_camera(model, data, "front")
    plain, fine, best = (
        RayCamera(model, 48, 48, samples=n, contrast=c).render(data, view)
        for n, c in ((1, 0), (2, 20), (8, 0))
    )
    np.testing.assert_array_equal(plain.depth, fine.depth)
    np.testing.assert_array_equal(plain.geom, fine.geom)
    truth = best.rgb.astype(float)
    error = [np.square(frame.rgb - truth).mean() for frame in (plain, fine)]
    assert error[1] < 0.5 * error[0]
    assert (plain.rgb == fine.rgb).all(axis=2).mean() > 0.4  # flat areas cost nothing more


PRINT_DIGESTS = """
import hashlib, sys, mujoco
from clframe.worlds.render import RayCamera, Texture, View
model = mujoco.MjModel.from_xml_string(sys.argv[1])
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
for seed in (0, 1, 0):
    textures = {"ground": Texture("marble", seed=seed), 1: Texture("wood", period=0.2)}
    eye = RayCamera(model, 48, 48, samples=2, textures=textures)
    frame = eye.render(data, View.look_at((0, 0, 3), (0, 0, 0)))
    parts = (frame.rgb, frame.depth, frame.geom)
    print(*(hashlib.sha256(part.tobytes()).hexdigest() for part in parts))
"""


def test_the_same_input_gives_the_same_bytes_in_any_process() -> None:
    pytest.importorskip("mujoco")
    command = [sys.executable, "-c", PRINT_DIGESTS, MATT.format(GROUND + BALL)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0].splitlines() for process in both)
    assert first == second
    assert first[0] == first[2] != first[1]


def test_another_model_can_be_given_to_a_camera(make_scene: MakeScene) -> None:
    first, second = make_scene(MATT.format(GROUND)), make_scene(MATT.format(GROUND + BALL))
    eye = RayCamera(first[0])
    eye.render(first[1], DOWN)
    eye.set_model(second[0], {"ball": Texture("stripes")})
    again = RayCamera(second[0], textures={"ball": Texture("stripes")}).render(second[1], DOWN)
    np.testing.assert_array_equal(eye.render(second[1], DOWN).rgb, again.rgb)


def test_stored_values_survive_decoding_and_encoding() -> None:
    values = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(encode_exactly(decode(values)), values)


def test_what_cannot_be_rendered_is_named(table: tuple[Any, Any]) -> None:
    model, _ = table
    with pytest.raises(ClframeError, match="no geom 'bal'; did you mean 'ball'"):
        RayCamera(model, textures={"bal": Texture("wood")})
    with pytest.raises(ClframeError, match="no geom 99"):
        RayCamera(model, textures={99: Texture("wood")})
    with pytest.raises(ClframeError, match="no texture pattern 'wod'; did you mean 'wood'"):
        Texture("wod")
    with pytest.raises(ClframeError, match="period must be above 0"):
        Texture("wood", period=0)
    with pytest.raises(ClframeError, match="either a position or a direction"):
        Light()
    with pytest.raises(ClframeError, match="intensity must be 0 or more"):
        sun(intensity=-1)
    with pytest.raises(ClframeError, match="direction cannot be zero"):
        sun((0, 0, 0))
    with pytest.raises(ClframeError, match="exposure must be 0 or more"):
        Lighting(exposure=-0.1)
    with pytest.raises(ClframeError, match="no renderer 'raster'; take 'ray' or 'gl'"):
        camera("raster", model)
    assert isinstance(camera("ray", model, 8, 8), RayCamera)
    assert not isinstance(camera("ray", model, 8, 8), GLCamera)


def test_more_light_is_never_stored_darker() -> None:
    stored = encode(np.linspace(0, 3, 2000, dtype=np.float32)).astype(int)
    assert (np.diff(stored) >= 0).all()
    assert stored[0] == 0
    assert stored[-1] == 255
