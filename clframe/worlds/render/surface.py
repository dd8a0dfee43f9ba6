"""Color, shine and texture of every geom of a model, ready to be looked up per pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError, nearest
from clframe.worlds.render.color import to_linear
from clframe.worlds.render.patches import Floats, Patches, dot
from clframe.worlds.render.texture import LEVELS, OFFSETS, SIDE, Texture, pyramid

DARKENED = 0.45
"""The dark color of a texture that names none, as a part of the geom's own."""
UNSET = np.array([0.5, 0.5, 0.5, 1.0], dtype=np.float32)
"""MuJoCo's default color of a geom, which gives way to the color of its material."""


class Surfaces:
    """The look of all geoms of one model.

    Args:
        model: the MuJoCo model.
        textures: textures by the name or number of a geom.
    """

    def __init__(self, model: Any, textures: Mapping[str | int, Texture]) -> None:
        material = np.asarray(model.geom_matid)
        color = np.array(model.geom_rgba, dtype=np.float32)
        # MuJoCo's own renderer gives a geom without a material these two.
        self.specular = np.full(len(color), 0.5, dtype=np.float32)
        shininess = np.full(len(color), 0.5, dtype=np.float32)
        self.emission = np.zeros(len(color), dtype=np.float32)
        with_material = material >= 0
        if with_material.any():
            which = material[with_material]
            unset = (color[with_material] == UNSET).all(axis=1, keepdims=True)
            color[with_material] = np.where(unset, model.mat_rgba[which], color[with_material])
            self.specular[with_material] = model.mat_specular[which]
            shininess[with_material] = model.mat_shininess[which]
            self.emission[with_material] = model.mat_emission[which]
        # Shininess 0..1 is an exponent of 0..128, as in OpenGL.
        self.exponent = shininess * np.float32(128)
        self.color: Floats = to_linear(color[:, :3])
        self.emits = bool(self.emission.any())
        self._model = model
        self._slot = np.full(len(color), -1, dtype=np.int32)
        if textures:
            self._lay(model, textures)

    def _lay(self, model: Any, textures: Mapping[str | int, Texture]) -> None:
        """Collect the patterns in one array, and each textured geom's colors."""
        numbers = [geom_id(model, geom) for geom in textures]
        given = list(textures.values())
        self._geoms = np.array(numbers)
        self._slot[self._geoms] = np.arange(len(given))
        patterns = list(dict.fromkeys((t.pattern, t.seed) for t in given))
        self._cells = np.concatenate([pyramid(*pattern) for pattern in patterns])
        size = len(self._cells) // len(patterns)
        self._start = np.array(
            [patterns.index((t.pattern, t.seed)) * size for t in given], dtype=np.int32
        )
        self._scale = np.array([SIDE / t.period for t in given], dtype=np.float32)
        colors = self.color[self._geoms]
        light = [colors[k] if t.light is None else to_linear(t.light) for k, t in enumerate(given)]
        dark = [
            colors[k] * np.float32(DARKENED) if t.dark is None else to_linear(t.dark)
            for k, t in enumerate(given)
        ]
        self._dark = np.array(dark, dtype=np.float32).T
        self._step = (np.array(light, dtype=np.float32).T - self._dark) / np.float32(255)
        self._turn, self._shift = _mesh_frames(model, self._geoms)

    def albedo(self, data: Any, patches: Patches) -> Floats:
        """The color (3, n) of each patch as amounts of light."""
        colors = self.color.T.take(patches.geom, axis=1)
        slots = self._slot.take(patches.geom)
        chosen = (slots >= 0).nonzero()[0]  # taking by number is faster than by mask or index
        if not len(chosen):
            return colors
        slot = slots.take(chosen)
        axes, origins = self._frames(data)
        axes, origins = axes.take(slot, axis=1), origins.take(slot, axis=1)
        local = _turned(axes, patches.points.take(chosen, axis=1).astype(np.float32) - origins)
        facing = np.abs(_turned(axes, patches.normals.take(chosen, axis=1)))
        u, v = _flatten(local, facing)
        scale = self._scale.take(slot)
        covered = np.maximum(patches.size.take(chosen) * scale, 1.0)
        level = np.minimum(np.log2(covered).astype(np.int32), LEVELS - 1)
        # Cells of the full pattern, wrapped at its period, then shifted down to the halving.
        column = (np.floor(u * scale).astype(np.int32) & (SIDE - 1)) >> level
        row = (np.floor(v * scale).astype(np.int32) & (SIDE - 1)) >> level
        place = self._start.take(slot) + OFFSETS.take(level) + row * (SIDE >> level) + column
        value = self._cells.take(place).astype(np.float32)
        for channel, dark, step in zip(colors, self._dark, self._step, strict=True):
            channel[chosen] = dark.take(slot) + step.take(slot) * value
        return colors

    def _frames(self, data: Any) -> tuple[Floats, Floats]:
        """Axes (9, k; x, y, z in turn) and origin (3, k) of each textured geom in the world."""
        axes = data.geom_xmat[self._geoms].reshape(-1, 3, 3)
        origins = data.geom_xpos[self._geoms] + np.einsum("kij,kj->ki", axes, self._shift)
        axes = (axes @ self._turn).transpose(2, 1, 0).reshape(9, -1)
        return axes.astype(np.float32), origins.T.astype(np.float32)


def _turned(axes: Floats, vectors: Floats) -> Floats:
    """Vectors (3, n) of the world along each one's own axes (9, n)."""
    return np.stack([dot(axes[3 * k : 3 * k + 3], vectors) for k in range(3)])


def _flatten(local: Floats, facing: Floats) -> tuple[Floats, Floats]:
    """Plane coordinates of points: those across the axis the surface faces most."""
    x, y, z = local
    fx, fy, fz = facing
    # A little preference for z keeps a face at exactly 45 degrees from flickering.
    upward = fz * np.float32(1.001) >= np.maximum(fx, fy)
    sideways = fx > fy
    u = np.where(upward | ~sideways, x, y)
    v = np.where(upward, y, z)
    return u, v


def _mesh_frames(
    model: Any, geoms: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The frames meshes were drawn in, seen from their geoms (MuJoCo centers those)."""
    import mujoco

    turn = np.tile(np.eye(3), (len(geoms), 1, 1))
    shift = np.zeros((len(geoms), 3))
    meshes = model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_MESH
    for k in np.flatnonzero(meshes):
        mesh = int(model.geom_dataid[geoms[k]])
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, model.mesh_quat[mesh])
        turn[k] = rotation.reshape(3, 3).T
        shift[k] = -turn[k] @ model.mesh_pos[mesh]
    return turn, shift


def geom_id(model: Any, geom: str | int) -> int:
    """The number of a model's geom given by name or number."""
    import mujoco

    if isinstance(geom, str):
        number = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, geom))
        if number < 0:
            names = [name for k in range(model.ngeom) if (name := model.geom(k).name)]
            raise SettingError(f"The model has no geom {geom!r}; {nearest(geom, names)}")
        return number
    if not 0 <= geom < model.ngeom:
        raise SettingError(f"The model has {model.ngeom} geoms, so there is no geom {geom}.")
    return int(geom)
