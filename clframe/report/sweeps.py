"""The record of a sweep folder for a report: the swept settings, and the failed runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clframe.errors import RunFolderError
from clframe.recording.results_file import RESULTS
from clframe.report.run_settings import flatten
from clframe.runs.reader import Run
from clframe.utils.regular import read_json

SWEEP = "sweep.json"
# Runs that differ in these are shown separately anyway.
_APART = ("seed", "strategy", "stream", "scenario")


@dataclass(frozen=True)
class Sweep:
    """The record of a sweep folder.

    Args:
        keys: The swept keys, as they were written.
        failed: Why runs failed, by the name of their folder.
    """

    keys: tuple[str, ...]
    failed: Mapping[str, str]


def read_sweep(folder: Path) -> Sweep | None:
    """Return the record of a sweep folder, or None if it is not a sweep folder.

    Raises:
        RunFolderError: The record cannot be read.
    """
    try:
        content = read_json(folder / SWEEP)
        keys = tuple(map(str, content["keys"]))
        runs = {str(name): dict(entry) for name, entry in content["runs"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{folder / SWEEP} is not the record of a sweep.") from error
    failed = {
        name: str(entry.get("why"))
        for name, entry in runs.items()
        if entry.get("state") == "failed" and not (folder / name / RESULTS).exists()
    }
    return Sweep(keys, failed)


def failures(paths: Sequence[Path]) -> list[str]:
    """Return a sentence for each run that failed in the sweeps among the paths."""
    return [
        f"The run {name} of the sweep failed: {why.rstrip('.')}."
        for sweep in map(read_sweep, paths)
        if sweep is not None
        for name, why in sweep.failed.items()
    ]


def told_apart(paths: Sequence[Path], runs: Sequence[Run]) -> list[str]:
    """Return the settings that the sweeps among the paths vary; each value gets its own row."""
    keys = [key for sweep in map(read_sweep, paths) if sweep for key in sweep.keys]
    return list(dict.fromkeys(swept_settings(runs, keys)))


def swept_settings(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return the full names of the settings that a sweep over these keys varies besides the seed.

    Strategies, streams and scenarios have separate rows anyway. A bare name such as `lr` is
    searched in every group, and the runs of a group such as `model` are separated by the chosen
    name.

    Args:
        runs: The runs of the sweep.
        keys: The swept keys, as they were written.
    """
    names = dict.fromkeys(name for run in runs for name, _ in flatten(run.settings or {}))
    return [
        name
        for key in keys
        for name in names
        if key not in _APART and (name in (key, f"{key}.name") or name.endswith(f".{key}"))
    ]
