"""Fills rows of the cache, in this process or in a worker; so it imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.worlds.objects.frames.cache_plan import Bad, Job


def execute(folder: Path, job: Job) -> Bad:
    """Do one job: make its frames and write them to their rows."""
    if job["kind"] == "rendered":
        from clframe.worlds.objects.frames.rendered_source import produce
    else:
        from clframe.worlds.objects.frames.official import produce
    arrays, bad = produce(job)
    write_rows(folder, job["start"], arrays)
    return bad


def write_rows(folder: Path, start: int, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write rows of each array from ``start`` on.

    Written through the file and not through a memory map: on a full disk this is an error that can
    be reported, where a map would end the process.
    """
    for name, rows in arrays.items():
        path = folder / f"{name}.npy"
        try:
            target = np.load(path, mmap_mode="r", allow_pickle=False)
            if rows.dtype != target.dtype or rows.shape[1:] != target.shape[1:]:
                raise RuntimeError(
                    f"{name}: rows of {rows.dtype} {rows.shape[1:]} do not fit {path}, "
                    f"which holds {target.dtype} {target.shape[1:]}"
                )
            with path.open("r+b") as file:
                file.seek(target.offset + start * target[0].nbytes)
                file.write(np.ascontiguousarray(rows).tobytes())
        except OSError as error:
            raise DataError(f"the cache '{path}' cannot be written: {error.strerror}") from error
