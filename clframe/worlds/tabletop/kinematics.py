"""Where the arm's hand is for given joints, and which joints bring it somewhere.

The arm has the kinematics of a Franka Emika Panda, in Craig's modified Denavit-Hartenberg form.
Its first three axes meet in the shoulder, and the offsets at the elbow lie in the plane of
shoulder, elbow and wrist; so for each angle of the last joint the others follow in closed form
(He and Liu 2021, "Analytical inverse kinematics for Franka Emika Panda").
"""

from __future__ import annotations

from math import atan2, hypot, pi

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.tabletop.poses import Matrix, Point, rotate_x, rotate_z

N_JOINTS = 7
LINKS = (
    (0.0, 0.0, 0.333),
    (0.0, -pi / 2, 0.0),
    (0.0, pi / 2, 0.316),
    (0.0825, pi / 2, 0.0),
    (-0.0825, -pi / 2, 0.384),
    (0.0, pi / 2, 0.0),
    (0.088, pi / 2, 0.0),
)
"""Of each joint: the common normal's length and twist before it, and the offset along its axis."""
FLANGE = 0.107
"""From the last joint's frame to the flange."""
TOOL = 0.1034
"""From the flange to the hand's frame between the finger tips."""
HAND_TURN = -pi / 4
"""How the hand is turned on the flange."""
LOWEST = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
HIGHEST = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
"""Limits of the joints."""
NEAR_HOME = np.array([0.0, -0.161, 0.0, -2.445, 0.0, 2.227, pi / 4])
"""LIBERO's joints at the start of an episode."""

_A, _D3, _D5, _A7 = LINKS[3][0], LINKS[2][2], LINKS[4][2], LINKS[6][0]
_SHOULDER = np.array([0.0, 0.0, LINKS[0][2]])
_UPPER, _LOWER = hypot(_D3, _A), hypot(_D5, _A)
_ELBOW = atan2(_D5, -_A) - atan2(-_D3, -_A)
"""The elbow's inner angle between shoulder and wrist at joint 4 = 0 (more than half a turn)."""
_LAST = NEAR_HOME[6] + np.linspace(-3.6, 2.1, 58)
_MARGIN = 0.03
"""Radians that a pose within reach leaves to every limit."""
_WEIGHTS = np.array([1.0, 1.0, 1.0, 1.0, 0.6, 0.6, 0.4])

Joints = NDArray[np.float64]


def forward(joints: Joints) -> tuple[Point, Matrix]:
    """Position and rotation of the hand in the frame of the arm's base."""
    position, rotation = np.zeros(3), np.eye(3)
    for (length, twist, offset), angle in zip(LINKS, joints, strict=True):
        position = position + rotation[:, 0] * length
        rotation = rotation @ rotate_x(twist)
        position = position + rotation[:, 2] * offset
        rotation = rotation @ rotate_z(float(angle))
    position = position + rotation[:, 2] * (FLANGE + TOOL)
    return position, rotation @ rotate_z(HAND_TURN)


def inverse(
    position: Point, rotation: Matrix, last: NDArray[np.float64] = _LAST, margin: float = _MARGIN
) -> Joints:
    """All joints that bring the hand to a pose, one row each, for some angles of the last joint.

    Args:
        position: Of the hand, in the frame of the base.
        rotation: Of the hand.
        last: Angles of the last joint to try.
        margin: Radians to leave to every limit.
    """
    r7 = rotation @ rotate_z(-HAND_TURN)
    c7, s7 = np.cos(last)[:, None], np.sin(last)[:, None]
    x6 = r7[:, 0] * c7 - r7[:, 1] * s7
    y6 = np.broadcast_to(-r7[:, 2], x6.shape)
    to_wrist = position - (FLANGE + TOOL) * r7[:, 2] - _SHOULDER - _A7 * x6
    length = np.sqrt((to_wrist**2).sum(axis=1))
    cosine = (_UPPER**2 + _LOWER**2 - length**2) / (2 * _UPPER * _LOWER)
    with np.errstate(invalid="ignore"):
        inner = np.arccos(cosine)
    # Nearly stretched the elbow may be bent either way, beyond the offsets of its axis.
    q4 = np.concatenate([inner - _ELBOW, 2 * pi - inner - _ELBOW])
    x6, y6, to_wrist, last = (np.concatenate([v, v]) for v in (x6, y6, to_wrist, last))
    # From the wrist to the shoulder, in the elbow's frame.
    c4, s4 = np.cos(q4), np.sin(q4)
    along_x, along_y = -_A * c4 - _D3 * s4 + _A, _A * s4 - _D3 * c4 - _D5
    ux, uy = -(to_wrist * x6).sum(axis=1), -(to_wrist * y6).sum(axis=1)
    with np.errstate(invalid="ignore"):
        spread = np.arccos(along_y / np.hypot(ux, uy))
    middle = np.arctan2(uy, ux)
    phi = np.concatenate([middle + spread, middle - spread])
    twice = [np.concatenate([v, v]) for v in (last, q4, along_x, along_y)]
    q7, q4, along_x, along_y = twice
    good = np.isfinite(phi) & (np.abs(along_x) > 1e-9)
    if not good.any():
        return np.zeros((0, N_JOINTS))
    phi, q7, q4, along_x, along_y = (v[good] for v in (phi, q7, q4, along_x, along_y))
    x6, y6, to_wrist = (np.concatenate([v, v])[good] for v in (x6, y6, to_wrist))
    q6 = np.arctan2(np.cos(phi), np.sin(phi))
    q6 = np.where(q6 < LOWEST[5], q6 + 2 * pi, q6)
    y4 = x6 * np.cos(phi)[:, None] + y6 * np.sin(phi)[:, None]
    x4 = (-to_wrist - along_y[:, None] * y4) / along_x[:, None]
    z4 = np.cross(x4, y4)
    x5 = x6 * np.cos(q6)[:, None] - y6 * np.sin(q6)[:, None]
    q5 = np.arctan2(-(x5 * z4).sum(axis=1), (x5 * x4).sum(axis=1))
    c4, s4 = np.cos(q4)[:, None], np.sin(q4)[:, None]
    x3, z3 = x4 * c4 - y4 * s4, x4 * s4 + y4 * c4
    found = []
    for sign in (1.0, -1.0):
        q2 = sign * np.arccos(np.clip(z3[:, 2], -1.0, 1.0))
        q1 = np.arctan2(sign * z3[:, 1], sign * z3[:, 0])
        c1, s1, c2, s2 = np.cos(q1), np.sin(q1), np.cos(q2), np.sin(q2)
        x2 = np.stack([c1 * c2, s1 * c2, -s2], axis=1)
        q3 = np.arctan2(x3[:, 1] * c1 - x3[:, 0] * s1, (x3 * x2).sum(axis=1))
        found.append(np.stack([q1, q2, q3, q4, q5, q6, q7], axis=1))
    every = np.concatenate(found)
    inside = (every > LOWEST + margin) & (every < HIGHEST - margin)
    return np.asarray(every[inside.all(axis=1)])


def nearest_joints(position: Point, rotation: Matrix, to: Joints) -> Joints | None:
    """The joints nearest to given ones that bring the hand to a pose; None if none do."""
    every = inverse(position, rotation)
    if not len(every):
        return None
    off = ((every - to) ** 2 * _WEIGHTS).sum(axis=1)
    return np.asarray(every[int(np.argmin(off))])
