"""What the record of a sweep folder tells a report: what was swept, and which runs failed."""

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
# Runs that differ in these are shown apart anyway.
_APART = ("seed", "strategy", "stream", "scenario")


@dataclass(frozen=True)
class Sweep:
    """What the record of a sweep folder tells a report.

    Args:
        keys: What was swept, as it was written.
        failed: Why runs failed, by the name of their folder.
    """

    keys: tuple[str, ...]
    failed: Mapping[str, str]


def read_sweep(folder: Path) -> Sweep | None:
    """The record of a sweep folder; None if the folder is none.

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
    """A sentence for each run that failed in the sweeps among the paths."""
    return [
        f"The run {name} of the sweep failed: {why.rstrip('.')}."
        for sweep in map(read_sweep, paths)
        if sweep is not None
        for name, why in sweep.failed.items()
    ]


def told_apart(paths: Sequence[Path], runs: Sequence[Run]) -> list[str]:
    """The settings that the sweeps among the paths vary: each value gets a row of its own."""
    keys = [key for sweep in map(read_sweep, paths) if sweep for key in sweep.keys]
    return list(dict.fromkeys(swept_settings(runs, keys)))


def swept_settings(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """The full names of the settings that a sweep over these keys varies besides the seed.

    Strategies, streams and scenarios are shown apart anyway. A bare name such as `lr` is looked for
    in every group, and a group such as `model` is shown apart by the name chosen in it.

    Args:
        runs: The runs of the sweep.
        keys: What was swept, as it was written.
    """
    known = dict.fromkeys(name for run in runs for name, _ in flatten(run.settings or {}))
    return [
        name
        for key in keys
        for name in known
        if key not in _APART and (name in (key, f"{key}.name") or name.endswith(f".{key}"))
    ]
