"""Fills the cache of a plan: worker processes, a progress bar, one section after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from clframe.errors import DataError
from clframe.utils.console import warn_user
from clframe.utils.processes import WorkerPool, usable_cores
from clframe.utils.progress import ProgressMeter
from clframe.worlds.objects.frames.cache import Cache
from clframe.worlds.objects.frames.cache_plan import Bad, Plan, Section
from clframe.worlds.objects.frames.worker import execute

_SMALL = 400
"""So few images are made in this process: starting others would take longer."""


def ensure(
    plan: Plan,
    sections: Sequence[Section],
    folder: Path,
    num_workers: int | None = None,
    skip_bad: bool = False,
) -> Cache:
    """The cache of a plan with these sections in it, made now as far as they are missing.

    Args:
        plan: What to put there.
        sections: Which of it.
        folder: Holds one folder per plan.
        num_workers: Processes; None is one per CPU core, fewer for little work.
        skip_bad: Leave out images that cannot be read; otherwise the first one is an error.

    Raises:
        DataError: An image cannot be read, or the cache cannot be written.
    """
    cache = Cache(folder / plan.key, plan)
    if cache.unfinished(sections, retry_bad=not skip_bad):
        with cache.locked():
            cache.create()
            # Another process may have made them while this one waited for the lock.
            todo = cache.unfinished(sections, retry_bad=not skip_bad)
            cache.forget(todo)
            _build(cache, todo, num_workers, skip_bad)
    return cache


def _build(
    cache: Cache, sections: Sequence[Section], num_workers: int | None, skip_bad: bool
) -> None:
    plan = cache.plan
    jobs = {section.name: plan.jobs(section) for section in sections}
    open_jobs = {section.name: len(jobs[section.name]) for section in sections}
    home = {job["start"]: section for section in sections for job in jobs[section.name]}
    bad: dict[str, Bad] = {section.name: [] for section in sections}
    total = sum(len(section) for section in sections)

    everything = [job for section in sections for job in jobs[section.name]]
    chosen = num_workers or (1 if total < _SMALL else usable_cores())
    processes = 0 if chosen == 1 else min(chosen, len(everything))

    warn_user(f"{plan.verb} {total:,} images into {cache.folder}")
    with (
        ProgressMeter(plan.verb, total, "images", summary=True) as meter,
        WorkerPool(processes, _exit_sentence) as pool,
    ):
        for job, problems in pool.map_unordered(partial(execute, cache.folder), everything):
            section = home[job["start"]]
            if problems and not skip_bad:
                raise DataError(f"{problems[0][1]}; bad_images=skip leaves such images out")
            bad[section.name] += problems
            open_jobs[section.name] -= 1
            if not open_jobs[section.name]:
                cache.finish(section, sorted(bad[section.name]))
            meter.update(job["count"])


def _exit_sentence(code: int) -> str:
    return (
        f"a worker process ended with code {code} before its images were made (memory?); "
        "what is finished is kept, and num_workers=1 works without other processes"
    )
