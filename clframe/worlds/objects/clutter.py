"""Other things about an object, none of which hides a part of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clframe.worlds.objects import catalog
from clframe.worlds.objects.models import Thing, build
from clframe.worlds.objects.models.parts import COLORS, Parts, Solid, rotation
from clframe.worlds.objects.path import outline
from clframe.worlds.objects.scene import Floats, Prop
from clframe.worlds.render import View

Solids = tuple[Solid, ...]


def clutter(
    instance: str, thing: Thing, views: Sequence[View], count: int, rng: np.random.Generator
) -> list[Prop]:
    """Other things about an object: plain household shapes and objects of other categories.

    They stand behind it and at its sides, each as near as it can without hiding a part of the
    object in any of the views.
    """
    if not count:
        return []
    size = float(np.linalg.norm(thing.high - thing.low))
    reach = float(np.linalg.norm(thing.points[:, :2], axis=1).max())
    sights = _Sights(thing, views)
    behind = np.arctan2(*(sights.forward.mean(axis=0) * [1, -1]))
    props: list[Prop] = []
    taken: list[tuple[Floats, float]] = []
    for k in range(count):
        solids = _real_thing(instance, size, rng) if k % 3 == 2 else None
        solids = solids or _plain_thing(size, rng)
        turn = float(rng.uniform(0, 360))
        points = np.concatenate([solid.surface() for solid in solids]) @ rotation((0, 0, turn)).T
        corners = _corners(points)
        radius = float(np.linalg.norm(corners[:, :2], axis=1).max())
        direction = behind + ((k + 0.5) / count - 0.5) * 1.5 * np.pi + rng.uniform(-0.15, 0.15)
        for step in (0.35, 0.55, 0.75, 0.95, 1.2, 1.5, 1.9):
            distance = step * reach + radius
            at = distance * np.array([np.sin(direction), -np.cos(direction), 0.0])
            apart = all(np.linalg.norm(at - p) > 0.8 * (r + radius) for p, r in taken)
            if apart and sights.leave_free(corners + at):
                break
        else:  # straight behind, it can hide nothing
            at = (2 * reach + radius) * np.array([np.sin(behind), -np.cos(behind), 0.0])
        taken.append((at, radius))
        props.append(Prop(solids, at, turn))
    return props


class _Sights:
    """All views of an object at once, to tell quickly whether something comes into one of them."""

    def __init__(self, thing: Thing, views: Sequence[View]) -> None:
        self._boxes = np.array([outline(view, thing.points) for view in views])
        self._position = np.array([view.position for view in views])
        self._rotation = np.array([view.rotation for view in views])
        self._half = np.tan(np.radians(views[0].fovy) / 2)
        self.forward = -self._rotation[:, :2, 2]
        self._far_end = (thing.points[:, :2] @ self.forward.T).max(axis=0)

    def leave_free(self, points: Floats) -> bool:
        """Whether what these points span can hide no part of the object in any view."""
        # What is all behind hides nothing: a ray that goes forward does not come back.
        behind = (points[:, :2] @ self.forward.T).min(axis=0) > self._far_end
        local = np.einsum("vpi,vij->vpj", points - self._position[:, None], self._rotation)
        flat = local[:, :, :2] / (np.maximum(-local[:, :, 2:], 1e-6) * self._half)
        low, high = flat.min(axis=1) - 0.02, flat.max(axis=1) + 0.02
        beside = ((low > self._boxes[:, 2:]) | (high < self._boxes[:, :2])).any(axis=1)
        return bool((behind | beside).all())


def _corners(points: Floats) -> Floats:
    """The eight corners of the box about some points."""
    ends = np.stack([points.min(axis=0), points.max(axis=0)])
    return np.array([(x, y, z) for x in ends[:, 0] for y in ends[:, 1] for z in ends[:, 2]])


def _real_thing(instance: str, size: float, rng: np.random.Generator) -> Solids | None:
    """An object of another category, if the one drawn is of the right size and simple enough."""
    names = catalog.instances()
    name = names[int(rng.integers(len(names)))]
    drawn = build(name)
    extent = float(np.linalg.norm(drawn.high - drawn.low))
    fits = 0.25 * size < extent < 0.9 * size and len(drawn.solids) <= 9
    return drawn.solids if fits and _category(name) != _category(instance) else None


def _category(name: str) -> str:
    return catalog.category_of(name)


def _plain_thing(size: float, rng: np.random.Generator) -> Solids:
    """A carton, a tin, a ball, two books or a cone."""
    body, trim = (str(name) for name in rng.choice(sorted(COLORS), 2, replace=False))
    s = size * rng.uniform(0.16, 0.30)
    parts = Parts()
    kind = int(rng.integers(5))
    if kind == 0:
        parts.box((s, 0.8 * s, 1.3 * s), (0, 0, 0.65 * s), body)
        parts.box((1.02 * s, 0.3 * s, 1.32 * s), (0, 0, 0.66 * s), trim)
    elif kind == 1:
        parts.can((0, 0, 0), (0, 0, 1.3 * s), 0.45 * s, body)
        parts.can((0, 0, 0.4 * s), (0, 0, 0.9 * s), 0.46 * s, trim)
    elif kind == 2:
        parts.ball(0.55 * s, (0, 0, 0.55 * s), body)
    elif kind == 3:
        parts.box((1.5 * s, 1.1 * s, 0.25 * s), (0, 0, 0.13 * s), body)
        parts.box((1.2 * s, 0.9 * s, 0.2 * s), (0.05 * s, 0, 0.36 * s), trim, (0, 0, 14))
    else:
        cone = [(0.5 * s, 0.0), (0.25 * s, 0.8 * s), (0.12 * s, 1.3 * s), (0.0, 1.35 * s)]
        parts.turned(cone, body, sides=10)
    return tuple(parts.solids)
