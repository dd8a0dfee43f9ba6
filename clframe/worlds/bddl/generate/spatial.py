"""Scenes of the spatial suite: two equal objects, and the words for where the wanted one stands."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import dist

from clframe.worlds.bddl.generate.object_catalog import Catalog
from clframe.worlds.bddl.generate.scene_template import SIDES, NoRoomError, Scene
from clframe.worlds.bddl.problem import Problem

_TASKS_PER_SCENE = 10


@dataclass(frozen=True)
class _Spot:
    """A place for one of the two objects, and how an instruction names it."""

    words: str
    relation: str
    place: str
    part: str | None = None


def spatial_scene(catalog: Catalog, rng: random.Random) -> Iterator[Problem]:
    """Draw a scene and yield one task for each of up to ten spots of the wanted object.

    Raises:
        NoRoomError: If the scene drawn has no room for everything.
    """
    arena = catalog.arenas["table"]
    scene = Scene(arena, catalog, rng)
    cabinet, stove = scene.add_fixture("wooden_cabinet"), scene.add_fixture("flat_stove")
    plate_accepts = catalog.objects["plate"].accepts
    kind = rng.choice([k for k in arena.objects if catalog.objects[k].kind in plate_accepts])
    others = [k for k in arena.objects if k not in (kind, "plate")]
    target, twin = scene.add_object(kind), scene.add_object(kind)
    plate = scene.add_object("plate")
    references = [scene.add_object(other) for other in rng.sample(others, 2)]
    for name in (plate, *references):
        scene.stand(name)
    spots = _spots(scene, target, [plate, *references], [cabinet, stove])
    if len(spots) < 2:
        raise NoRoomError
    category = scene.category(target)
    for spot in rng.sample(spots, min(_TASKS_PER_SCENE, len(spots))):
        rivals = [other for other in spots if _apart(scene, spot, other, 2 * category.radius)]
        if not rivals:
            continue
        rival = rng.choice(rivals)
        task = scene.copy()
        task.put(spot.relation, target, spot.place)
        task.put(rival.relation, twin, rival.place)
        for part in sorted({part for part in (spot.part, rival.part) if part}):
            task.hold("open", part)
        language = f"pick up the {category.words} {spot.words} and place it on the plate"
        yield task.problem(language, (("on", target, plate),), (target, plate))


def _spots(scene: Scene, target: str, standing: list[str], fixtures: list[str]) -> list[_Spot]:
    """Every place where the scene has room for the object, with its words."""
    category = scene.category(target)
    spots: list[_Spot] = []
    for name in standing:
        words = scene.category(name).words
        side = scene.rng.choice(sorted(SIDES))
        if region := scene.beside(name, side, category.radius):
            spots.append(_Spot(f"next to the {words}", "on", region))
        if name != standing[0] and category.kind in scene.category(name).accepts:
            spots.append(_Spot(f"on the {words}", "on", name))
    for name in standing[1:]:
        (x0, y0), (x1, y1) = scene.centers[standing[0]], scene.centers[name]
        middle = (round((x0 + x1) / 2, 3), round((y0 + y1) / 2, 3))
        if region := scene.mark(f"between_plate_{name}_region", middle, category.radius):
            words = scene.category(name).words
            spots.append(_Spot(f"between the plate and the {words}", "on", region))
    if region := scene.mark("table_center", (-0.05, 0.0), category.radius):
        spots.append(_Spot("from table center", "on", region))
    for name in fixtures:
        for site_name, site in scene.category(name).sites.items():
            if category.kind in site.accepts:
                place = f"{name}_{site_name}"
                part = place if site.door == "site" else None
                spots.append(_Spot(f"{site.relation} {site.words}", site.relation, place, part))
    return spots


def _apart(scene: Scene, one: _Spot, other: _Spot, distance: float) -> bool:
    """Whether both spots can be taken at once."""
    if one == other:
        return False
    regions = [scene.regions.get(spot.place) for spot in (one, other)]
    if all(region is not None and region.ranges for region in regions):
        return dist(scene.point(one.place), scene.point(other.place)) >= distance
    return True
