"""The color of hit points: ambient light, Lambert's law, highlights and hard shadows."""

from __future__ import annotations

from typing import Any

import numpy as np

from clframe.worlds.render.color import to_linear
from clframe.worlds.render.lighting import Lighting
from clframe.worlds.render.patches import Floats, Patches, dot, length
from clframe.worlds.render.rays import Caster
from clframe.worlds.render.shadows import reached
from clframe.worlds.render.surface import Surfaces

HIGHLIGHT = np.float32(0.35)
"""Brightness of a full highlight of intensity 1 on a material of specular 1."""


def shade(
    caster: Caster, data: Any, surfaces: Surfaces, lighting: Lighting, patches: Patches
) -> Floats:
    """Light (3, n) that leaves each patch towards the eye.

    Args:
        caster: of the model; decides what stands in the light.
        data: positions of its geoms.
        surfaces: the look of its geoms.
        lighting: what shines.
        patches: what is seen.
    """
    geom, normals = patches.geom, patches.normals
    # Light from all around: full from above, a part of it from below.
    bounce = np.float32(lighting.bounce)
    upness = (normals[2] + np.float32(1)) * ((1 - bounce) / 2) + bounce
    irradiance = np.asarray(lighting.ambient, dtype=np.float32)[:, None] * upness
    gloss = np.zeros_like(irradiance)
    specular, exponent = surfaces.specular.take(geom), surfaces.exponent.take(geom)
    for light in lighting.lights:
        if light.intensity == 0:
            continue
        origin = light.origin()
        ways = patches.points - origin[:, None]
        towards = ways.astype(np.float32)
        towards /= -length(towards)
        cosine = np.maximum(dot(towards, normals), 0)
        if light.shadow:
            lit = cosine.nonzero()[0]
            dark = ~reached(caster, data, origin, ways.take(lit, axis=1))
            cosine[lit[dark]] = 0
        color = np.float32(light.intensity) * np.asarray(light.color, dtype=np.float32)[:, None]
        irradiance += color * cosine
        half = towards + patches.towards_eye
        peak = dot(half, normals) / (length(half) + np.float32(1e-6))
        # peak ** exponent is below exp(-7) elsewhere, and powers are slow.
        shiny = (((1 - peak) * exponent < 7) & (cosine > 0) & (specular > 0)).nonzero()[0]
        strength = np.zeros_like(peak)
        highlights = np.maximum(peak.take(shiny), 0) ** exponent.take(shiny)
        strength[shiny] = highlights * specular.take(shiny)
        gloss += color * strength
    albedo = surfaces.albedo(data, patches)
    if surfaces.emits:
        irradiance += surfaces.emission[geom]
    irradiance *= albedo
    irradiance += HIGHLIGHT * gloss
    return np.asarray(irradiance)


def background(upward: Floats, lighting: Lighting) -> Floats:
    """Light (3, n) of the sky in the direction of rays of unit length that rise by `upward`."""
    height = np.minimum(np.maximum(upward, 0), 1)
    horizon = to_linear(lighting.horizon)[:, None]
    return np.asarray(horizon + (to_linear(lighting.zenith)[:, None] - horizon) * height)
