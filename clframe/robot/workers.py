"""Worker processes for robot environments."""

from __future__ import annotations

from typing import Literal, TypeAlias

from clframe.utils.processes import WorkerPool, usable_cores

RolloutPlace: TypeAlias = Literal["local", "ray"]
_ADVICE = "give the environment as a function of a module or of a plugin_path file"


def environment_pool(processes: int | None, most: int, place: RolloutPlace = "local") -> WorkerPool:
    """Start workers that create and step environments.

    Args:
        processes: Number of workers; 0 uses only this process, None one per core. On a cluster,
            both mean one per free CPU.
        most: Largest number of workers that have work.
        place: This machine (``local``) or a Ray cluster (``ray``).
    """
    if place == "ray":
        from clframe.robot.ray_envs import Farm

        return Farm(processes, most, _ADVICE)
    count = usable_cores() if processes is None else processes
    return WorkerPool(
        min(count, most),
        on_exit=_exit_sentence,
        advice=f"set stream.num_workers=0, or {_ADVICE}",
    )


def _exit_sentence(code: int) -> str:
    return (
        f"a worker process of the robot environments ended with code {code} (memory?); set "
        "stream.num_workers=0 to run without workers"
    )
