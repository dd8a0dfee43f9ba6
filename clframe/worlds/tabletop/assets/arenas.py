"""The five workspaces of LIBERO. The working surface is at z = 0 in all of them."""

from __future__ import annotations

from dataclasses import dataclass

from clframe.worlds.tabletop.assets.shapes import Color, Geom, Vector

SURFACE_DEPTH = 0.02
"""Half the thickness of a table top."""


@dataclass(frozen=True)
class Arena:
    """A workspace.

    Args:
        half: Half sizes of the surface along x and y.
        height: Of the surface above the floor; 0 is the floor itself.
        color: Of the surface.
        texture: Of the surface.
        floor: Color of the floor.
        wall: Color of the wall behind.
        camera: Where the agent's camera stands.
        target: What it looks at.
        base: Where an arm is mounted.
    """

    half: tuple[float, float]
    height: float
    color: Color
    texture: str
    floor: Color
    wall: Color
    camera: Vector = (0.86, 0.0, 0.84)
    target: Vector = (-0.11, 0.0, 0.09)
    base: Vector = (-0.66, 0.0, 0.0)

    def geoms(self) -> tuple[Geom, ...]:
        """The table top; nothing where the floor is the surface."""
        if self.height == 0:
            return ()
        x, y = self.half
        return (
            Geom(
                "box",
                (x, y, SURFACE_DEPTH),
                (0, 0, -SURFACE_DEPTH),
                self.color,
                texture=self.texture,
            ),
        )


ARENAS: dict[str, Arena] = {
    "table": Arena(
        (0.50, 0.60), 0.90, (0.72, 0.64, 0.55), "wood", (0.5, 0.5, 0.52), (0.8, 0.8, 0.78)
    ),
    "kitchen_table": Arena(
        (0.50, 0.60), 0.90, (0.80, 0.78, 0.74), "marble", (0.55, 0.50, 0.45), (0.86, 0.84, 0.76)
    ),
    "living_room_table": Arena(
        (0.35, 0.80), 0.41, (0.50, 0.36, 0.26), "wood", (0.62, 0.52, 0.42), (0.76, 0.80, 0.84)
    ),
    "study_table": Arena(
        (0.45, 0.60), 0.867, (0.66, 0.58, 0.46), "wood", (0.40, 0.42, 0.46), (0.78, 0.74, 0.68)
    ),
    "floor": Arena(
        (0.60, 0.80), 0.0, (0.68, 0.66, 0.62), "tiles", (0.68, 0.66, 0.62), (0.8, 0.82, 0.84)
    ),
}
