"""The simulation: start states, actions, and what holds."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from clframe.streams.tabletop import tasks
from clframe.worlds.bddl import Literal
from clframe.worlds.render import View
from clframe.worlds.tabletop.cameras import CAMERAS, Cameras
from clframe.worlds.tabletop.gripper import HAND, HOME, MAX_OPENING
from clframe.worlds.tabletop.poses import quat_of_matrix, rotate_z
from clframe.worlds.tabletop.world import MOVE, World


def make_world(suite: str, number: int, seed: int = 0) -> World:
    world = World(tasks(suite)[number].problem)
    world.reset(np.random.default_rng(seed))
    return world


@pytest.fixture
def world() -> World:
    return make_world("tabletop_goal", 8)


def test_the_same_seed_starts_the_same_state_and_runs_bitwise_alike() -> None:
    states = []
    for _ in range(2):
        world = make_world("tabletop_object", 2, seed=5)
        rng = np.random.default_rng(0)
        for _ in range(20):
            world.step(rng.uniform(-1, 1, 7))
        states.append(np.array(world.data.qpos))
    assert (states[0] == states[1]).all()
    world.reset(np.random.default_rng(5))
    again = np.array(world.data.qpos)
    assert (again == make_world("tabletop_object", 2, seed=5).data.qpos).all()
    assert (again != make_world("tabletop_object", 2, seed=6).data.qpos).any()


def test_things_start_in_their_regions(world: World) -> None:
    for seed in range(5):
        world.reset(np.random.default_rng(seed))
        for literal in world.problem.init:
            if literal[1] in world.plan.objects:
                assert world.holds(literal), literal


def test_open_and_running_parts_start_so() -> None:
    drawer = make_world("tabletop_long", 3)
    assert drawer.holds(("open", "white_cabinet_1_bottom_region"))
    # Nothing is said of it: neither open nor, as in LIBERO, pressed home.
    assert drawer.joint("white_cabinet_1/top_drawer") == pytest.approx(0.0, abs=1e-6)
    assert not drawer.holds(("open", "white_cabinet_1_top_region"))
    assert not drawer.holds(("close", "white_cabinet_1_top_region"))
    assert make_world("tabletop_90", 35).holds(("close", "microwave_1"))
    stove = make_world("tabletop_long", 8)
    assert stove.holds(("turnon", "flat_stove_1"))
    assert not stove.holds(("turnoff", "flat_stove_1"))


def test_an_action_moves_the_hand_by_its_scale(world: World) -> None:
    start = world.position(HAND)
    assert np.abs(start - HOME).max() < 0.005
    for _ in range(4):
        world.step(np.array([0.5, -0.5, 0.0, 0, 0, 0, -1.0]))
    for _ in range(10):
        world.step(np.array([0.0, 0, 0, 0, 0, 0, -1.0]))
    moved = world.position(HAND) - start
    assert moved == pytest.approx([2 * MOVE, -2 * MOVE, 0.0], abs=0.004)


def test_an_action_turns_the_hand(world: World) -> None:
    for _ in range(4):
        world.step(np.array([0, 0, 0, 0, 0, 0.5, -1.0]))
    for _ in range(10):
        world.step(np.array([0.0, 0, 0, 0, 0, 0, -1.0]))
    x = world.rotation(HAND)[:, 0]
    assert float(np.arctan2(x[1], x[0])) == pytest.approx(1.0, abs=0.03)


def test_the_grip_component_opens_and_closes_the_fingers(world: World) -> None:
    for grip, opening in ((1.0, 0.0), (-1.0, MAX_OPENING)):
        for _ in range(15):
            world.step(np.array([0.0, 0, 0, 0, 0, 0, grip]))
        assert world.opening == pytest.approx(opening, abs=0.004)


def test_a_wild_policy_breaks_nothing(world: World) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        world.step(rng.uniform(-5, 5, 7))
    assert np.isfinite(world.data.qpos).all()
    assert world.data.warning.number.sum() == 0


def put(world: World, name: str, x: float, y: float, z: float) -> None:
    world.set_object(name, np.array([x, y, z]), quat_of_matrix(rotate_z(0.0)))
    world.advance(60)
    world.look()


def test_on_an_object_needs_contact_and_the_middle(world: World) -> None:
    goal: Literal = ("on", "akita_black_bowl_1", "plate_1")
    x, y, z = world.position("plate_1")
    assert not world.holds(goal)
    assert not world.satisfied()
    put(world, "akita_black_bowl_1", x, y, z + 0.011)
    assert world.holds(goal)
    assert world.satisfied()
    assert world.holds(("ontop", "akita_black_bowl_1", "plate_1"))
    assert world.holds(("touching", "plate_1", "akita_black_bowl_1"))
    world.set_object("akita_black_bowl_1", np.array([x, y, z + 0.2]), np.array([1.0, 0, 0, 0]))
    world.forward()
    assert not world.holds(goal)


def test_on_a_surface_and_on_a_rectangle(world: World) -> None:
    place = world.place("flat_stove_1_cook_region").pos
    put(world, "akita_black_bowl_1", place[0], place[1], place[2] + 0.002)
    assert world.holds(("on", "akita_black_bowl_1", "flat_stove_1_cook_region"))
    put(world, "plate_1", -0.05, 0.21, 0.002)
    assert world.holds(("on", "plate_1", "main_table_stove_front_region"))
    world.set_object("plate_1", np.array([-0.05, 0.21, 0.05]), np.array([1.0, 0, 0, 0]))
    world.forward()
    assert not world.holds(("on", "plate_1", "main_table_stove_front_region"))


def test_in_a_drawer_moves_with_the_drawer(world: World) -> None:
    region = "wooden_cabinet_1_top_region"
    world.set_joint("wooden_cabinet_1/top_drawer", 0.16)
    world.forward()
    spot = world.place(region).pos
    put(world, "cream_cheese_1", spot[0], spot[1], spot[2])
    assert world.holds(("in", "cream_cheese_1", region))
    assert world.holds(("open", region))
    assert not world.holds(("close", region))
    assert world.holds(("inside", "cream_cheese_1", "wooden_cabinet_1"))
    assert not world.holds(("in", "akita_black_bowl_1", region))


def test_a_part_between_its_thresholds_is_neither_open_nor_closed(world: World) -> None:
    world.set_joint("wooden_cabinet_1/top_drawer", 0.07)
    world.forward()
    assert not world.holds(("open", "wooden_cabinet_1_top_region"))
    assert not world.holds(("close", "wooden_cabinet_1_top_region"))


@pytest.mark.parametrize(
    ("number", "joint", "literal", "value", "other"),
    [
        (33, "microwave_1/door", ("close", "microwave_1"), 0.004, 0.006),
        (33, "microwave_1/door", ("open", "microwave_1"), 1.301, 1.299),
        (39, "flat_stove_1/knob", ("turnoff", "flat_stove_1"), -0.001, 0.0),
        (39, "flat_stove_1/knob", ("turnon", "flat_stove_1"), 0.5, 0.499),
        (0, "{cabinet}/top_drawer", ("close", "{cabinet}_top_region"), -0.001, 0.0),
        (0, "{cabinet}/top_drawer", ("open", "{cabinet}_top_region"), 0.141, 0.139),
    ],
)
def test_parts_have_liberos_thresholds(
    number: int, joint: str, literal: tuple[str, ...], value: float, other: float
) -> None:
    world = make_world("tabletop_90", number)
    cabinet = next((n for n in world.plan.fixtures if "cabinet" in n), "")
    joint = joint.format(cabinet=cabinet)
    literal = tuple(word.format(cabinet=cabinet) for word in literal)
    for now, holds in ((value, True), (other, False)):
        world.set_joint(joint, now)
        world.forward()
        assert world.holds(literal) is holds


@pytest.mark.parametrize(("lower", "holds"), [(0.0045, True), (0.0055, False)])
def test_on_a_surface_begins_half_a_centimeter_below_it(
    world: World, lower: float, holds: bool
) -> None:
    place = world.place("flat_stove_1_cook_region").pos
    bottom = world.plan.objects["akita_black_bowl_1"].bottom
    assert bottom == 0.0
    spot = place - np.array([0.0, 0.0, lower])
    world.set_object("akita_black_bowl_1", spot, np.array([1.0, 0, 0, 0]))
    world.forward()
    assert world.touching("akita_black_bowl_1", "flat_stove_1")
    assert world.holds(("on", "akita_black_bowl_1", "flat_stove_1_cook_region")) is holds


def test_behaviors_kinematic_predicates(world: World) -> None:
    x, y, _ = world.position("plate_1")
    put(world, "cream_cheese_1", x + 0.12, y, 0.015)
    assert world.holds(("nextto", "cream_cheese_1", "plate_1"))
    assert not world.holds(("nextto", "cream_cheese_1", "wine_rack_1"))
    assert not world.holds(("onfloor", "cream_cheese_1"))
    put(world, "cream_cheese_1", 1.5, 0.0, -0.88)
    assert world.holds(("onfloor", "cream_cheese_1"))
    shelf = make_world("tabletop_90", 42)
    x, y, _ = shelf.position("wooden_two_layer_shelf_1")
    put(shelf, "white_bowl_1", x, y, 0.001)
    assert shelf.holds(("under", "white_bowl_1", "wooden_two_layer_shelf_1"))


def test_physics_is_the_same_whether_or_not_it_is_watched() -> None:
    plain, watched = make_world("tabletop_long", 2), make_world("tabletop_long", 2)
    images = Cameras(watched, 32)
    off = images.take("agentview").rgb
    for _ in range(5):
        action = np.array([0.3, 0.1, -0.5, 0, 0, 0.2, 1.0])
        plain.step(action)
        watched.step(action)
        images.take("wrist")
    assert (plain.data.qpos == watched.data.qpos).all()
    watched.set_joint("flat_stove_1/knob", 1.0)
    watched.forward()
    glowing = images.take("agentview").rgb
    assert (glowing[..., 0].astype(int) - off[..., 0] > 60).sum() > 5


@pytest.mark.parametrize("camera", CAMERAS)
def test_no_part_of_a_body_is_left_out_of_images(camera: str) -> None:
    """Rays cast together see what a single ray sees, at the hand, fixtures and near things too."""
    world = make_world("tabletop_goal", 3)
    frame = Cameras(world, 48).take(camera)
    view = View.of_camera(world.model, world.data, camera)
    rows, columns = np.mgrid[0:48:2, 0:48:2].reshape(2, -1)
    half = np.tan(np.radians(view.fovy) / 2)
    seen = np.zeros(1, np.int32)
    for row, column in zip(rows, columns, strict=True):
        local = np.array([(column + 0.5) / 24 - 1, 1 - (row + 0.5) / 24, -1 / half]) * half
        mujoco.mj_ray(
            world.model,
            world.data,
            view.position,
            view.rotation @ local,
            np.array([1, 1, 1, 0, 0, 0], np.uint8),
            1,
            -1,
            seen,
        )
        assert frame.geom[row, column] == seen[0], world.model.geom(int(seen[0])).name
