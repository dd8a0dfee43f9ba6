"""Rendered OpenLORIS segments: the same structure as the recorded ones, made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError, nearest
from clframe.worlds.objects import catalog, factors
from clframe.worlds.objects.clutter import clutter
from clframe.worlds.objects.models import build
from clframe.worlds.objects.occlusion import hide, occluders
from clframe.worlds.objects.path import choose_path, views
from clframe.worlds.objects.scene import Stage, check_palette, choose_room
from clframe.worlds.objects.segment import Segment
from clframe.worlds.render import (
    GLCamera,
    Lighting,
    RayCamera,
    View,
    camera,
    depth_noise,
    sensor_noise,
)

VERSION = 3
"""Goes up when the same settings give other images, so that caches are not mixed."""
FEW_PIXELS = 3
"""An object that fewer rays than this meet is rendered again with more, so that it is not lost."""


@dataclass(frozen=True)
class RenderSettings:
    """What decides every pixel of the rendered data.

    Attributes:
        size: of the square images in pixels.
        frames: per instance and segment.
        seed: of rooms, paths, clutter and noise.
        depth_noise: whether depth has the errors and holes of a RealSense camera.
        renderer: "ray", which runs everywhere, or "gl".
        samples: rays along each side of a pixel where colors change.
        palette: of the rooms: "home", "office", "mall" or "all".
    """

    size: int = 64
    frames: int = 10
    seed: int = 0
    depth_noise: bool = False
    renderer: str = "ray"
    samples: int = 1
    palette: str = "all"

    def __post_init__(self) -> None:
        for name, least in (("size", 16), ("frames", 1), ("seed", 0), ("samples", 1)):
            if getattr(self, name) < least:
                raise SettingError(f"{name}={getattr(self, name)} must be {least} or more.")
        if self.renderer not in ("ray", "gl"):
            raise SettingError(f"There is no renderer {self.renderer!r}; take 'ray' or 'gl'.")
        check_palette(self.palette)

    def key(self) -> str:
        """A name for the folder of what these settings give.

        >>> RenderSettings().key()
        'v3-ray-64px-10f-s0-x1-all-clean'
        """
        size, frames, seed, noisy, renderer, samples, palette = astuple(self)
        depth = "noisy" if noisy else "clean"
        return f"v{VERSION}-{renderer}-{size}px-{frames}f-s{seed}-x{samples}-{palette}-{depth}"


def render_segment(
    factor: str, segment: int, instances: Sequence[str], settings: RenderSettings
) -> Segment:
    """Render the frames of some instances in one segment of a factor.

    An instance's frames depend on the settings, the factor and the segment alone, not on what else
    is rendered with it. Segments 1, 4 and 7 (2, 5, 8; 3, 6, 9) share room and camera path: between
    them only the factor's level changes.

    Args:
        factor: one of the four.
        segment: 1 to 9.
        instances: names such as ``cup_10``, in the order wanted.
        settings: size, number of frames, seed and so on.

    Returns:
        RGB, depth, mask of the visible part of the object, and its box (x1 and y1 exclusive).
    """
    if factor not in catalog.FACTORS:
        raise DataError(f"OpenLORIS has no factor {factor!r}; {nearest(factor, catalog.FACTORS)}")
    if segment not in catalog.SEGMENTS:
        raise DataError(f"OpenLORIS has segments 1 to 9 of a factor, not {segment}.")
    parts = [_render_instance(factor, segment, name, settings) for name in instances]
    if not parts:
        raise DataError("There is no instance to render.")
    return Segment.join(parts)


def set_stage(
    factor: str, segment: int, instance: str, settings: RenderSettings
) -> tuple[Stage, list[View], Lighting]:
    """The compiled scene, the camera path and the light of one instance in one segment."""
    label = catalog.instances().index(instance) if instance in catalog.instances() else -1
    thing = build(instance)
    view = (segment - 1) % 3
    number = catalog.FACTORS.index(factor)
    # Room and path do not depend on the level; what the level adds has its own chance.
    rng = np.random.default_rng([settings.seed, number, view, label])
    extra = np.random.default_rng([settings.seed, number, segment, label, 1])
    path = choose_path(thing, view, rng)
    room = choose_room(settings.palette, thing, path.azimuth, rng)
    share = factors.object_share(factors.level_index(factor, segment, "pixel"), rng)
    shots = views(path, thing, settings.frames, share)

    hidden = factors.OCCLUDED[factors.level_index(factor, segment, "occlusion")]
    count = factors.CLUTTER[factors.level_index(factor, segment, "clutter")]
    if hidden:
        choices = occluders(thing, shots, extra)
        stage = Stage(thing, room, [choice.prop for choice in choices])
        hide(stage, choices, shots, settings.size, hidden)
    else:
        stage = Stage(thing, room, clutter(instance, thing, shots, count, extra))
    lighting = factors.lit(room.lighting, factors.level_index(factor, segment, "illumination"))
    return stage, shots, lighting


def _render_instance(factor: str, segment: int, instance: str, settings: RenderSettings) -> Segment:
    stage, shots, lighting = set_stage(factor, segment, instance, settings)
    label = catalog.instances().index(instance)
    seeds = [settings.seed, catalog.FACTORS.index(factor), segment, label, 2]
    noise = np.random.default_rng(seeds)
    gain = factors.ILLUMINATION[factors.level_index(factor, segment, "illumination")].gain
    eye = _camera(stage, settings)
    n, size = len(shots), settings.size
    rgb = np.empty((n, 3, size, size), dtype=np.uint8)
    depth = np.empty((n, size, size), dtype=np.uint16)
    mask = np.empty((n, size, size), dtype=np.uint8)
    box = np.empty((n, 4), dtype=np.int16)
    for k, view in enumerate(shots):
        frame = eye.render(stage.data, view, lighting)
        seen = stage.is_object(frame.geom)
        if np.count_nonzero(seen) < FEW_PIXELS:
            frame = _camera(stage, settings, fine=True).render(stage.data, view, lighting)
            seen = seen | _thin_mask(stage, view, size)
        rgb[k] = sensor_noise(frame.rgb, noise, gain=gain).transpose(2, 0, 1)
        meters = depth_noise(frame.depth, noise, view.fovy) if settings.depth_noise else frame.depth
        depth[k] = np.clip(np.round(meters * 1000), 0, 65535)
        mask[k] = seen
        box[k] = _box(seen)
    instances = np.full(n, label, dtype=np.int16)
    return Segment(rgb, instances, np.arange(n, dtype=np.int16), depth, mask, box)


def _box(seen: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _camera(stage: Stage, settings: RenderSettings, fine: bool = False) -> RayCamera | GLCamera:
    """The camera of a scene; a fine one casts more rays everywhere."""
    options: dict[str, Any] = {"samples": settings.samples}
    if fine and settings.renderer == "ray":
        options = {"samples": max(2, settings.samples), "contrast": 0}
    side = settings.size
    return camera(settings.renderer, stage.model, side, side, textures=stage.textures, **options)


def _thin_mask(stage: Stage, view: View, size: int) -> NDArray[np.bool_]:
    """The pixels of which an object so thin that hardly any pixel's center meets it covers a part.

    Looked for on a grid eight times finer; a pixel counts that is covered at least a quarter as
    much as the one covered most. If even that grid misses the object, the pixel of its middle.
    """
    fine = stage.sight_lines(view, 8 * size) @ view.rotation
    if not len(fine):
        fine = (stage.thing.points.mean(axis=0) - view.position)[None] @ view.rotation
    flat = fine[:, :2] / (-fine[:, 2:] * np.tan(np.radians(view.fovy) / 2))
    column = np.clip((flat[:, 0] + 1) / 2 * size, 0, size - 1).astype(int)
    row = np.clip((1 - flat[:, 1]) / 2 * size, 0, size - 1).astype(int)
    covered = np.zeros((size, size))
    np.add.at(covered, (row, column), 1)
    return np.asarray(covered >= 0.25 * covered.max())
