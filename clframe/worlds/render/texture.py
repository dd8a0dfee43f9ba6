"""Surface patterns computed in code and laid onto geoms by the place a ray hits.

A pattern is a square field of values in 0..1, periodic, that blends two colors. It is computed
once with all its halvings, so that a pixel that covers much of it gets the mean of that part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError, UnknownNameError, nearest
from clframe.worlds.render.lighting import Color

SIDE = 256
"""Cells of a pattern along one side of its period."""
LEVELS = 9
"""Halvings from 256 cells to 1."""
OFFSETS = np.array([sum((SIDE >> j) ** 2 for j in range(k)) for k in range(LEVELS)], np.int32)
"""Where each halving begins in a stored pattern."""

Field = NDArray[np.float64]


@dataclass(frozen=True)
class Texture:
    """A pattern on a geom, repeated every `period` meters in the geom's own frame.

    Attributes:
        pattern: one of `PATTERNS`.
        dark: the color where the pattern is 0; None is the geom's own color, darkened.
        light: the color where it is 1; None is the geom's own color.
        period: meters after which the pattern repeats.
        seed: of the random part of the pattern.

    >>> Texture("checker", dark=(0.1, 0.1, 0.1), period=0.2).pattern
    'checker'
    """

    pattern: str = "plain"
    dark: Color | None = None
    light: Color | None = None
    period: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise UnknownNameError(
                f"There is no texture pattern {self.pattern!r}; {nearest(self.pattern, PATTERNS)}"
            )
        if not self.period > 0:
            raise SettingError(f"A texture's period must be above 0, not {self.period}.")


def _grid() -> tuple[Field, Field]:
    """Coordinates of the cells in 0..1, along u (columns) and v (rows)."""
    line = (np.arange(SIDE) + 0.5) / SIDE
    return np.broadcast_to(line, (SIDE, SIDE)), np.broadcast_to(line[:, None], (SIDE, SIDE))


def _smooth_noise(rng: np.random.Generator, u: Field, v: Field, nu: int, nv: int) -> Field:
    """Random values on a periodic lattice of nu x nv, smoothly interpolated at (u, v)."""
    lattice = rng.random((nv, nu))
    x, y = (u % 1.0) * nu, (v % 1.0) * nv
    i, j = x.astype(int), y.astype(int)
    s, t = x - i, y - j
    s, t = s * s * (3 - 2 * s), t * t * (3 - 2 * t)
    i, j = i % nu, j % nv
    i1, j1 = (i + 1) % nu, (j + 1) % nv
    low = lattice[j, i] * (1 - s) + lattice[j, i1] * s
    high = lattice[j1, i] * (1 - s) + lattice[j1, i1] * s
    return np.asarray(low * (1 - t) + high * t)


def _clouds(rng: np.random.Generator, u: Field, v: Field, nu: int, nv: int, octaves: int) -> Field:
    """Noise of several sizes summed, each half as large and half as strong as the one before."""
    total = np.zeros((SIDE, SIDE))
    for k in range(octaves):
        total += 0.5**k * _smooth_noise(rng, u, v, nu << k, nv << k)
    return total / (2 - 0.5 ** (octaves - 1))


def _contrast(field: Field) -> Field:
    """Stretch a field to the whole of 0..1."""
    return np.asarray((field - field.min()) / max(float(np.ptp(field)), 1e-9))


def _limit(field: Field) -> Field:
    """Clip a field to 0 and 1."""
    return np.asarray(np.clip(field, 0.0, 1.0))


def _joints(u: Field, v: Field, width: float) -> Field:
    """1 inside unit cells, falling to 0 in the joints between them."""
    distance = np.minimum.reduce([u % 1, 1 - u % 1, v % 1, 1 - v % 1])
    return _limit((distance - width) / width + 0.5)


def plain(rng: np.random.Generator) -> Field:
    """No pattern: the light color."""
    return np.ones((SIDE, SIDE))


def checker(rng: np.random.Generator) -> Field:
    """Squares, 2 x 2 in a period."""
    u, v = _grid()
    return ((u < 0.5) ^ (v < 0.5)).astype(float)


def stripes(rng: np.random.Generator) -> Field:
    """Four pairs of stripes in a period."""
    u, _ = _grid()
    return ((u * 4) % 1 < 0.5).astype(float)


def dots(rng: np.random.Generator) -> Field:
    """Round dots of the dark color, 4 x 4 in a period, alternate rows shifted."""
    u, v = _grid()
    shift = 0.5 * ((v * 4).astype(int) % 2)
    radius = np.hypot((u * 4 + shift) % 1 - 0.5, (v * 4) % 1 - 0.5)
    return _limit((radius - 0.27) / 0.06 + 0.5)


def noise(rng: np.random.Generator) -> Field:
    """Soft clouds."""
    u, v = _grid()
    return _contrast(_clouds(rng, u, v, 4, 4, 5))


def wood(rng: np.random.Generator) -> Field:
    """Boards along u with grain that bends slowly."""
    u, v = _grid()
    boards = 4
    board = (v * boards).astype(int)
    tone = rng.permutation(boards)[board] / (boards - 1)
    shifted = u + rng.random(boards)[board]
    bend = _clouds(rng, shifted, v, 2, 8, 2)
    grain = 0.5 + 0.5 * np.sin(2 * np.pi * (v * 24 + 3 * bend))
    fibre = _smooth_noise(rng, shifted, v, 8, 128)
    edge = np.clip(np.minimum((v * boards) % 1, 1 - (v * boards) % 1) / 0.03, 0.35, 1.0)
    return _limit((0.25 + 0.3 * tone + 0.25 * grain + 0.2 * fibre) * edge)


def tiles(rng: np.random.Generator) -> Field:
    """Square tiles, 2 x 2 in a period, with joints and slightly different tones."""
    u, v = _grid()
    tone = rng.random((2, 2))[(v * 2).astype(int), (u * 2).astype(int)]
    speckle = _smooth_noise(rng, u, v, 64, 64)
    return _limit(_joints(u * 2, v * 2, 0.025) * (0.75 + 0.17 * tone + 0.08 * speckle))


def bricks(rng: np.random.Generator) -> Field:
    """Bricks in running bond, 2 in 4 courses in a period."""
    u, v = _grid()
    course = (v * 4).astype(int)
    along = u * 2 + 0.5 * (course % 2)
    tone = rng.random((4, 2))[course, along.astype(int) % 2]
    rough = _clouds(rng, u, v, 16, 16, 3)
    return _limit(_joints(along, v * 4, 0.04) * (0.5 + 0.35 * tone + 0.15 * rough))


def carpet(rng: np.random.Generator) -> Field:
    """Short pile: fine grain over soft patches."""
    u, v = _grid()
    fine = rng.random((SIDE, SIDE))
    return _contrast(0.6 * _clouds(rng, u, v, 4, 4, 4) + 0.4 * fine)


def weave(rng: np.random.Generator) -> Field:
    """Cloth of crossing threads, 16 x 16 in a period."""
    u, v = _grid()
    over = ((u * 16).astype(int) + (v * 16).astype(int)) % 2 == 0
    thread = np.where(over, (v * 16) % 1, (u * 16) % 1)
    return _limit(np.sin(np.pi * thread) * np.where(over, 1.0, 0.8))


def marble(rng: np.random.Generator) -> Field:
    """Dark veins in a light stone."""
    u, v = _grid()
    warp = _clouds(rng, u, v, 3, 3, 5)
    veins = np.abs(np.sin(2 * np.pi * (u + v) + 9 * warp)) ** 0.6
    return _limit(0.8 * veins + 0.2 * _clouds(rng, u, v, 8, 8, 3))


def granite(rng: np.random.Generator) -> Field:
    """Grains of several tones."""
    u, v = _grid()
    grains = _smooth_noise(rng, u, v, 48, 48) + 0.6 * _smooth_noise(rng, u, v, 96, 96)
    return _limit(2.2 * _contrast(grains) - 0.6)


PATTERNS: dict[str, Callable[[np.random.Generator], Field]] = {
    pattern.__name__: pattern
    for pattern in (
        plain, checker, stripes, dots, noise, wood, tiles, bricks, carpet, weave, marble, granite,
    )
}  # fmt: skip


@functools.lru_cache(maxsize=256)
def pyramid(pattern: str, seed: int) -> NDArray[np.uint8]:
    """A pattern and all its halvings, one behind the other, 0..1 stored as 0..255."""
    field = PATTERNS[pattern](np.random.default_rng(seed))
    levels = []
    for _ in range(LEVELS):
        levels.append(np.round(field * 255).astype(np.uint8).reshape(-1))
        half = len(field) // 2
        if half:
            field = field.reshape(half, 2, half, 2).mean(axis=(1, 3))
    whole = np.concatenate(levels)
    whole.flags.writeable = False  # shared by all scenes
    return whole
