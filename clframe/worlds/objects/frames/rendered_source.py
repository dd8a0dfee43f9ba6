"""The rendered stand-in as a plan: same structure as the data set, every frame made here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames.cache_plan import FARTHEST, Bad, Job, Plan, Section, split_frames

if TYPE_CHECKING:
    from clframe.worlds.objects.rendered import RenderSettings

_INSTANCES_PER_JOB = 8
"""Scenes are made one per instance, so this is a matter of progress and balance only."""


def plan_rendered(settings: RenderSettings, instances: Sequence[str]) -> Plan:
    """All factors and segments of these instances, ``settings.frames`` frames of each.

    Args:
        settings: What decides the content of a frame.
        instances: In label order; the index of each in the catalog becomes its row's instance.
    """
    labels = np.array([catalog.instances().index(name) for name in instances], np.int16)
    frames, size = settings.frames, settings.size
    rows = len(instances) * frames
    sections = {
        (factor, segment): Section(factor, segment, number * rows, (number + 1) * rows)
        for number, (factor, segment) in enumerate(
            (factor, segment) for factor in catalog.FACTORS for segment in catalog.SEGMENTS
        )
    }
    values = dataclasses.asdict(settings)

    def jobs(section: Section) -> list[Job]:
        return [
            {
                "kind": "rendered",
                "start": section.start + first * frames,
                "count": len(instances[first : first + _INSTANCES_PER_JOB]) * frames,
                "factor": section.group,
                "segment": section.number,
                "instances": list(instances[first : first + _INSTANCES_PER_JOB]),
                "settings": values,
            }
            for first in range(0, len(instances), _INSTANCES_PER_JOB)
        ]

    whole = len(instances) == len(catalog.instances())
    # Scenes do not depend on which other instances are there, but the rows of the cache do.
    amount = "all" if whole else f"{len(instances)}-{catalog.digest(instances)}"
    return Plan(
        key=f"rendered-{settings.key()}-{amount}",
        words=(
            f"rendered stand-in for OpenLORIS-Object, not the real images ({len(instances)} "
            f"instances, {frames} frames of each in a segment, {size}x{size})"
        ),
        verb="rendering",
        arrays={
            "rgb": ("|u1", (3, size, size)),
            "depth": ("<u2", (size, size)),
            "mask": ("|u1", (size, size)),
            "box": ("<i2", (4,)),
        },
        sections=sections,
        instance=np.tile(np.repeat(labels, frames), len(sections)),
        split=np.tile(split_frames(frames), len(instances) * len(sections)),
        jobs=jobs,
    )


def produce(job: Job) -> tuple[dict[str, NDArray[np.generic]], Bad]:
    """Render the frames of a job."""
    from clframe.worlds.objects.rendered import RenderSettings, render_segment

    settings = RenderSettings(**job["settings"])
    segment = render_segment(job["factor"], job["segment"], job["instances"], settings)
    labels = [catalog.instances().index(name) for name in job["instances"]]
    if segment.instance.tolist() != np.repeat(labels, settings.frames).tolist():
        raise RuntimeError(f"render_segment returned other frames than asked for: {job}")
    arrays = segment.arrays()
    arrays["depth"] = arrays["depth"].clip(0, FARTHEST).astype(np.uint16)
    return {name: arrays[name] for name in ("rgb", "depth", "mask", "box")}, []
