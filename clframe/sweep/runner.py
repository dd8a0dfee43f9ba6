"""Run many jobs on this machine, each in its own process: seeds, experts and grids of runs.

A sweep does more (its folder, its record, clusters); see :mod:`clframe.cli.sweep`. Both start runs
as a :class:`clframe.sweep.job.Job` through a launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from clframe.build import write_config
from clframe.config.run_config import RunConfig
from clframe.core.plugin import Plugin
from clframe.sweep.job import Job, failure
from clframe.sweep.launcher import Interrupts, JobResult, run_all
from clframe.sweep.local import LocalLauncher, visible_gpus
from clframe.sweep.settings import SweepSettings


def can_be_written(config: RunConfig) -> bool:
    """Return whether a file can describe a run, so that another process can start it."""
    strategy = config.strategy if isinstance(config.strategy, Sequence) else [config.strategy]
    return (
        isinstance(config.stream, str | dict)
        and (config.model is None or isinstance(config.model, str | dict))
        and not any(isinstance(item, Plugin) for item in strategy)
        and config.run_dir is not False
    )


def job_of(config: RunConfig, title: str) -> Job:
    """Make a run's folder and ``config.yaml``, and return it as a job."""
    folder = write_config(config).path.resolve()
    return Job(
        name=folder.name,
        overrides=(),
        title=title,
        folder=folder,
        log=folder / "output.log",
        allow=(),
    )


def run_jobs(
    jobs: Sequence[Job],
    at_once: int | None = None,
    on_end: Callable[[JobResult, str | None], None] | None = None,
    cwd: Path | None = None,
) -> dict[str, str]:
    """Run unfinished jobs, ``at_once`` at a time; Ctrl-C lets the runs save and stop.

    Args:
        jobs: The jobs in order; their names must be different.
        at_once: Maximum number at a time; None for the number of usable cores or GPUs.
        on_end: Called when each ends, with the reason of its failure (None if it did not fail).
        cwd: The working directory of the runs.

    Returns:
        The reasons of failed runs, by name.

    Raises:
        KeyboardInterrupt: The runs have stopped after Ctrl-C.
    """
    waiting = [job for job in jobs if job.state != "finished"]
    failures: dict[str, str] = {}
    if not waiting:
        return failures
    interrupts = Interrupts()
    launcher = LocalLauncher(
        SweepSettings(jobs=at_once), visible_gpus(), None if cwd is None else str(cwd)
    )
    try:
        with interrupts.counting():
            for ended in run_all(launcher, waiting, interrupts, lambda job: None):
                reason = failure(ended.job, ended.code)
                if reason is not None:
                    failures[ended.job.name] = reason
                if on_end is not None:
                    on_end(ended, reason)
    finally:
        launcher.close()
    if interrupts.count:
        raise KeyboardInterrupt
    return failures
