"""A room with an object in it: ground, wall, light, and things that stand around or in front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError, nearest
from clframe.worlds.objects.models import Thing, attach
from clframe.worlds.objects.models.parts import Solid, quaternion, rotation
from clframe.worlds.objects.path import outline
from clframe.worlds.render import Light, Lighting, Texture, View
from clframe.worlds.render.rays import Caster
from clframe.worlds.render.view import pixel_rays

Color = tuple[float, float, float]
Floats = NDArray[np.float64]

OBJECT, OTHERS = 0, 1
"""Geom groups of the room with its object, and of everything that may stand in the way."""

# Per palette: grounds and walls as pattern, dark and light color, period relative to the object.
_Surface = tuple[str, Color, Color, float]
PALETTES: dict[str, tuple[tuple[_Surface, ...], tuple[_Surface, ...]]] = {
    "home": (
        (
            ("wood", (0.36, 0.22, 0.12), (0.66, 0.46, 0.28), 3.2),
            ("wood", (0.55, 0.40, 0.26), (0.82, 0.67, 0.48), 2.6),
            ("carpet", (0.40, 0.26, 0.22), (0.58, 0.42, 0.36), 2.0),
            ("weave", (0.55, 0.52, 0.44), (0.80, 0.77, 0.68), 3.0),
        ),
        (
            ("plain", (0.80, 0.75, 0.64), (0.84, 0.79, 0.69), 2.0),
            ("stripes", (0.66, 0.70, 0.62), (0.78, 0.80, 0.72), 4.0),
            ("noise", (0.72, 0.60, 0.52), (0.80, 0.70, 0.62), 5.0),
        ),
    ),
    "office": (
        (
            ("carpet", (0.20, 0.24, 0.30), (0.36, 0.41, 0.48), 2.0),
            ("wood", (0.46, 0.42, 0.38), (0.64, 0.60, 0.55), 3.0),
            ("plain", (0.70, 0.71, 0.72), (0.72, 0.73, 0.74), 2.0),
            ("granite", (0.38, 0.40, 0.43), (0.58, 0.60, 0.62), 4.0),
        ),
        (
            ("plain", (0.74, 0.77, 0.80), (0.76, 0.79, 0.82), 2.0),
            ("weave", (0.36, 0.44, 0.54), (0.50, 0.58, 0.66), 2.5),
            ("tiles", (0.55, 0.58, 0.60), (0.75, 0.77, 0.78), 6.0),
        ),
    ),
    "mall": (
        (
            ("tiles", (0.52, 0.50, 0.46), (0.86, 0.84, 0.78), 1.7),
            ("marble", (0.58, 0.56, 0.54), (0.88, 0.87, 0.85), 3.0),
            ("checker", (0.44, 0.42, 0.42), (0.80, 0.78, 0.74), 1.8),
            ("granite", (0.50, 0.44, 0.40), (0.74, 0.68, 0.62), 4.0),
        ),
        (
            ("bricks", (0.46, 0.32, 0.28), (0.66, 0.46, 0.38), 4.0),
            ("tiles", (0.50, 0.60, 0.60), (0.78, 0.86, 0.84), 3.0),
            ("plain", (0.84, 0.82, 0.76), (0.88, 0.86, 0.80), 2.0),
        ),
    ),
}


@dataclass(frozen=True)
class Room:
    """Ground, wall and light about an object."""

    ground: Texture
    wall: Texture
    ground_turn: float
    wall_turn: float
    wall_distance: float
    lighting: Lighting


def check_palette(name: str) -> None:
    """Refuse a palette that is not there."""
    if name != "all" and name not in PALETTES:
        raise SettingError(
            f"There is no palette {name!r}; take 'all' or one of these: {nearest(name, PALETTES)}"
        )


def choose_room(palette: str, thing: Thing, azimuth: float, rng: np.random.Generator) -> Room:
    """Draw a room; `azimuth` (degrees) is the side from which the camera looks."""
    palettes = sorted(PALETTES)
    drawn = palettes[rng.integers(len(palettes))]
    grounds, walls = PALETTES[drawn if palette == "all" else palette]
    size = float(np.linalg.norm(thing.high - thing.low))

    def texture(choices: Sequence[_Surface]) -> Texture:
        pattern, dark, light, period = choices[int(rng.integers(len(choices)))]
        tone = rng.uniform(0.88, 1.08) * rng.uniform(0.96, 1.04, 3)
        dark, light = (tuple(np.clip(np.array(c) * tone, 0, 1).tolist()) for c in (dark, light))
        seed = int(rng.integers(8))  # few, since a pattern is computed once and then shared
        return Texture(pattern, dark, light, period * size * rng.uniform(0.85, 1.2), seed)

    ground, wall = texture(grounds), texture(walls)
    lamp = np.radians(azimuth + rng.choice([-1, 1]) * rng.uniform(20, 70))
    height = np.radians(rng.uniform(48, 68))
    way = (-np.cos(height) * np.sin(lamp), np.cos(height) * np.cos(lamp), -np.sin(height))
    warm = rng.uniform(-1, 1)
    lights = (
        Light(direction=way, intensity=0.70, color=(1.0, 0.97 - 0.02 * warm, 0.93 - 0.05 * warm)),
        Light(direction=(-way[0], -way[1] * 0.3, -1.0), intensity=0.15, shadow=False),
    )
    return Room(
        ground,
        wall,
        ground_turn=rng.uniform(0, 180),
        wall_turn=azimuth + rng.uniform(-28, 28),
        wall_distance=size * rng.uniform(1.3, 2.6),
        lighting=Lighting(lights, ambient=(0.31, 0.31, 0.33)),
    )


@dataclass(frozen=True)
class Prop:
    """Something that is not the object: its solids and where it stands."""

    solids: tuple[Solid, ...]
    at: Floats
    turn: float = 0.0


class Stage:
    """A compiled scene. Props can be moved between frames; the object and the room stay."""

    def __init__(self, thing: Thing, room: Room, props: Sequence[Prop] = ()) -> None:
        import mujoco

        spec = mujoco.MjSpec()
        world = spec.worldbody
        plane = mujoco.mjtGeom.mjGEOM_PLANE
        turn = np.radians(room.wall_turn)
        behind = np.array([-np.sin(turn), np.cos(turn), 0]) * room.wall_distance
        upright = rotation((90, 0, room.wall_turn))
        for name, at, turned in (
            ("ground", np.zeros(3), rotation((0, 0, room.ground_turn))),
            ("wall", behind, upright),
        ):
            world.add_geom(name=name, type=plane, size=[0, 0, 1], pos=at, quat=quaternion(turned))
        attach(spec, world.add_body(name="object"), thing.solids, "object")
        for k, prop in enumerate(props):
            quat = quaternion(rotation((0, 0, prop.turn)))
            body = world.add_body(name=f"prop{k}", mocap=True, pos=prop.at, quat=quat)
            attach(spec, body, prop.solids, f"prop{k}_")
        for body in spec.bodies[2:]:
            for geom in body.geoms:
                geom.group = OTHERS
        self.thing = thing
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.textures: dict[str | int, Texture] = {"ground": room.ground, "wall": room.wall}
        self._past_props = Caster(self.model, [OBJECT])
        self._all = Caster(self.model, [OBJECT, OTHERS])
        self.object_geoms = np.flatnonzero(self.model.geom_bodyid == 1)
        self._update()

    def _update(self) -> None:
        import mujoco

        mujoco.mj_kinematics(self.model, self.data)

    def move(self, prop: int, at: Floats) -> None:
        """Put a prop somewhere else."""
        self.data.mocap_pos[prop] = at
        self._update()

    def is_object(self, geom: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Where the geoms are the object's."""
        first, last = self.object_geoms[0], self.object_geoms[-1]
        return np.asarray((geom >= first) & (geom <= last))

    def sight_lines(self, view: View, size: int) -> Floats:
        """Rays (n, 3) of an image of this size that meet the object when no prop is there."""
        x0, y0, x1, y1 = outline(view, self.thing.points)
        column = np.tile((np.arange(size) + 0.5) / size * 2 - 1, size)
        row = np.repeat(1 - (np.arange(size) + 0.5) / size * 2, size)
        near = (column >= x0) & (column <= x1) & (row >= y0) & (row <= y1)
        rays = (view.rotation @ pixel_rays(size, size, view.fovy)[:, near]).T
        hits = self._past_props.cast(self.data, view.position, rays)
        return np.asarray(rays[self.is_object(hits.geom)])

    def in_front(self, view: View, rays: Floats) -> NDArray[np.int64]:
        """For rays that would meet the object, the number of the prop in the way, or -1."""
        hits = self._all.cast(self.data, view.position, rays)
        bodies = np.where(hits.geom >= 0, self.model.geom_bodyid[hits.geom], 0)
        return np.asarray(np.where(bodies >= 2, bodies - 2, -1))
