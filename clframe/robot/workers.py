"""Worker processes for robot environments."""

from __future__ import annotations

from clframe.utils.processes import WorkerPool, usable_cores


def environment_pool(processes: int | None, most: int) -> WorkerPool:
    """Start workers that make and step environments.

    Args:
        processes: How many; 0 for this one alone, None for one per core.
        most: As many as there is work for.
    """
    count = usable_cores() if processes is None else processes
    return WorkerPool(
        min(count, most),
        on_exit=_exit_sentence,
        advice="set stream.num_workers=0, or give the environment as a function of a module or of "
        "a plugin_path file",
    )


def _exit_sentence(code: int) -> str:
    return (
        f"a worker process of the robot environments ended with code {code} (memory?); "
        "stream.num_workers=0 works without other processes"
    )
