"""The arm: kinematics, torques, contact, determinism, and the expert with it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError
from clframe.robot import collect
from clframe.robot.replay import replay
from clframe.streams.tabletop import task, tasks
from clframe.streams.tabletop.imitation import robot_task
from clframe.worlds.tabletop.arm import BASE, JOINTS, TORQUES
from clframe.worlds.tabletop.control import Arm
from clframe.worlds.tabletop.env import make
from clframe.worlds.tabletop.expert import Expert
from clframe.worlds.tabletop.gripper import HAND, HOME, pointing_down
from clframe.worlds.tabletop.kinematics import HIGHEST, LOWEST, NEAR_HOME, forward, inverse
from clframe.worlds.tabletop.observation import ARM_PARTS, suite_layout
from clframe.worlds.tabletop.poses import rotvec_of_matrix
from clframe.worlds.tabletop.world import World


def make_world(suite: str, number: int, seed: int = 0) -> World:
    world = World(tasks(suite)[number].problem, robot="arm")
    world.reset(np.random.default_rng(seed))
    return world


def arm_of(world: World) -> Arm:
    assert isinstance(world.driver, Arm)
    return world.driver


# Franka's published table: a, d, alpha of each joint, then the flange, in Craig's convention.
TABLE = [
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -np.pi / 2),
    (0.0, 0.316, np.pi / 2),
    (0.0825, 0.0, np.pi / 2),
    (-0.0825, 0.384, -np.pi / 2),
    (0.0, 0.0, np.pi / 2),
    (0.088, 0.0, np.pi / 2),
    (0.0, 0.107, 0.0),
]


def by_matrices(joints: NDArray[np.float64]) -> NDArray[np.float64]:
    """The hand's pose as a product of homogeneous matrices, each written out in full."""
    pose = np.eye(4)
    for (a, d, alpha), theta in zip(TABLE, [*joints, -np.pi / 4], strict=True):
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
        pose = pose @ np.array(
            [
                [ct, -st, 0, a],
                [st * ca, ct * ca, -sa, -d * sa],
                [st * sa, ct * sa, ca, d * ca],
                [0, 0, 0, 1],
            ]
        )
    tool = np.eye(4)
    tool[2, 3] = 0.1034
    return np.asarray(pose @ tool)


def drawn_joints(rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.uniform(LOWEST + 0.05, HIGHEST - 0.05)


def test_model_and_formula_agree_with_the_published_table() -> None:
    world, rng = make_world("tabletop_goal", 8), np.random.default_rng(0)
    at = int(world.model.joint(JOINTS[0]).qposadr[0])
    base = np.array(world.model.body(BASE).pos)
    for _ in range(20):
        joints = drawn_joints(rng)
        world.data.qpos[at : at + 7] = joints
        mujoco.mj_kinematics(world.model, world.data)
        wanted = by_matrices(joints)
        position, rotation = forward(joints)
        assert position == pytest.approx(wanted[:3, 3], abs=1e-12)
        assert rotation == pytest.approx(wanted[:3, :3], abs=1e-12)
        assert world.position(HAND) - base == pytest.approx(position, abs=1e-8)
        assert world.rotation(HAND) == pytest.approx(rotation, abs=1e-8)


def test_the_inverse_finds_every_pose_and_only_true_solutions() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        joints = drawn_joints(rng)
        pose = by_matrices(joints)
        found = inverse(pose[:3, 3], pose[:3, :3], joints[6:])
        assert np.abs(found - joints).max(axis=1).min() < 1e-6
        for row in found:
            assert by_matrices(row) == pytest.approx(pose, abs=1e-8)
    assert not len(inverse(np.array([1.2, 0.0, 0.3]), pointing_down()))


def test_it_starts_where_the_floating_hand_does_near_liberos_joints() -> None:
    world = make_world("tabletop_goal", 8)
    assert world.position(HAND) == pytest.approx(HOME, abs=2e-3)
    assert world.rotation(HAND) == pytest.approx(pointing_down(), abs=5e-3)
    assert np.abs(world.driver.joints - NEAR_HOME).max() < 0.12


def test_actions_mean_the_same_as_for_the_floating_hand() -> None:
    moved = {}
    for robot in ("hand", "arm"):
        world = World(tasks("tabletop_goal")[8].problem, robot=robot)
        world.reset(np.random.default_rng(0))
        for _ in range(5):
            world.step(np.array([0.4, -0.3, 0.1, 0.0, 0.2, 0.3, -1.0]))
        for _ in range(15):
            world.step(np.array([0, 0, 0, 0, 0, 0, -1.0]))
        moved[robot] = world.position(HAND), world.rotation(HAND)
    assert moved["arm"][0] == pytest.approx(moved["hand"][0], abs=2e-3)
    off = rotvec_of_matrix(moved["arm"][1] @ moved["hand"][1].T)
    assert np.linalg.norm(off) < 0.02


def test_motors_joints_and_numbers_stay_within_their_limits() -> None:
    for number, law in ((3, "drawn"), (9, "held")):
        world, rng = make_world("tabletop_long", number), np.random.default_rng(number)
        dofs, places = arm_of(world)._dofs, arm_of(world)._qpos
        action = rng.uniform(-1, 1, 7)
        for step in range(120):
            if law == "drawn" or step % 15 == 0:
                action = rng.choice([-1.0, 1.0], 7) if law == "held" else rng.uniform(-1, 1, 7)
            world.step(action)
            assert np.isfinite(world.data.qpos).all()
            assert np.isfinite(world.data.qvel).all()
            torques = np.abs(world.data.qfrc_actuator[dofs])
            assert (torques <= np.array(TORQUES) + 1e-9).all()
            joints = world.data.qpos[places]
            assert (joints > LOWEST - 0.06).all()
            assert (joints < HIGHEST + 0.06).all()


def pressing(world: World, action: list[float], steps: int) -> float:
    """The force in newtons with which the robot presses on the world after some steps."""
    for _ in range(steps):
        world.step(np.array(action))
    world.forward()
    total, one = np.zeros(3), np.zeros(6)
    for number in range(world.data.ncon):
        contact = world.data.contact[number]
        mine = [world.owner_of(int(geom)) in (HAND, BASE) for geom in contact.geom]
        if mine[0] != mine[1]:
            mujoco.mj_contactForce(world.model, world.data, number, one)
            total += (1 if mine[1] else -1) * contact.frame.reshape(3, 3).T @ one[:3]
    return float(np.linalg.norm(total))


@pytest.mark.parametrize(
    ("suite", "number", "push"),
    [
        ("tabletop_90", 60, [0.0, 0.0, -1.0]),  # onto the table
        ("tabletop_object", 0, [0.5, 0.9, -1.0]),  # onto the floor, further away
        ("tabletop_90", 35, [0.35, -1.0, -0.55]),  # against the microwave
    ],
)
def test_a_blocked_hand_presses_as_a_real_arm(suite: str, number: int, push: list[float]) -> None:
    assert 30 < pressing(make_world(suite, number), [*push, 0, 0, 0, 1], 60) < 80


def test_links_are_stopped_by_things() -> None:
    """The hand is pointed to the right and lowered; its wrist meets a can, which holds it up."""
    world = make_world("tabletop_object", 0)
    for step in range(60):
        world.step(np.array([0, 0, -0.4 if step > 15 else 0, 0.4 if step < 8 else 0, 0, 0, -1]))
    assert world.touching(BASE, "alphabet_soup_1")
    assert world.position(HAND)[2] > 0.08
    assert world.data.contact.dist.min() > -0.01


def test_the_same_seed_runs_bitwise_alike_and_snapshots_continue() -> None:
    world, other = make_world("tabletop_object", 2, 5), make_world("tabletop_object", 2, 5)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (30, 7))
    for action in actions[:15]:
        world.step(action)
        other.step(action)
    assert (world.data.qpos == other.data.qpos).all()
    kept = world.state()
    for action in actions[15:]:
        world.step(action)
    ended = np.array(world.data.qpos)
    other.reset(np.random.default_rng(9))  # another start, other places of fixtures
    other.restore(kept)
    for action in actions[15:]:
        other.step(action)
    assert (other.data.qpos == ended).all()
    with pytest.raises(DataError, match="A state of this task has"):
        other.restore(kept[:-1])


def test_the_environment_with_an_arm() -> None:
    env = make("tabletop_long", "6", cameras=("wrist",), size=16, robot="arm")
    check_env(env, skip_render_check=True)
    seen, _ = env.reset(seed=1)
    sizes = {"joint_states": 7, "gripper_states": 2, "ee_pos": 3, "ee_ori": 3}
    assert {name: len(seen[name]) for name in sizes} == sizes
    for name, numbers in ARM_PARTS.items():
        assert (seen["state"][list(numbers)] == seen[name]).all()
    assert seen["ee_pos"] == pytest.approx(HOME, abs=2e-3)
    assert np.linalg.norm(seen["ee_ori"]) == pytest.approx(np.pi, abs=0.01)
    assert seen["gripper_states"] == pytest.approx([0.052, -0.052], abs=1e-3)
    plain = suite_layout("tabletop_long")
    assert len(seen["state"]) == plain.size + 9
    with pytest.raises(SettingError, match="no robot 'leg'"):
        make("tabletop_long", "6", robot="leg")


def test_a_disturbed_demonstration_replays_to_the_bit() -> None:
    robot = robot_task(task("tabletop_goal", "8"), robot="arm")
    environment = robot.make_recording()
    demo = collect.record(robot, environment, seed=1)
    assert demo is not None
    again = replay(robot, robot.make_recording(), demo)
    assert again.equal
    assert again.reached


def test_demonstrations_are_kept_apart_by_robot() -> None:
    goal = task("tabletop_goal", "7")
    families = [robot_task(goal, robot=robot).family for robot in ("hand", "arm")]
    assert families[0] != families[1]
    assert "arm" in families[1]


# A pick and place, a bottle laid down, a pan by its handle far away, a book into a shelf, and a
# microwave opened: what an arm without care for its reach fails at.
@pytest.mark.parametrize(
    ("suite", "number"),
    [
        ("tabletop_goal", 8),
        ("tabletop_goal", 9),
        ("tabletop_90", 41),
        ("tabletop_90", 88),
        ("tabletop_90", 35),
    ],
)
def test_the_expert_with_an_arm(suite: str, number: int) -> None:
    world = make_world(suite, number, seed=33)
    for step, action in enumerate(Expert(world).run(), 1):
        world.step(action)
        if world.satisfied():
            return
        assert step < 600
    pytest.fail("the expert gave up")
