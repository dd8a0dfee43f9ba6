"""Bodies: every category of the shipped tasks is there, and all tasks compile and stand still."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from clframe.streams.tabletop import SUITES, TabletopTask, tasks
from clframe.worlds.bddl import BDDLError
from clframe.worlds.bddl.generate import shipped_catalog
from clframe.worlds.tabletop.assets import ARENAS, FIXTURES, OBJECTS, find
from clframe.worlds.tabletop.compiler import TIMESTEP, blueprint, to_mjcf
from clframe.worlds.tabletop.world import RATE, World

SHIPPED = [task for suite in SUITES[:-1] for task in tasks(suite)]


def test_there_is_a_body_for_everything_the_tasks_and_the_generator_name() -> None:
    named = {kind for task in SHIPPED for kind in task.problem.objects.values()}
    fixed = {kind for task in SHIPPED for kind in task.problem.fixtures.values()}
    assert (len(named), len(fixed)) == (26, 12)
    catalog = shipped_catalog()
    assert named | set(catalog.objects) <= set(OBJECTS)
    assert fixed | set(catalog.fixtures) <= set(FIXTURES) | set(ARENAS)
    for kind, category in (catalog.fixtures | catalog.objects).items():
        asset = FIXTURES[kind] if kind in FIXTURES else OBJECTS[kind]
        assert set(category.sites) <= set(asset.places), kind


def test_an_unknown_category_names_the_nearest() -> None:
    with pytest.raises(BDDLError, match=r"white_bowll; did you mean 'white_bowl'\?"):
        find("white_bowll_1", "white_bowll", fixture=False)


def settle(task: TabletopTask) -> tuple[float, float, bool]:
    """How far anything moves in the first second, its speed then, and whether it was done."""
    world = World(task.problem)
    world.reset(np.random.default_rng(7))
    done = world.satisfied()
    before = np.array(world.data.qpos)
    world.advance(round(1 / TIMESTEP))
    world.look()
    assert world.data.warning.number.sum() == 0
    return float(np.abs(world.data.qpos - before).max()), float(np.abs(world.data.qvel).max()), done


def test_all_shipped_tasks_start_at_rest_and_undone() -> None:
    assert len(SHIPPED) == 130
    for task in SHIPPED:
        moved, speed, done = settle(task)
        assert moved < 0.01, task.name
        assert speed < 0.02, task.name
        assert not done, task.name


@pytest.mark.parametrize("kind", sorted(OBJECTS))
def test_an_asset_is_as_high_and_as_wide_as_it_says(kind: str) -> None:
    asset = OBJECTS[kind]
    solid = [geom for geom in asset.geoms if geom.solid]
    low = min(_reach(geom.kind, geom.size, geom.euler, geom.pos)[0] for geom in solid)
    high = max(_reach(geom.kind, geom.size, geom.euler, geom.pos)[1] for geom in solid)
    assert low == pytest.approx(-asset.bottom, abs=0.004)
    assert high == pytest.approx(asset.height - asset.bottom, abs=0.03)


def _reach(
    kind: str, size: tuple[float, ...], euler: tuple[float, ...], pos: tuple[float, ...]
) -> tuple[float, float]:
    """Lowest and highest point of an upright or leaning primitive."""
    lean = max(abs(euler[0]), abs(euler[1]))
    half = size[2] * np.cos(lean) + size[0] * np.sin(lean) if kind == "box" else size[-1]
    return pos[2] - half, pos[2] + half


def test_the_model_is_plain_mjcf_that_mujoco_reads() -> None:
    plan = blueprint(tasks("tabletop_goal")[0].problem)
    model = mujoco.MjModel.from_xml_string(to_mjcf(plan))
    assert {model.camera(number).name for number in range(model.ncam)} == {"agentview", "wrist"}
    assert round(1 / (RATE * TIMESTEP)) == 10
