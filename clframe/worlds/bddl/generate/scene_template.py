"""A scene under construction: what stands where, with room for everything."""

from __future__ import annotations

import random
from copy import copy
from math import dist

from clframe.worlds.bddl.generate.object_catalog import Arena, Catalog, Category
from clframe.worlds.bddl.goal import Goal
from clframe.worlds.bddl.names import NameTable
from clframe.worlds.bddl.problem import Problem
from clframe.worlds.bddl.syntax import And, Atom, InitLiteral, Literal, Region

Point = tuple[float, float]
_GAP = 0.01
_HALF_FIXTURE, _HALF_OBJECT = 0.01, 0.02
_TRIES = 200
SIDES: dict[str, Point] = {"left": (0, -1), "right": (0, 1), "front": (1, 0), "back": (-1, 0)}
"""Directions as the front camera sees them: it looks along -x, so +y is to its right."""


class NoRoomError(Exception):
    """The scene drawn cannot hold what is asked for; another one is drawn."""


class Scene:
    """An arena with fixtures, objects, regions and initial literals.

    Args:
        arena: Where it is.
        catalog: The categories.
        rng: The source of all chance.
    """

    def __init__(self, arena: Arena, catalog: Catalog, rng: random.Random) -> None:
        self.arena = arena
        self.catalog = catalog
        self.rng = rng
        self.fixtures: dict[str, str] = {arena.workspace: arena.category}
        self.objects: dict[str, str] = {}
        self.regions: dict[str, Region] = {}
        self.init: tuple[Literal, ...] = ()
        self.centers: dict[str, Point] = {}

    def copy(self) -> Scene:
        """A scene that can be changed without changing this one."""
        twin = copy(self)
        twin.fixtures, twin.objects = dict(self.fixtures), dict(self.objects)
        twin.regions, twin.centers = dict(self.regions), dict(self.centers)
        return twin

    def category(self, name: str) -> Category:
        """The category of a fixture or object."""
        if name in self.objects:
            return self.catalog.objects[self.objects[name]]
        return self.catalog.fixtures[self.fixtures[name]]

    def add_fixture(self, kind: str) -> str:
        """Stand a fixture in a free slot that suits it."""
        category = self.catalog.fixtures[kind]
        name = f"{kind}_1"
        self.fixtures[name] = kind
        for slot in self.rng.sample(category.slots, len(category.slots)):
            x, y, yaw = self.arena.slots[slot]
            if self._is_free((x, y), category.radius):
                self._stand(name, (x, y), _HALF_FIXTURE, (yaw, yaw))
                self._add_sites(name, category)
                return name
        raise NoRoomError

    def add_object(self, kind: str) -> str:
        """Declare a further object of a category, not yet placed."""
        number = 1 + sum(other == kind for other in self.objects.values())
        name = f"{kind}_{number}"
        self.objects[name] = kind
        self._add_sites(name, self.catalog.objects[kind])
        return name

    def stand(self, name: str) -> None:
        """Put an object on the workspace wherever there is room."""
        self._stand(name, self._free_point(self.category(name).radius), _HALF_OBJECT, (0.0, 0.0))

    def put(self, relation: str, name: str, place: str) -> None:
        """Put an object on or in something that is already there."""
        self.init += ((relation, name, place),)

    def hold(self, predicate: str, part: str) -> None:
        """Let a part be open or a device on at the start."""
        self.init += ((predicate, part),)

    def mark(self, name: str, center: Point, radius: float) -> str | None:
        """Declare an empty rectangle on the workspace, if there is room for a circle there."""
        if not self._is_free(center, radius):
            return None
        region = self._rectangle(name, center, _HALF_OBJECT, None)
        self.regions[region.full_name] = region
        return region.full_name

    def beside(self, reference: str, side: str, radius: float) -> str | None:
        """Declare a rectangle next to something that stands on the workspace."""
        category, (dx, dy) = self.category(reference), SIDES[side]
        distance = category.radius + radius + 2 * _GAP
        x, y = self.centers[reference]
        center = (round(x + dx * distance, 3), round(y + dy * distance, 3))
        return self.mark(f"{reference}_{side}_region", center, radius)

    def point(self, region: str) -> Point:
        """The center of a rectangle."""
        x0, y0, x1, y1 = self.regions[region].ranges[0]
        return (x0 + x1) / 2, (y0 + y1) / 2

    def problem(
        self, language: str, goal: tuple[Literal, ...], interest: tuple[str, ...]
    ) -> Problem:
        """The scene as a problem with a goal."""
        init = tuple(InitLiteral(literal) for literal in self.init)
        formula = And(tuple(Atom(literal[0], literal[1:]) for literal in goal))
        return Problem(
            name=self.arena.problem,
            domain="robosuite",
            objects=NameTable(self.objects.items()),
            init_literals=init,
            goal=Goal(formula, {}, frozenset(self.init)),
            fixtures=NameTable(self.fixtures.items()),
            regions=tuple(self.regions.values()),
            obj_of_interest=interest,
            language=language,
            libero=True,
        )

    def _stand(self, name: str, center: Point, half: float, yaw: tuple[float, float]) -> None:
        region = self._rectangle(f"{name}_init_region", center, half, yaw)
        self.regions[region.full_name] = region
        self.centers[name] = center
        self.init += (("on", name, region.full_name),)

    def _rectangle(
        self, name: str, center: Point, half: float, yaw: tuple[float, float] | None
    ) -> Region:
        x, y = center
        box = tuple(round(value, 4) for value in (x - half, y - half, x + half, y + half))
        return Region(name, self.arena.workspace, ((box[0], box[1], box[2], box[3]),), yaw)

    def _add_sites(self, name: str, category: Category) -> None:
        for site in category.sites:
            region = Region(site, name)
            self.regions[region.full_name] = region

    def _is_free(self, center: Point, radius: float) -> bool:
        x0, y0, x1, y1 = self.arena.area
        x, y = center
        half = _HALF_OBJECT
        if not (x0 + half <= x <= x1 - half and y0 + half <= y <= y1 - half):
            return False
        return all(
            dist(center, other) >= radius + self.category(name).radius + _GAP
            for name, other in self.centers.items()
        )

    def _free_point(self, radius: float) -> Point:
        x0, y0, x1, y1 = self.arena.area
        for _ in range(_TRIES):
            x, y = self.rng.uniform(x0, x1), self.rng.uniform(y0, y1)
            center = (round(x, 2), round(y, 2))
            if self._is_free(center, radius):
                return center
        raise NoRoomError
