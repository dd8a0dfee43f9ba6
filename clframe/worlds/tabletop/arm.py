"""The arm's model: a Panda's joints, links of capsules, and the gripper's hand on its flange."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from clframe.worlds.tabletop.gripper import (
    COLLIDES,
    DARK,
    HAND,
    PALM,
    SEEN_ONLY,
    add_finger_motors,
    add_target,
    fill_hand,
)
from clframe.worlds.tabletop.kinematics import FLANGE, HAND_TURN, HIGHEST, LINKS, LOWEST, TOOL
from clframe.worlds.tabletop.poses import quat_of_matrix, rotate_x, rotate_z

BASE = "arm"
"""The body that stands still, after which the links and joints are named."""
JOINTS = tuple(f"{BASE}/{number}" for number in range(1, len(LINKS) + 1))
TORQUES = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
"""What each joint's motor can do at most, in Nm."""

_WHITE, _JOINT = "0.90 0.91 0.93 1", "0.30 0.32 0.36 1"
_MASSES = (3.0, 3.0, 2.5, 2.5, 2.0, 1.5, 0.6)
# Of each link: capsules from end to end in the frame of its joint, with their radius; the dark ones
# are the barrels of joints.
_Capsule = tuple[float, float, float, float, float, float, float, str]
_CAPSULES: tuple[tuple[_Capsule, ...], ...] = (
    ((0, 0, -0.19, 0, 0, -0.04, 0.060, _WHITE),),
    ((0, 0, -0.06, 0, 0, 0.06, 0.062, _JOINT), (0, -0.02, 0, 0, -0.16, 0, 0.058, _WHITE)),
    ((0, 0, -0.13, 0.02, 0, -0.03, 0.056, _WHITE),),
    ((0, 0, -0.055, 0, 0, 0.055, 0.060, _JOINT), (-0.03, 0.03, 0, -0.0825, 0.1, 0, 0.054, _WHITE)),
    (
        (0, 0, -0.27, 0, 0.05, -0.16, 0.052, _WHITE),
        (0, 0.06, -0.16, 0, 0.07, -0.04, 0.036, _WHITE),
    ),
    ((0, 0, -0.07, 0, 0, 0.03, 0.050, _JOINT), (0.03, 0, 0, 0.07, 0.02, 0, 0.042, _WHITE)),
    ((0, 0, -0.04, 0, 0, 0.062, 0.042, _WHITE),),
)


def add_arm(root: Element, base: tuple[float, float, float], height: float) -> None:
    """Add an arm with its hand, the hand's target and all motors to a model.

    Args:
        root: The model.
        base: Where the arm is mounted.
        height: Of the working surface above the floor, from which a pedestal rises.
    """
    world = add_target(root)
    body = SubElement(world, "body", {"name": BASE, "pos": _numbers(base)})
    _add_pedestal(body, base[2] + height)
    for number, (length, twist, offset) in enumerate(LINKS):
        turned = rotate_x(twist)
        place = np.array([length, 0.0, 0.0]) + turned[:, 2] * offset
        body = SubElement(
            body,
            "body",
            {
                "name": JOINTS[number],
                "pos": _numbers(place),
                "quat": _numbers(quat_of_matrix(turned)),
                "gravcomp": "1",
            },
        )
        _add_joint(body, number)
        _add_link(body, number)
    hand = SubElement(
        body,
        "body",
        {
            "name": HAND,
            "pos": f"0 0 {FLANGE + TOOL:g}",
            "quat": _numbers(quat_of_matrix(rotate_z(HAND_TURN))),
            "gravcomp": "1",
        },
    )
    SubElement(
        hand,
        "inertial",
        {"pos": f"0 0 {-PALM - 0.02:g}", "mass": "0.73", "diaginertia": "0.0025 0.001 0.0017"},
    )
    wrist = {"type": "cylinder", "size": "0.034 0.012", "rgba": DARK, **SEEN_ONLY}
    fill_hand(hand, {"name": "wrist", "pos": f"0 0 {-TOOL + 0.004:g}", **wrist})
    actuator = SubElement(root, "actuator")
    add_finger_motors(actuator)
    for name, torque in zip(JOINTS, TORQUES, strict=True):
        limits = f"{-torque:g} {torque:g}"
        SubElement(actuator, "motor", {"name": name, "joint": name, "ctrlrange": limits})


def _add_pedestal(base: Element, height: float) -> None:
    """The fixed foot, only visible: nothing except the arm itself comes there."""
    foot = {"type": "cylinder", "size": "0.075 0.05", "rgba": _WHITE, **SEEN_ONLY}
    SubElement(base, "geom", {"name": f"{BASE}/foot", "pos": "0 0 0.05", **foot})
    neck = {"type": "capsule", "size": "0.06", "fromto": "0 0 0.1 0 0 0.14", "rgba": _WHITE}
    SubElement(base, "geom", {"name": f"{BASE}/neck", **neck, **SEEN_ONLY})
    if height > 0.02:
        stand = {"type": "box", "size": f"0.09 0.09 {height / 2:g}", "rgba": DARK, **SEEN_ONLY}
        place = f"0 0 {-height / 2:g}"
        SubElement(base, "geom", {"name": f"{BASE}/stand", "pos": place, **stand})


def _add_joint(body: Element, number: int) -> None:
    SubElement(
        body,
        "joint",
        {
            "name": JOINTS[number],
            "axis": "0 0 1",
            "range": f"{LOWEST[number]:g} {HIGHEST[number]:g}",
            "armature": "0.1",
            "damping": "1",
            # The motors hold the arm up, so that its weight counts towards their limits.
            "actuatorgravcomp": "true",
            "actuatorfrcrange": f"{-TORQUES[number]:g} {TORQUES[number]:g}",
            "solreflimit": "0.01 1",
            "solimplimit": "0.98 0.99 0.001",
        },
    )


def _add_link(body: Element, number: int) -> None:
    capsules = _CAPSULES[number]
    for part, (*ends, radius, color) in enumerate(capsules):
        SubElement(
            body,
            "geom",
            {
                "name": f"{JOINTS[number]}:{part}",
                "type": "capsule",
                "fromto": _numbers(ends),
                "size": f"{radius:g}",
                "rgba": color,
                "mass": f"{_MASSES[number] / len(capsules):g}",
                **COLLIDES,
            },
        )


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{v:.9g}" for v in values)
