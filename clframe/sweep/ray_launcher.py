"""Run a sweep as tasks of a Ray cluster.

The sweep folder and the data must be on a disk that all machines share. Each run goes to a machine
with enough free resources; if that machine is lost, the run continues on another from its last
checkpoint.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from clframe.errors import ClframeError, SettingError
from clframe.sweep.job import Job
from clframe.sweep.remote import RemoteRun
from clframe.sweep.settings import SweepSettings
from clframe.utils.console import warn_user
from clframe.utils.ray_cluster import Cluster, import_ray

_MOST_LOSSES = 20
"""Machines that one run may lose; after more, the run itself is probably the cause."""


class RayLauncher:
    """Launcher for a Ray cluster, or one that Ray starts on this machine.

    Args:
        settings: Settings of the sweep; ``sweep.ray`` holds the address and the options of a task.
    """

    def __init__(self, settings: SweepSettings) -> None:
        import_ray("sweep.launcher=ray")
        self.width = settings.jobs
        self._settings = settings
        self._options = {key: value for key, value in settings.ray.items() if key != "address"}
        self._cluster: Cluster | None = None
        self._tasks: dict[Any, Job] = {}
        self._refused: list[tuple[str, int | str]] = []
        self._losses: Counter[str] = Counter()
        self._stopping = False

    @property
    def _ray(self) -> Any:
        assert self._cluster is not None
        return self._cluster.ray

    def start(self, job: Job) -> None:
        """Submit a run."""
        if self._cluster is None:
            self._cluster = Cluster("sweep.ray", self._settings.ray.get("address"), start=True)
        ray = self._cluster.ray
        try:
            needs = {**needs_of(job, self._settings.threads, _gpus(ray)), **self._options}
            remote = ray.remote(max_retries=0, **needs)(_call)
            if problem := unplaceable(needs, [node for node in ray.nodes() if node["Alive"]]):
                if self._cluster.started:
                    raise SettingError(problem)
                # Clusters grow, and a lost machine may come back.
                warn_user(f"{job.title} waits: {problem}")
        except ClframeError as error:  # Only this run fails; others may be placed.
            self._refused.append((job.name, str(error)))
        except (ValueError, TypeError) as error:
            raise SettingError(f"sweep.ray: {' '.join(str(error).split())}") from error
        else:
            run = RemoteRun(job, os.getcwd(), self._settings.threads)
            self._tasks[remote.remote(run)] = job

    def wait(self, seconds: float) -> list[tuple[str, int | str]]:
        """Return the runs whose tasks are done."""
        ended, self._refused = self._refused, []
        if not ended:
            done, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
            for task in done:
                job = self._tasks.pop(task)
                code = self._outcome(task, job)
                if code is not None:
                    ended.append((job.name, code))
        return ended

    def _outcome(self, task: Any, job: Job) -> int | str | None:
        """Return how a run ended; None if only its machine was lost and it continues."""
        from ray.exceptions import NodeDiedError, RayError, TaskCancelledError

        try:
            return int(self._ray.get(task))
        except TaskCancelledError:
            return "its task was cancelled"
        except NodeDiedError:
            self._losses[job.name] += 1
            if self._stopping or self._losses[job.name] > _MOST_LOSSES:
                return "the machine it ran on was lost"
            warn_user(f"{job.title}: the machine it ran on was lost; it continues on another")
            job.begin_log()
            self.start(job)
            return None
        except RayError as error:
            first = next((line for line in str(error).splitlines() if line.strip()), "")
            return f"its task ended with {type(error).__name__}: {first.strip()}"

    def stop(self, at_once: bool) -> None:
        """Cancel the tasks; a run saves when its worker is cancelled or goes away."""
        self._stopping = True
        for task in list(self._tasks):
            self._ray.cancel(task, force=at_once)

    def close(self) -> None:
        """Leave the cluster."""
        if self._cluster is not None:
            self._cluster.close()


def needs_of(job: Job, threads: int, gpus: bool) -> dict[str, Any]:
    """Return a run's needs: a CPU for each thread, and a GPU for each process that uses one.

    Args:
        job: The run; ``trainer.devices`` is its number of processes.
        threads: Threads of each process.
        gpus: Whether the cluster has GPUs, for ``trainer.accelerator=auto``.

    Raises:
        SettingError: The run needs several machines.
    """
    from clframe.config.compose import compose

    trainer = compose(job.words).trainer or {}
    devices = trainer.get("devices", 1)
    count = len(devices) if isinstance(devices, list | tuple) else _count(devices)
    if trainer.get("num_nodes", 1) != 1:
        raise SettingError(
            f"trainer.num_nodes={trainer['num_nodes']} cannot be used with sweep.launcher=ray, "
            "which gives each run one machine: leave it out"
        )
    accelerator = trainer.get("accelerator", "auto")
    on_gpu = accelerator in ("gpu", "cuda") or (accelerator == "auto" and gpus)
    return {"num_cpus": threads * count, **({"num_gpus": count} if on_gpu else {})}


def _count(devices: int | str) -> int:
    """Return the number of devices; for ``auto`` and ``-1`` (all), Ray shows the run only one."""
    return max(1, int(devices)) if str(devices).lstrip("-").isdecimal() else 1


def _gpus(ray: Any) -> bool:
    return bool(ray.cluster_resources().get("GPU", 0))


def unplaceable(needs: Mapping[str, Any], nodes: list[dict[str, Any]]) -> str | None:
    """Return why no machine of a cluster can take a run with these needs; None if one can.

    >>> unplaceable({"num_cpus": 4}, [{"Resources": {"CPU": 2.0}}, {"Resources": {"CPU": 1.0}}])
    'no machine of the Ray cluster has CPU=4; the largest has CPU=2'
    """
    resources = {
        **{
            name: float(needs[key])
            for key, name in (("num_cpus", "CPU"), ("num_gpus", "GPU"), ("memory", "memory"))
            if needs.get(key)
        },
        **{name: float(value) for name, value in (needs.get("resources") or {}).items()},
    }

    def fits(has: Mapping[str, float]) -> bool:
        return all(has.get(name, 0.0) >= value for name, value in resources.items())

    if any(fits(node["Resources"]) for node in nodes):
        return None
    listed = ", ".join(f"{name}={value:g}" for name, value in resources.items())
    most = {name: max(node["Resources"].get(name, 0.0) for node in nodes) for name in resources}
    largest = ", ".join(f"{name}={value:g}" for name, value in most.items())
    return f"no machine of the Ray cluster has {listed}; the largest has {largest}"


def _call(remote: RemoteRun) -> int:
    return remote(keep=True)
