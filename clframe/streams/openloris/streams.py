"""The six streams of OpenLORIS-Object: four factors, the 12-task sequence, and the mixture.

She et al., "OpenLORIS-Object: A robotic vision dataset and benchmark for lifelong deep learning",
ICRA 2020, Section IV: all classes in every task (domain-incremental, one head), every test set
evaluated after every experience.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from clframe.core.stream import Experience, Stream, Task
from clframe.errors import DataError, SettingError
from clframe.streams.openloris.experiences import SEQUENCE, experience_specs
from clframe.streams.openloris.frames import Frames
from clframe.utils.setting_checks import at_least
from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames.cache_plan import SPLITS
from clframe.worlds.objects.frames.clips import MIXTURE
from clframe.worlds.objects.frames.layouts import looks_right, scan
from clframe.worlds.objects.frames.official import plan_official
from clframe.worlds.objects.frames.rendered_source import plan_rendered

if TYPE_CHECKING:
    from clframe.core.registry import Registry

FRAMES = 10
"""Default frames per instance in a rendered segment: 8 for training, 1 and 1 held out."""

_ARRAYS = {"rgb": ("rgb",), "rgbd": ("rgb", "depth"), "depth": ("depth",)}
_CHANNELS = {"rgb": 3, "rgbd": 4, "depth": 1}


def openloris(
    kind: str,
    data_dir: Path,
    seed: int = 0,
    source: Literal["auto", "official", "rendered"] = "auto",
    folder: str | None = None,
    target: Literal["instance", "category"] = "instance",
    modality: Literal["rgb", "rgbd", "depth"] = "rgb",
    size: int = 64,
    frames: int | None = None,
    n_instances: int | None = None,
    present_only: bool = False,
    evaluate_on: Literal["test", "validation"] = "test",
    masked: bool = False,
    depth_range: float = 2.0,
    depth_noise: bool = False,
    renderer: Literal["ray", "gl"] = "ray",
    palette: Literal["all", "home", "office", "mall"] = "all",
    render_seed: int = 0,
    bad_images: Literal["fail", "skip"] = "fail",
    num_workers: int | None = None,
) -> Stream:
    """One of the OpenLORIS-Object streams.

    Args:
        kind: A factor (9 tasks, one per segment), ``sequence`` (12 tasks: the three segments of
            each level together, factor after factor) or ``mixture`` (challenge style: the
            challenge's batches if the folder has them, else 12 batches of three random segments
            from all factors, each of two or three factor levels).
        data_dir: The data folder; it holds the cache, and may hold the official data.
        seed: The seed of the mixture.
        source: ``official`` frames, ``rendered`` ones, or ``auto``: official ones if they exist.
        folder: The folder of the official frames; None searches the data folder.
        target: Distinguish the 121 instances, as the authors do, or the 40 categories.
        modality: Color, color with depth as a fourth channel, or only depth.
        size: Side of an image in pixels.
        frames: Frames per instance and segment; None is 10 rendered ones, or all official ones.
        n_instances: Use only the first n of the catalog (69: the challenge's edition).
        present_only: Outputs only for instances in the folder; otherwise the head has all of them
            in any edition, as in the authors' code.
        evaluate_on: The held-out split for evaluation.
        masked: Black out everything except the object; needs masks.
        depth_range: Distance in meters that is scaled to 1; larger ones are clipped.
        depth_noise: Add a depth camera's noise and holes to rendered depth.
        renderer: ``ray`` works everywhere, ``gl`` needs EGL or OSMesa.
        palette: The palette of rendered rooms.
        render_seed: The seed of rendered scenes; another seed is another dataset.
        bad_images: Fail on an official image that cannot be read, or skip and count it.
        num_workers: Processes that fill the cache; None is one per core.
    """
    name = f"openloris_{kind}"
    at_least(size, 16, f"stream '{name}': size")
    at_least(frames, 2, f"stream '{name}': frames")
    at_least(num_workers, 1, f"stream '{name}': num_workers")
    if depth_range <= 0:
        raise SettingError(f"stream '{name}': depth_range must be above 0, got {depth_range!r}")
    chosen = _chosen(n_instances, name)
    arrays = [*_ARRAYS[modality], *(["mask"] if masked else [])]
    root = _official_root(source, folder, data_dir, name)
    if root is None:
        # Imports MuJoCo, which listing streams or using real frames does not need.
        from clframe.worlds.objects.rendered import RenderSettings

        render_settings = RenderSettings(
            size=size,
            frames=frames or FRAMES,
            seed=render_seed,
            depth_noise=depth_noise,
            renderer=renderer,
            palette=palette,
        )
        plan = plan_rendered(render_settings, chosen)
    else:
        dataset = scan(root.resolve())
        plan = plan_official(dataset, chosen, size, arrays, frames)
        if present_only:
            chosen = [catalog.instances()[i] for i in np.unique(plan.instance)]
    frames_of = Frames(
        plan=plan,
        folder=data_dir / "openloris",
        modality=modality,
        arrays=arrays,
        depth_range=depth_range,
        labels=_labels(chosen, target),
        held_out=SPLITS.index(evaluate_on),
        skip_bad=bad_images == "skip",
        num_workers=num_workers,
    )
    specs = experience_specs(kind, plan, seed, name)
    for spec in specs:
        frames_of.sections += spec.sections
    n_outputs = int(frames_of.labels.max()) + 1
    outputs = tuple(range(n_outputs))
    make = functools.cache(frames_of.make)
    tasks = [
        Task(i, spec.name, outputs, functools.partial(make, False, i, spec), spec.info)
        for i, spec in enumerate(specs)
    ]
    experiences = [
        Experience(i, task.name, (task,), functools.partial(make, True, i, specs[i]), task.info)
        for i, task in enumerate(tasks)
    ]
    shape = (_CHANNELS[modality], size, size)
    return Stream(name, "domain", experiences, tasks, shape, n_outputs, plan.words, seed)


# ---------------------------------------------------------------- frames and labels


def _chosen(n_instances: int | None, name: str) -> list[str]:
    everything = catalog.instances()
    if n_instances is None:
        return list(everything)
    if not 2 <= n_instances <= len(everything):
        raise SettingError(
            f"stream '{name}': n_instances must be between 2 and {len(everything)}, got "
            f"{n_instances}"
        )
    return list(everything[:n_instances])


def _labels(chosen: Sequence[str], target: str) -> NDArray[np.int64]:
    """Return the output unit of every instance of the catalog; -1 if it is not chosen."""
    labels = np.full(len(catalog.instances()), -1, np.int64)
    categories = list(dict.fromkeys(catalog.category_of(name) for name in chosen))
    for unit, name in enumerate(chosen):
        position = catalog.instances().index(name)
        labels[position] = (
            unit if target == "instance" else categories.index(catalog.category_of(name))
        )
    return labels


def _official_root(source: str, folder: str | None, data_dir: Path, name: str) -> Path | None:
    """Return the folder of the official frames; None for the rendered stand-in."""
    if source == "rendered":
        if folder is not None:
            raise SettingError(
                f"stream '{name}': folder='{folder}' is for official frames; omit it or "
                "source=rendered"
            )
        return None
    if folder is not None:
        return Path(folder).expanduser()
    candidates = [data_dir, *(data_dir / n for n in ("openloris", "OpenLORIS-Object", "OpenLORIS"))]
    for candidate in candidates:
        if looks_right(candidate):
            return candidate
    if source == "official":
        raise DataError(
            f"stream '{name}': there is no OpenLORIS-Object in '{data_dir}'; set its folder with "
            "stream.folder=DIR, or use source=rendered, which needs no data"
        )
    return None


def add_streams(registry: Registry) -> None:
    """Register the streams."""
    titles = {
        **{factor: f"nine tasks of changing {factor}" for factor in catalog.FACTORS},
        "pixel": "nine tasks of changing object size",
        SEQUENCE: "twelve tasks, each level of each factor",
        MIXTURE: "challenge style, batches that mix factor levels",
    }
    for kind, title in titles.items():
        factory = functools.partial(openloris, kind)
        summary = f"OpenLORIS-Object (RGB-D), {title}; rendered if there is no real data"
        registry.add("stream", f"openloris_{kind}", factory, summary, family="openloris")
