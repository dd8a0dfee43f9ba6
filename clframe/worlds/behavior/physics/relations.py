"""Which literals hold, decided by physics.

``ontop`` (and ``onfloor``): the upper thing is held up by a contact from below, and is not inside
the lower one. ``inside``: its origin is in the other's inner box. ``nextto``: side by side with a
gap of at most a sixth of the mean extent, as without physics. ``open``: a joint is beyond 5 % of
its range, as in iGibson. ``toggled_on``: a knob is beyond its threshold. What a hand holds is
nowhere.
"""

from __future__ import annotations

import numpy as np

from clframe.worlds.bddl import Literal
from clframe.worlds.behavior.physics.fitting import Cast
from clframe.worlds.behavior.physics.layout import Zone
from clframe.worlds.behavior.physics.surfaces import place_now
from clframe.worlds.tabletop.simulation import Simulation

_UPRIGHT = 0.7
_OPEN = 0.05


class Relations:
    """What holds at one moment.

    Args:
        world: The world, whose contacts are up to date.
        cast: Its bodies.
        zones: Its floors.
        held: What the hand holds.
    """

    def __init__(
        self, world: Simulation, cast: Cast, zones: dict[str, Zone], held: str | None
    ) -> None:
        self.world = world
        self.cast = cast
        self.zones = zones
        self.held = held
        self._supports = self._held_up()

    def _held_up(self) -> set[tuple[str, str]]:
        """Pairs of an upper and a lower thing with a contact whose normal is nearly vertical."""
        contacts = self.world.data.contact
        pairs: set[tuple[str, str]] = set()
        if not len(contacts.dist):
            return pairs
        upward = np.asarray(contacts.frame).reshape(len(contacts.dist), -1)[:, 2]
        for index in np.flatnonzero(np.abs(upward) > _UPRIGHT):
            one, other = (self.world.owner_of(int(geom)) for geom in contacts.geom[index])
            pairs.add((other, one) if upward[index] > 0 else (one, other))
        return pairs

    def holds(self, literal: Literal) -> bool:
        """Whether a literal with one of `fitting.JUDGED` holds."""
        predicate, *terms = literal
        if predicate == "inside":
            return self.inside(terms[0], terms[1])
        if predicate in ("ontop", "onfloor"):
            return self.on_top(terms[0], terms[1])
        if predicate == "nextto":
            return self.next_to(terms[0], terms[1])
        return self.opened(terms[0]) if predicate == "open" else self.switched_on(terms[0])

    def inside(self, name: str, other: str) -> bool:
        """Whether a thing is in another."""
        asset = self.cast.assets.get(other)
        if asset is None or name not in self.world.plan.objects or name in (other, self.held):
            return False
        place = asset.places.get("inside")
        if place is None:
            return False
        center, rotation = place_now(self.world, other, place)
        offset = np.abs(rotation.T @ (self.world.position(name) - center))
        return bool((offset <= np.array(place.half) + 0.004).all())

    def on_top(self, name: str, other: str) -> bool:
        """Whether a thing rests on another, or on a floor."""
        if name in self.cast.holder:
            return self.cast.holder[name] == other
        if name not in self.world.plan.objects or name in (other, self.held):
            return False
        if other in self.zones:
            x0, y0, x1, y1 = self.zones[other].bounds
            x, y, _ = self.world.position(name)
            return (name, self.world.plan.workspace) in self._supports and bool(
                x0 <= x <= x1 and y0 <= y <= y1
            )
        return (name, other) in self._supports and not self.inside(name, other)

    def next_to(self, name: str, other: str) -> bool:
        """Whether two things stand side by side."""
        known = self.cast.assets
        if name == other or name not in known or other not in known:
            return False
        if self.held in (name, other):
            return False
        (low, high), (bottom, top) = self.world.bounds(name), self.world.bounds(other)
        apart = np.maximum(low - top, bottom - high)
        if apart[2] >= 0 or (apart[:2] < 0).all():
            return False
        extent = ((high - low) + (top - bottom)).mean()
        return bool(np.linalg.norm(np.maximum(0.0, apart[:2])) <= extent / 6)

    def opened(self, name: str) -> bool:
        """Whether a door or drawer is open."""
        asset = self.cast.assets[name]
        if asset.door is None:
            return False
        key = f"{name}/{asset.door}"
        low, high = self.world.joints[key].spec.limits
        return self.world.joint(key) > low + _OPEN * (high - low)

    def switched_on(self, name: str) -> bool:
        """Whether a device is on."""
        asset = self.cast.assets[name]
        if asset.device is None:
            return False
        key = f"{name}/{asset.device}"
        return self.world.joint(key) >= self.world.joints[key].spec.on_from
