"""Rays against OpenGL, in a process of its own, since a broken GL library can end a process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

COMPARE = """
import json, sys
import mujoco
import numpy as np
from clframe.worlds.render import GLCamera, RayCamera, View

model = mujoco.MjModel.from_xml_string(sys.argv[1])
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
flat = [number for number in range(model.ngeom) if model.geom_type[number] in (0, 6)]
found = []
for size in (64, 128):
    gl = GLCamera(model, size, size)
    for position in ((0.1, -1.2, 0.9), (0.9, -0.7, 1.2), (-0.6, 0.9, 0.8)):
        view = View.look_at(position, (0, 0, 0.4))
        raster, rays = gl.render(data, view), RayCamera(model, size, size).render(data, view)
        same = raster.geom == rays.geom
        surface = same & rays.mask(flat)
        error = np.abs(raster.depth - rays.depth)
        found.append({
            "masks": same.mean(),
            "flat": float(np.percentile(error[surface], 99.9)),
            "any": float(error[same].max()),
            "brightness": [float(raster.rgb.mean()), float(rays.rgb.mean())],
            "geoms": len(np.unique(rays.geom)),
        })
    gl.close()
print(json.dumps(found))
"""

# MuJoCo itself, without a line of ours: only what fails here is the machine's.
PROBE = """
import mujoco
renderer = mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8)
renderer.render()
print("drawn", flush=True)
"""

REFUSE = """
import mujoco
from clframe.worlds.render import GLCamera, GLError
model = mujoco.MjModel.from_xml_string("<mujoco/>")
try:
    GLCamera(model)
except GLError as error:
    print("refused:", error)
"""


@functools.cache
def run(backend: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "MUJOCO_GL": backend},
        capture_output=True,
        text=True,
        timeout=300,
    )


def compare(xml: str) -> list[dict[str, Any]]:
    pytest.importorskip("mujoco")
    for backend in ("egl", "osmesa"):
        if run(backend, PROBE).stdout.startswith("drawn"):
            result = run(backend, COMPARE, xml)
            assert result.returncode == 0, result.stderr
            return list(json.loads(result.stdout.splitlines()[-1]))
    pytest.skip("neither EGL nor OSMesa can draw here")


def test_depth_and_masks_agree_with_opengl(table_xml: str) -> None:
    for pair in compare(table_xml):
        assert pair["geoms"] >= 6
        assert pair["masks"] >= 0.999
        assert pair["flat"] <= 0.001
        assert pair["any"] <= 0.02  # OpenGL draws round things with flat facets


def test_images_of_both_are_about_equally_bright(table_xml: str) -> None:
    for pair in compare(table_xml):
        raster, rays = pair["brightness"]
        assert 0.7 < raster / rays < 1.4


def test_a_machine_without_opengl_says_what_to_do() -> None:
    pytest.importorskip("mujoco")
    # No display can be opened under this name.
    result = subprocess.run(
        [sys.executable, "-c", REFUSE],
        env={**os.environ, "MUJOCO_GL": "glfw", "DISPLAY": ":987", "WAYLAND_DISPLAY": ""},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        pytest.skip(f"the display library ended the process: {result.stderr[-200:]}")
    assert "renderer=gl needs OpenGL" in result.stdout
    assert "renderer=ray" in result.stdout
