from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

TABLE = """
<mujoco>
  <asset><material name="steel" rgba=".6 .65 .7 1" specular="0.9" shininess="0.7"/></asset>
  <worldbody>
    <camera name="front" pos="0 -1.2 0.9" xyaxes="1 0 0 0 0.4 0.9165" fovy="50"/>
    <geom name="floor" type="plane" size="4 4 1" rgba=".7 .68 .64 1"/>
    <geom name="top" type="box" size=".6 .4 .02" pos="0 0 .38" rgba=".65 .45 .28 1"/>
    <geom name="ball" type="sphere" size=".06" pos="-.25 -.1 .46" rgba=".85 .25 .2 1"/>
    <geom name="can" type="cylinder" size=".04 .07" pos="0 .1 .47" material="steel"/>
    <geom name="carton" type="box" size=".06 .04 .1" pos=".25 .05 .5" euler="0 0 25"
      rgba=".9 .75 .25 1"/>
    <geom name="egg" type="ellipsoid" size=".05 .04 .035" pos=".05 -.2 .435" rgba=".3 .65 .35 1"/>
    <geom name="pen" type="capsule" size=".012 .09" pos=".3 -.2 .412" euler="0 90 30"
      rgba=".5 .3 .6 1"/>
    <geom name="ghost" type="sphere" size=".2" pos="0 -.5 .6" rgba="1 0 0 0"/>
    <geom name="shape" type="sphere" size=".2" pos="0 -.5 .6" group="3"/>
  </worldbody>
</mujoco>
"""

Scene = tuple[Any, Any]


@pytest.fixture
def make_scene() -> Callable[[str], Scene]:
    """A compiled model and its data from the XML of geoms, or of a whole model."""
    mujoco = pytest.importorskip("mujoco")

    def make(xml: str) -> Scene:
        if "<mujoco>" not in xml:
            xml = f"<mujoco><worldbody>{xml}</worldbody></mujoco>"
        model = mujoco.MjModel.from_xml_string(xml)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        return model, data

    return make


@pytest.fixture
def table(make_scene: Callable[[str], Scene]) -> Scene:
    """A table with a few things on it."""
    return make_scene(TABLE)


@pytest.fixture
def table_xml() -> str:
    """The model of `table` as text."""
    return TABLE
