"""Small rotation algebra on NumPy arrays; quaternions are (w, x, y, z) as in MuJoCo."""

from __future__ import annotations

from math import cos, sin, sqrt

import numpy as np
from numpy.typing import NDArray

Point = NDArray[np.float64]
Matrix = NDArray[np.float64]


def rotate_x(angle: float) -> Matrix:
    """Rotation about x."""
    c, s = cos(angle), sin(angle)
    return np.array([[1.0, 0, 0], [0, c, -s], [0, s, c]])


def rotate_y(angle: float) -> Matrix:
    """Rotation about y."""
    c, s = cos(angle), sin(angle)
    return np.array([[c, 0, s], [0, 1.0, 0], [-s, 0, c]])


def rotate_z(angle: float) -> Matrix:
    """Rotation about z."""
    c, s = cos(angle), sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])


def quat_of_matrix(matrix: Matrix) -> NDArray[np.float64]:
    """The quaternion of a rotation, with w >= 0.

    >>> quat_of_matrix(rotate_x(np.pi / 2)).round(3).tolist()
    [0.707, 0.707, 0.0, 0.0]
    """
    # Plain floats: for nine numbers they are several times faster than arrays.
    (a, b, c), (d, e, f), (g, h, k) = np.asarray(matrix).tolist()
    # The largest of four squares keeps the division safe (Shepperd's method).
    squares = (1 + a + e + k, 1 + a - e - k, 1 - a + e - k, 1 - a - e + k)
    largest = squares.index(max(squares))
    if largest == 0:
        row = (squares[0], h - f, c - g, d - b)
    elif largest == 1:
        row = (h - f, squares[1], b + d, c + g)
    elif largest == 2:
        row = (c - g, b + d, squares[2], f + h)
    else:
        row = (d - b, c + g, f + h, squares[3])
    quat = np.array(row)
    quat = quat / sqrt(quat.dot(quat))
    return np.asarray(-quat if quat[0] < 0 else quat)


def matrix_of_rotvec(vector: Point) -> Matrix:
    """The rotation about a vector's direction by its length (Rodrigues).

    >>> matrix_of_rotvec(np.array([0, 0, np.pi / 2])).round(3)[0].tolist()
    [0.0, -1.0, 0.0]
    """
    angle = float(np.sqrt(vector @ vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + sin(angle) * skew + (1 - cos(angle)) * (skew @ skew))


def rotvec_of_matrix(matrix: Matrix) -> Point:
    """The inverse of `matrix_of_rotvec`, with an angle of at most pi."""
    quat = quat_of_matrix(matrix)
    length = sqrt(quat[1:].dot(quat[1:]))
    if length < 1e-12:
        return np.zeros(3)
    return np.asarray(quat[1:] / length * 2 * np.arctan2(length, quat[0]))


def orthonormal(matrix: Matrix) -> Matrix:
    """The rotation whose first column is that of a nearly orthonormal matrix."""
    x = matrix[:, 0] / sqrt(matrix[:, 0].dot(matrix[:, 0]))
    y = matrix[:, 1] - x * (x @ matrix[:, 1])
    y = y / sqrt(y.dot(y))
    (a, b, c), (d, e, f) = x.tolist(), y.tolist()
    return np.array([[a, d, b * f - c * e], [b, e, c * d - a * f], [c, f, a * e - b * d]])
