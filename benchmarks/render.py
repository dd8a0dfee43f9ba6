"""How many RGB-D images a second one core renders by casting rays.

    python benchmarks/render.py [--seconds 2] [--json FILE] [--image FILE]

The scene is a table with an arm and ten things on it: 26 geoms, some textured, one light that casts
shadows. "fixed" moves the camera around one scene, as a stream does within a segment; "new"
also writes, compiles and places a scene of new colours and places for each image. Times are CPU
seconds of this process (one thread), medians over five blocks, so that a busy machine disturbs
little.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from clframe.utils.files import write_json
from clframe.worlds.render import Frame, Light, Lighting, RayCamera, Texture, View

ONE_LIGHT = Lighting(lights=(Light(position=(-1.2, -1.6, 3.0), intensity=0.85),))
NO_SHADOW = Lighting(lights=(Light(position=(-1.2, -1.6, 3.0), intensity=0.85, shadow=False),))
TEXTURES: dict[str | int, Texture] = {
    "floor": Texture("tiles", period=0.8),
    "top": Texture("wood", period=0.5),
    "carton": Texture("stripes", period=0.25),
}
BLOCKS = 5
BOUNDS = {"fixed": 200, "new": 140}
"""Images a second asked for at 64x64 with shadows."""


def table_scene(seed: int) -> str:
    """The XML of a table scene whose things have places and colours of their own."""
    rng = np.random.default_rng(seed)

    def colour() -> str:
        return " ".join(f"{value:.2f}" for value in rng.uniform(0.2, 0.9, 3)) + " 1"

    def thing(kind: str, size: str, cell: int, height: float, name: str = "") -> str:
        # A cell of a grid each, so that nothing overlaps.
        x, y = (cell % 4) * 0.25 - 0.375, (cell // 4) * 0.2 - 0.25
        x, y = x + rng.uniform(-0.04, 0.04), y + rng.uniform(-0.03, 0.03)
        label = f'name="{name}" ' if name else ""
        return (
            f'<geom {label}type="{kind}" size="{size}" pos="{x:.3f} {y:.3f} {0.42 + height:.3f}" '
            f'euler="0 0 {rng.uniform(0, 180):.0f}" rgba="{colour()}"/>'
        )

    legs = [
        f'<geom type="box" size=".03 .03 .19" pos="{x} {y} .19" rgba=".4 .28 .18 1"/>'
        for x in (-0.55, 0.55)
        for y in (-0.35, 0.35)
    ]
    things = [
        thing("sphere", ".06", 0, 0.06),
        thing("cylinder", ".04 .07", 1, 0.07),
        thing("box", ".06 .04 .1", 2, 0.1, "carton"),
        thing("ellipsoid", ".05 .04 .035", 3, 0.035),
        thing("cylinder", ".045 .05", 4, 0.05),
        thing("box", ".09 .06 .015", 5, 0.015),
        thing("box", ".03 .03 .03", 6, 0.03),
        thing("cylinder", ".07 .008", 7, 0.008),
        thing("box", ".025 .025 .025", 8, 0.025),
        thing("sphere", ".035", 11, 0.035),
    ]
    arm = """
    <geom type="cylinder" size=".09 .04" pos="0 .28 .46" rgba=".35 .36 .4 1"/>
    <geom type="capsule" size=".04" fromto="0 .28 .5 -.12 .28 .75" rgba=".92 .6 .25 1"/>
    <geom type="capsule" size=".035" fromto="-.12 .28 .75 .15 .2 .9" rgba=".92 .6 .25 1"/>
    <geom type="capsule" size=".03" fromto=".15 .2 .9 .3 .12 .75" rgba=".92 .6 .25 1"/>
    <geom type="sphere" size=".05" pos="-.12 .28 .75" rgba=".35 .36 .4 1"/>
    <geom type="sphere" size=".045" pos=".15 .2 .9" rgba=".35 .36 .4 1"/>
    <geom type="box" size=".05 .03 .02" pos=".3 .12 .73" rgba=".3 .3 .33 1"/>
    <geom type="box" size=".008 .012 .03" pos=".27 .12 .69" rgba=".3 .3 .33 1"/>
    <geom type="box" size=".008 .012 .03" pos=".33 .12 .69" rgba=".3 .3 .33 1"/>
    """
    return f"""<mujoco><worldbody>
    <geom name="floor" type="plane" size="0 0 1" rgba=".72 .7 .66 1"/>
    <geom name="wall" type="box" size="3 .05 1.5" pos="0 1.5 1.5" rgba=".84 .82 .76 1"/>
    <geom name="top" type="box" size=".6 .4 .02" pos="0 0 .4" rgba=".7 .52 .34 1"/>
    {"".join(legs)}{"".join(things)}{arm}</worldbody></mujoco>"""


def compiled(seed: int) -> tuple[Any, Any]:
    """A scene ready to be rendered."""
    model = mujoco.MjModel.from_xml_string(table_scene(seed))
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return model, data


def view(step: int) -> View:
    """A camera that goes back and forth around the table."""
    angle = 0.5 * math.sin(0.37 * step)
    return View.look_at((1.25 * math.sin(angle), -1.25 * math.cos(angle), 1.0), (0, 0, 0.5))


def fixed(size: int, samples: int, lighting: Lighting | None) -> Callable[[int], Frame]:
    """Images of one scene; without lighting, depth and geoms only."""
    model, data = compiled(0)
    camera = RayCamera(model, size, size, samples, TEXTURES)
    rgb = lighting is not None
    return lambda step: camera.render(data, view(step), lighting, rgb=rgb)


def new(size: int, samples: int, lighting: Lighting | None) -> Callable[[int], Frame]:
    """A scene for each image."""

    def render(step: int) -> Frame:
        model, data = compiled(step)
        camera = RayCamera(model, size, size, samples, TEXTURES)
        return camera.render(data, view(step), lighting, rgb=lighting is not None)

    return render


def seconds_per_image(render: Callable[[int], Frame], seconds: float) -> float:
    """The median over blocks of the CPU time of one image."""
    render(0)
    began = time.process_time()
    for step in range(5):
        render(step)
    count = max(1, round(seconds / BLOCKS * 5 / (time.process_time() - began)))
    blocks = []
    for block in range(BLOCKS):
        began = time.process_time()
        for step in range(count):
            render(block * count + step)
        blocks.append((time.process_time() - began) / count)
    return statistics.median(blocks)


CASES: dict[str, tuple[Callable[..., Callable[[int], Frame]], int, int, Lighting | None]] = {
    "64x64, depth and geoms": (fixed, 64, 1, None),
    "64x64, no shadow": (fixed, 64, 1, NO_SHADOW),
    "64x64, shadow": (fixed, 64, 1, ONE_LIGHT),
    "64x64, shadow, 2x2 rays at edges": (fixed, 64, 2, ONE_LIGHT),
    "64x64, shadow, new scene each": (new, 64, 1, ONE_LIGHT),
    "64x64, shadow, 2x2 rays, new scene": (new, 64, 2, ONE_LIGHT),
    "128x128, no shadow": (fixed, 128, 1, NO_SHADOW),
    "128x128, shadow": (fixed, 128, 1, ONE_LIGHT),
    "128x128, shadow, new scene each": (new, 128, 1, ONE_LIGHT),
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds for each case")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--image", type=Path, help="also save the scene, enlarged, as PNG here")
    arguments = parser.parse_args()
    model, _ = compiled(0)
    report: dict[str, Any] = {"mujoco": mujoco.__version__, "geoms": model.ngeom, "cases": {}}
    print(f"MuJoCo {mujoco.__version__}, {model.ngeom} geoms, one core\n")
    print("| image | ms | a second |\n| --- | --- | --- |")
    for name, (make, *settings) in CASES.items():
        cost = seconds_per_image(make(*settings), arguments.seconds)
        report["cases"][name] = {"ms": 1000 * cost, "per_second": 1 / cost}
        print(f"| {name} | {1000 * cost:.2f} | {1 / cost:.0f} |", flush=True)
    for kind, name in (("fixed", "64x64, shadow"), ("new", "64x64, shadow, new scene each")):
        rate = report["cases"][name]["per_second"]
        word = "reached" if rate >= BOUNDS[kind] else "MISSED"
        print(f"\n{word}: {rate:.0f} a second with a {kind} scene, {BOUNDS[kind]} asked for")
    if arguments.json:
        write_json(arguments.json, report)
    if arguments.image:
        from PIL import Image

        shown = []
        for size, samples in ((64, 1), (64, 2), (256, 2)):
            rgb = fixed(size, samples, Lighting())(3).rgb
            shown.append(rgb.repeat(512 // size, axis=0).repeat(512 // size, axis=1))
        Image.fromarray(np.concatenate(shown, axis=1)).save(arguments.image)


if __name__ == "__main__":
    main()
