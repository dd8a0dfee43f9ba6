"""The floating parallel gripper: a hand pulled by a weld to a target that the action moves.

A floating hand has the 7-d action of an arm's end effector without its joints: nothing to
invert, no pose out of reach, and fewer degrees of freedom to simulate. The hand's frame is
between its finger tips: z points out of the palm, y is the direction of closing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

import numpy as np

from clframe.worlds.tabletop.poses import Matrix, Point, quat_of_matrix, rotate_x, rotate_z

HAND, TARGET, LEFT, RIGHT = "hand", "hand_target", "finger_left", "finger_right"
WRIST_CAMERA = "wrist"
MAX_OPENING = 0.104
"""Distance between the open fingers."""
SQUEEZE = 0.03
"""How far beyond touching each closed finger is driven, so that thin things are held firmly too."""
PALM = 0.062
"""From the palm to the hand's origin."""
TIP = 0.012
"""How far the fingers reach beyond the hand's origin."""
HOME: Point = np.array([-0.20, 0.0, 0.32])
"""Where an episode starts, above the middle of the robot's side, pointing down."""
REACH = np.array([[-0.60, -0.70, -0.01], [0.60, 0.70, 0.70]])
"""The box that the hand's origin stays in."""

STEEL, DARK = "0.55 0.57 0.60 1", "0.15 0.15 0.17 1"
COLLIDES = {"contype": "8", "conaffinity": "7"}
# A type of their own, which nothing answers to, and not none: MuJoCo bounds a body only by geoms
# that have one, and rays skip what is outside the bounds.
SEEN_ONLY = {"contype": "16", "conaffinity": "0", "group": "1", "mass": "0"}


def pointing_down(yaw: float = 0.0) -> Matrix:
    """Rotation of a hand that points down and closes along y, turned about the vertical."""
    return rotate_z(yaw) @ rotate_x(np.pi)


_START = {
    "pos": " ".join(f"{v:g}" for v in HOME),
    "quat": " ".join(f"{v:.9g}" for v in quat_of_matrix(pointing_down())),
}


def add_gripper(root: Element) -> None:
    """Add the floating hand, its target, the weld between them and the fingers' motors."""
    world = add_target(root)
    hand = SubElement(world, "body", {"name": HAND, "gravcomp": "1", **_START})
    SubElement(hand, "freejoint", {"name": HAND})
    SubElement(
        hand,
        "inertial",
        {"pos": f"0 0 {-PALM}", "mass": "1.2", "diaginertia": "0.006 0.006 0.006"},
    )
    wrist = {"type": "cylinder", "size": "0.026 0.05", "rgba": DARK, **SEEN_ONLY}
    fill_hand(hand, {"name": "wrist", "pos": f"0 0 {-PALM - 0.086:g}", **wrist})
    equality = root.find("equality")
    if equality is None:
        equality = SubElement(root, "equality")
    SubElement(
        equality,
        "weld",
        {
            "body1": TARGET,
            "body2": HAND,
            "relpose": "0 0 0 1 0 0 0",
            "torquescale": "1",
            "solref": "0.022 1",
            "solimp": "0.6 0.6 0.01",
        },
    )
    add_finger_motors(SubElement(root, "actuator"))


def add_target(root: Element) -> Element:
    """Add the target that actions move; returns the model's world."""
    world = root.find("worldbody")
    assert world is not None  # the compiler has made it
    SubElement(world, "body", {"name": TARGET, "mocap": "true", **_START})
    return world


def fill_hand(hand: Element, wrist: dict[str, str]) -> None:
    """Add palm, wrist (a geom's attributes), camera and fingers to the hand's body."""
    palm = {"type": "box", "size": "0.022 0.068 0.018", "rgba": STEEL, **COLLIDES}
    SubElement(hand, "geom", {"name": "palm", "pos": f"0 0 {-PALM - 0.018:g}", **palm})
    SubElement(hand, "geom", wrist)
    # Next to the palm, looking at the finger tips, which close from left and right in its image.
    eye = np.array([0.085, 0.0, -PALM - 0.03])
    back = eye - np.array([0.03, 0.0, 0.05])
    back = back / np.linalg.norm(back)
    axes = np.concatenate([[0.0, 1.0, 0.0], np.cross(back, [0.0, 1.0, 0.0])])
    SubElement(
        hand,
        "camera",
        {
            "name": WRIST_CAMERA,
            "pos": " ".join(f"{v:g}" for v in eye),
            "xyaxes": " ".join(f"{v:.6g}" for v in axes),
            "fovy": "70",
        },
    )
    for name, side in ((LEFT, 1), (RIGHT, -1)):
        finger = SubElement(hand, "body", {"name": name, "gravcomp": "1"})
        SubElement(
            finger,
            "joint",
            {
                "name": name,
                "type": "slide",
                "axis": f"0 {side} 0",
                "range": f"0 {MAX_OPENING / 2:g}",
                "armature": "0.05",
                "solreflimit": "0.01 1",
                "solimplimit": "0.98 0.99 0.001",
                "damping": "80",
            },
        )
        half = (PALM + TIP) / 2
        pad = {"type": "box", "size": f"0.011 0.005 {half:g}", "rgba": DARK, "mass": "0.05"}
        SubElement(
            finger,
            "geom",
            {
                "name": name,
                "pos": f"0 {side * 0.005:g} {TIP - half:g}",
                "friction": "2 0.05 0.001",
                "condim": "4",
                "priority": "1",
                **pad,
                **COLLIDES,
            },
        )


def add_finger_motors(actuator: Element) -> None:
    """Add the motors of both fingers."""
    for name in (LEFT, RIGHT):
        SubElement(
            actuator,
            "position",
            {
                "name": name,
                "joint": name,
                "kp": "900",
                "kv": "0",
                "forcerange": "-20 20",
                "ctrlrange": f"{-SQUEEZE:g} {MAX_OPENING / 2:g}",
            },
        )


def finger_target(grip: float) -> float:
    """Where an action's grip component drives each finger: -1 open, 1 closed and pressing.

    >>> round(finger_target(-1.0), 6), round(finger_target(1.0), 6)
    (0.052, -0.03)
    """
    return MAX_OPENING / 2 - (1.0 + grip) / 2 * (MAX_OPENING / 2 + SQUEEZE)


def grip_for(opening: float) -> float:
    """The grip component that drives the fingers to an opening; 0 closes with full force."""
    if opening <= 0:
        return 1.0
    return 2 * (MAX_OPENING / 2 - opening / 2) / (MAX_OPENING / 2 + SQUEEZE) - 1.0
