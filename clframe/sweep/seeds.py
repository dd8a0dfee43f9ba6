"""Run several seeds at once: as one batched model if possible, else as processes.

Small models spend their time in Python and in starting kernels, not in arithmetic; five of them
side by side cost little more than one. The results equal those of separate runs, up to the order in
which a batched product adds its terms.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.api import fit_config
from clframe.config.record import logger_settings
from clframe.core.results import Result
from clframe.errors import RunFolderError, SettingError
from clframe.sweep.launcher import JobResult
from clframe.sweep.runner import can_be_written, job_of, run_jobs
from clframe.sweep.seed_group import SeedGroup, unsupported_reason
from clframe.utils.console import warn_user
from clframe.utils.setting_checks import convert

if TYPE_CHECKING:
    from clframe.config.run_config import RunConfig


def fit_seeds(config: RunConfig, seeds: Sequence[int]) -> list[Result]:
    """Learn a stream once per seed.

    Args:
        config: Config of each run, except for its seed; with ``run_dir`` each has a folder
            ``RUN_DIR/s<seed>``.
        seeds: Seeds of the runs.

    Returns:
        One result per seed, in order.
    """
    chosen = [convert(seed, int, "seeds") for seed in seeds]
    if not chosen or len(set(chosen)) != len(chosen):
        raise SettingError(f"seeds must be a list of different numbers, got {list(seeds)}")
    if config.resume is not None:
        raise SettingError("seeds cannot be used with resume; continue each run by itself")
    config = in_one_group(config)
    configs = [of_seed(config, seed, first=seed == chosen[0]) for seed in chosen]
    if len(configs) == 1:
        return [fit_config(configs[0])]
    # Stored in the config, so that each run can be continued alone with the same bits.
    batched = {**(config.trainer or {}), "batched": True}
    group = SeedGroup([seed_config.replace(trainer=batched) for seed_config in configs])
    reason = unsupported_reason(group.runs)
    if reason is None:
        return group.run()
    if not all(can_be_written(seed_config) for seed_config in configs):
        warn_user(f"seeds are run one after the other: {reason}")
        return [fit_config(seed_config) for seed_config in configs]
    warn_user(f"seeds are run in separate processes: {reason}")
    return _in_processes(configs)


def _in_processes(configs: Sequence[RunConfig]) -> list[Result]:
    """Run one process per seed, as many at a time as there are cores."""
    jobs = [job_of(config, f"seed {config.seed}") for config in configs]
    failures = run_jobs(jobs, on_end=_tell)
    for job in jobs:
        if job.name in failures:
            raise RunFolderError(
                f"{job.title} failed: {failures[job.name]} (its output: {job.log}); "
                f"continue it with resume={job.folder}"
            )
    return [Result.load(job.folder) for job in jobs]


def _tell(ended: JobResult, reason: str | None) -> None:
    warn_user(f"{ended.job.title}: {reason or 'finished'} ({ended.seconds:.0f} s)")


def in_one_group(config: RunConfig) -> RunConfig:
    """Group the runs on W&B, where each seed is its own run."""
    if "wandb" not in config.logger_names or logger_settings(config, "wandb").get("group"):
        return config
    named = Path(config.run_dir).name if config.run_dir else ""
    group = named or f"seeds-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    loggers = {name: logger_settings(config, name) for name in config.logger_names}
    return config.replace(logger={**loggers, "wandb": {**loggers["wandb"], "group": group}})


def of_seed(config: RunConfig, seed: int, first: bool) -> RunConfig:
    """Return one seed's run; only the first shows its progress."""
    run_dir = config.run_dir
    return config.replace(
        seed=seed,
        progress=first and config.progress,
        run_dir=run_dir if run_dir in (None, False) else Path(str(run_dir)) / f"s{seed}",
    )
