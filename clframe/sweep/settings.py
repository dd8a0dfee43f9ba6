"""The settings of a sweep itself: ``sweep.NAME=value`` on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clframe.utils.setting_checks import at_least


@dataclass(frozen=True)
class SweepSettings:
    """Settings of how the runs of a sweep are started.

    Args:
        launcher: ``local`` (also called ``joblib``) starts processes on this machine, ``submitit``
            jobs on Slurm, ``ray`` tasks on a Ray cluster.
        jobs: Runs at a time. None for the number of cores (or GPUs, if there are any) on this
            machine; on a cluster, as many as it accepts.
        threads: Threads of each run.
        submitit: Parameters of submitit's executor, such as ``timeout_min`` or
            ``slurm_partition``, and ``cluster`` (``slurm``, ``local`` or ``debug``).
        ray: ``address`` of the cluster, and the needs of each run: ``num_gpus``, ``memory`` and
            other options of a Ray task.
    """

    launcher: Literal["local", "joblib", "submitit", "ray"] = "local"
    jobs: int | None = None
    threads: int = 1
    submitit: Mapping[str, Any] = field(default_factory=dict)
    ray: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least(self.jobs, 1, "sweep.jobs")
        at_least(self.threads, 1, "sweep.threads")
