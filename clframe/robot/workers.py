"""Worker processes for robot environments."""

from __future__ import annotations

from typing import Literal, TypeAlias

from clframe.utils.processes import WorkerPool, usable_cores

RolloutPlace: TypeAlias = Literal["local", "ray"]
_ADVICE = "give the environment as a function of a module or of a plugin_path file"


def environment_pool(processes: int | None, most: int, place: RolloutPlace = "local") -> WorkerPool:
    """Start workers that make and step environments.

    Args:
        processes: How many; 0 for this one alone, None for one per core. On a cluster both are
            one for each free CPU.
        most: As many as there is work for.
        place: On this machine, or on those of a Ray cluster.
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
        f"a worker process of the robot environments ended with code {code} (memory?); "
        "stream.num_workers=0 works without other processes"
    )
