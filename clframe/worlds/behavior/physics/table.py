"""The MuJoCo world of an activity: a table with everything on it, and its start states."""

from __future__ import annotations

import numpy as np

from clframe.worlds.behavior.categories import lemma
from clframe.worlds.behavior.faults import at_object
from clframe.worlds.behavior.physics.bodies import color_of
from clframe.worlds.behavior.physics.fitting import Cast, fit
from clframe.worlds.behavior.physics.layout import Rectangle, Zone, ground, lay_out, stand
from clframe.worlds.behavior.physics.relations import Relations
from clframe.worlds.behavior.physics.surfaces import Surface, random_spot, surface_of
from clframe.worlds.behavior.sampling import Instance
from clframe.worlds.behavior.state import INSIDE, State
from clframe.worlds.tabletop.assets import Arena, Asset, Geom
from clframe.worlds.tabletop.compiler import Blueprint
from clframe.worlds.tabletop.poses import Point, quat_of_matrix, rotate_z
from clframe.worlds.tabletop.world import World

_TRIES = 16
_RANDOM = 12
"""Number of tries at random positions; later ones pack objects from a corner."""
_SETTLE = 60
_LIFT = 0.001
_DEPTH = 0.0015
_FRONT = np.pi / 2
"""Furniture turns its front to the camera."""
WORKSPACE = "table top"
_REACH = np.array([[-0.75, -1.0, -0.01], [0.75, 1.0, 0.75]])


class Table(World):
    """One activity on MuJoCo.

    Args:
        instance: The activity, as without physics.

    Raises:
        ActivityError: If it cannot be had on a table.
    """

    reach = _REACH

    def __init__(self, instance: Instance) -> None:
        self.cast = fit(instance)
        self.layout = lay_out(self.cast)
        self.zones: dict[str, Zone] = {zone.name: zone for zone in self.layout}
        self.kept: tuple[Rectangle, ...] = ()
        """What standing things cover of the table, with their parts opened."""
        super().__init__(self.cast.household.problem, _blueprint(self.cast, self.layout))

    def zone_surface(self, name: str) -> Surface:
        """The part of the table that is a floor."""
        x0, y0, x1, y1 = self.zones[name].bounds
        center = np.array([(x0 + x1) / 2, (y0 + y1) / 2, 0.0])
        half = ((x1 - x0) / 2 - 0.01, (y1 - y0) / 2 - 0.01)
        return Surface(center, np.eye(3), half, self.plan.workspace, kept=self.kept)

    def bounds(self, name: str) -> tuple[Point, Point]:
        """The bounding box of a thing, exact for cylinders as well, however they are turned."""
        if name not in self._round:
            return super().bounds(name)
        low, high = [], []
        for geom, radius, half in self._round[name]:
            axis = np.array(self.data.geom_xmat[geom]).reshape(3, 3)[:, 2]
            reach = radius * np.sqrt(np.maximum(0.0, 1 - axis**2)) + half * np.abs(axis)
            low.append(self.data.geom_xpos[geom] - reach)
            high.append(self.data.geom_xpos[geom] + reach)
        return np.min(low, axis=0), np.max(high, axis=0)

    def _index(self) -> None:
        super()._index()
        self._round: dict[str, list[tuple[int, float, float]]] = {}
        for name, asset in self.plan.objects.items():
            if all(geom.kind == "cylinder" for geom in asset.geoms):
                sizes = [(geom.size[0], geom.size[1]) for geom in asset.geoms]
                ids = [self.model.geom(f"{name}:{number}").id for number in range(len(sizes))]
                self._round[name] = [(g, *size) for g, size in zip(ids, sizes, strict=True)]

    def relations(self, held: str | None) -> Relations:
        """What holds now.

        Args:
            held: What the hand holds.
        """
        return Relations(self, self.cast, self.zones, held)

    def surface(self, name: str, inside: bool) -> Surface | None:
        """Where things are put on or in a thing or a floor."""
        if name in self.zones:
            return None if inside else self.zone_surface(name)
        return surface_of(self, name, inside)

    def start(self, start: State, rng: np.random.Generator) -> None:
        """Draw a start state in which everything is where a state without physics says.

        Raises:
            ActivityError: If things do not fit together in any of many tries.
        """
        culprit = ""
        for attempt in range(_TRIES):
            self._go_home()
            self._stand(start, rng)
            culprit = self._place(start, rng, dense=attempt >= _RANDOM)
            if culprit:
                continue
            self.forward()
            culprit = self._clash()
            if culprit:
                continue
            self.advance(_SETTLE)
            self.look()
            culprit = self._strayed(start)
            if not culprit:
                return
        sentence = f"{culprit} finds no place at the start on a table."
        raise at_object(self.problem, culprit, sentence)

    # ------------------------------------------------------------------ start

    def _stand(self, start: State, rng: np.random.Generator) -> None:
        index = self.cast.household.index
        places = stand(self.cast, self.layout, rng)
        kept: list[Rectangle] = []
        for name, (x, y) in places.items():
            self.set_fixture(name, np.array([x, y, 0.0]), _FRONT)
            x0, y0, x1, y1 = ground(self.cast, name)
            kept.append((x - y1, y + x0, x - y0, y + x1))
        self.kept = tuple(kept)
        for key, part in self.joints.items():
            name, kind = key.split("/")
            asset, slot = self.cast.assets[name], index[name]
            on = start.opened[slot] if kind == asset.door else start.toggled[slot]
            self.set_joint(key, rng.uniform(*part.spec.start_on) if on else 0.0)
        for zone in self.layout:
            x0, y0, x1, y1 = zone.bounds
            self.set_fixture(zone.name, np.array([(x0 + x1) / 2, (y0 + y1) / 2, 0.0]), 0.0)
        self.forward()
        for name in self.cast.standing:
            if name not in places:  # a carton on a counter
                self._stand_on(name, rng)

    def _stand_on(self, name: str, rng: np.random.Generator) -> None:
        holder = self.cast.holder[name]
        surface = self.surface(holder, inside=False)
        assert surface is not None
        waiting = [n for n in self.cast.standing if self.cast.holder[n] == holder]
        ahead = waiting[: waiting.index(name)]
        ignored = {*self.cast.free, *(n for n in self.cast.standing if n not in ahead)}
        spot = random_spot(self, surface, self.cast.assets[name].radius, ignored, rng, dense=True)
        if spot is None:
            spot = surface.center
        self.set_fixture(name, spot, _FRONT)
        self.forward()

    def _place(self, start: State, rng: np.random.Generator, dense: bool) -> str:
        """Put what can move, holders first; the result is the one that finds no room."""
        household = self.cast.household
        left: list[str] = [self.cast.free[k] for k in rng.permutation(len(self.cast.free))]
        # Wide things first, and what holds before what it holds.
        left.sort(key=lambda name: -self.cast.assets[name].radius)
        for number, name in enumerate(left):  # out of the way
            self.set_object(
                name, np.array([3.0 + 0.3 * number, 3.0, 1.0]), np.array([1.0, 0, 0, 0])
            )
        self.forward()
        while left:
            ready = [
                n for n in left if household.names[start.parent[household.index[n]]] not in left
            ]
            for name in ready or left[:1]:
                slot = household.index[name]
                holder = household.names[start.parent[slot]]
                surface = self.surface(holder, start.relation[slot] == INSIDE)
                if surface is None:
                    return name
                asset = self.cast.assets[name]
                spot = random_spot(self, surface, asset.radius, {name}, rng, dense)
                if spot is None:
                    return name
                at = spot + np.array([0.0, 0.0, asset.bottom + _LIFT])
                yaw = float(rng.uniform(-0.3, 0.3)) + _FRONT
                self.set_object(name, at, quat_of_matrix(rotate_z(yaw)))
                self.forward()
                left.remove(name)
        return ""

    def _clash(self) -> str:
        """A thing that overlaps another."""
        contacts = self.data.contact
        for index in np.flatnonzero(contacts.dist < -_DEPTH):
            for geom in contacts.geom[index]:
                name = self.owner_of(int(geom))
                if name in self.plan.objects:
                    return name
        return ""

    def _strayed(self, start: State) -> str:
        """A thing that is not where the state says once all have come to rest."""
        relations = self.relations(None)
        household = self.cast.household
        for name in self.cast.free:
            slot = household.index[name]
            holder = household.names[start.parent[slot]]
            judge = relations.inside if start.relation[slot] == INSIDE else relations.on_top
            if not judge(name, holder):
                return name
        return ""


def _blueprint(cast: Cast, layout: tuple[Zone, ...]) -> Blueprint:
    width = layout[-1].bounds[3] - layout[0].bounds[1]
    depth = layout[0].bounds[2]
    far = max(0.45, width, 1.5 * depth)
    arena = Arena(
        (depth + 0.06, width / 2 + 0.06),
        0.75,
        (0.66, 0.56, 0.45),
        "wood",
        (0.45, 0.45, 0.48),
        (0.80, 0.82, 0.84),
        camera=(0.20 + 0.85 * far, 0.0, 0.15 + 0.95 * far),
        target=(0.02, 0.0, 0.03),
    )
    mats = {zone.name: _mat(zone) for zone in layout}
    fixtures = {**mats, **{name: cast.assets[name] for name in cast.standing}}
    objects = {name: cast.assets[name] for name in cast.free}
    return Blueprint(cast.household.problem, arena, WORKSPACE, fixtures, objects, {})


def _mat(zone: Zone) -> Asset:
    """A floor: a colored sheet for the eye."""
    x0, y0, x1, y1 = zone.bounds
    color = color_of(lemma(zone.name) + zone.name[-1], 0.72)
    half = ((x1 - x0) / 2 - 0.006, (y1 - y0) / 2 - 0.006, 0.0006)
    red, green, blue = (0.6 + 0.3 * part for part in color)
    sheet = Geom("box", half, color=(red, green, blue), solid=False)
    return Asset((sheet,), 0.0, 0.0, 0.001, half[0])
