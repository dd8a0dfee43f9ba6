"""Things that stand between camera and object and hide a chosen share of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clframe.worlds.objects.models import Thing
from clframe.worlds.objects.models.parts import COLORS, Parts
from clframe.worlds.objects.scene import Floats, Prop, Stage
from clframe.worlds.render import View

STEADY = 0.05
"""Standard deviation, over the frames, of the hidden share below which an occluder will do."""
_AWAY = np.array([0.0, 0.0, -1000.0])


@dataclass(frozen=True)
class Occluder:
    """Something that comes in on a way: it begins where it hides nothing, and ends hiding all."""

    prop: Prop
    way: Floats


def occluders(thing: Thing, views: Sequence[View], rng: np.random.Generator) -> list[Occluder]:
    """A low wide thing that comes up in front and a tall one from each side, in random order.

    They stand close before the object, so that little changes while the camera passes.
    """
    middle = views[len(views) // 2]
    right = middle.rotation[:, 0]
    forward = np.array([-right[1], right[0], 0.0])
    along, ahead = thing.points @ right, thing.points @ forward
    width, depth = float(np.ptp(along)), float(np.ptp(ahead))
    size = float(np.linalg.norm(thing.high - thing.low))
    slope = float(middle.rotation[2, 2])
    # What a wall just before the object must measure to hide it from a camera that looks down.
    height = float(thing.high[2] + depth * slope / max((1 - slope**2) ** 0.5, 0.2)) + 0.10 * size
    thick = 0.14 * size
    place = forward * (float(ahead.min()) - thick / 2 - 0.02 * size)
    place = place + right * float(along.min() + along.max()) / 2
    turn = float(np.degrees(np.arctan2(right[1], right[0])))
    body, trim = (str(name) for name in rng.choice(sorted(COLORS), 2, replace=False))
    result = []
    for side in rng.permutation([-1, 0, 1]):
        parts = Parts()
        if side == 0:
            wide = 2.2 * width + 0.3 * size
            middle_of_band = (0.2 * width, 0, height / 2 + 0.002 * size)
            parts.box((wide, thick, height), (0, 0, height / 2), body)
            parts.box((0.5 * width, 1.02 * thick, height), middle_of_band, trim)
            way = np.array([0.0, 0.0, height * 1.02])
        else:
            wide = 1.25 * width + 0.15 * size
            parts.box((wide, thick, height), (0, 0, height / 2), body)
            parts.box((1.01 * wide, 1.02 * thick, 0.25 * height), (0, 0, 0.6 * height), trim)
            way = -side * right * ((wide + width) / 2 + 0.25 * size)
        result.append(Occluder(Prop(tuple(parts.solids), place - way, turn), way))
    return result


def hide(
    stage: Stage, choices: Sequence[Occluder], views: Sequence[View], size: int, share: float
) -> None:
    """Let one of the stage's props, which are these occluders, hide that share of the object.

    The share is the mean over the views of the hidden part of the object's pixels, met by
    bisection. The first occluder that hides about as much in all of the views stays, or else the
    steadiest; the others are put away.
    """
    some = [views[k] for k in np.unique(np.linspace(0, len(views) - 1, 5).round().astype(int))]
    lines = [stage.sight_lines(view, size) for view in some]
    lines = [rays[:: max(1, len(rays) // 150)] for rays in lines]  # enough to half a per cent
    for k in range(len(choices)):
        stage.move(k, _AWAY)
    best, best_spread, best_place = 0, np.inf, _AWAY
    for k, choice in enumerate(choices):
        low, high = 0.0, 1.0
        for _ in range(8):
            part = (low + high) / 2
            place = choice.prop.at + part * choice.way
            stage.move(k, place)
            shares = hidden_shares(stage, some, lines)
            low, high = (part, high) if shares.mean() < share else (low, part)
        stage.move(k, _AWAY)
        # An edge that meets many pixels at once may leave the mean off the target.
        spread = float(shares.std() + abs(shares.mean() - share))
        if spread < best_spread:
            best, best_spread, best_place = k, spread, place
        if spread < STEADY:
            break
    stage.move(best, best_place)


def hidden_shares(stage: Stage, views: Sequence[View], lines: Sequence[Floats]) -> Floats:
    """For each view, the share of the lines of sight to the object that a prop stops."""
    stopped = [stage.in_front(view, rays) >= 0 for view, rays in zip(views, lines, strict=True)]
    return np.array([one.mean() if len(one) else 0.0 for one in stopped])
