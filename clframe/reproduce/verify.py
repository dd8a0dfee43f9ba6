"""Whether a run is what it says: its files agree, and an experience learned again gives its bits.

A run keeps the state before and after each experience (``checkpoint.every_experience``).
Anyone can then take one experience, learn it again with the row after it, and compare: at the cost
of one experience instead of all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clframe.build import build, build_stream
from clframe.checkpoint import identity, snapshot
from clframe.checkpoint.foreign import not_of_this_run
from clframe.checkpoint.settings import KEEP_ALL
from clframe.checkpoint.store import CheckpointInfo, CheckpointStore
from clframe.config.run_config import RunConfig
from clframe.core.learner_factory import STREAMS_OWN, name_of
from clframe.core.matrix import AccuracyMatrix
from clframe.core.registry import discover
from clframe.core.results import Result
from clframe.data.stream_order import in_order
from clframe.errors import ClframeError, RunFolderError, SettingError, nearest
from clframe.recording.results_file import read_text
from clframe.reproduce.state_diff import Deviation, count_tensors, deviations
from clframe.run import replay
from clframe.runs.data_record import DataRecord, listed, read_record
from clframe.runs.folder import RunFolder
from clframe.runs.fork_source import Origin
from clframe.strategies import DEFAULT_PLUGINS
from clframe.training.engine import ONE_PROCESS
from clframe.utils.checksums import check_file, read_sums

_NOT_COMPARED = ("timing", "files", "position", "experiences", "evaluated", "unsaved")
"""What of a state says how long it took or where it stands, and not what was learned."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Args:
        what: A word or two.
        words: What was found.
        good: Whether it is as it should be.
    """

    what: str
    words: str
    good: bool = True


def verify(
    run_dir: str | Path,
    experience: str | int | None = None,
    tolerance: float = 0.0,
    plugin_path: Sequence[str | Path] | None = None,
) -> list[Finding]:
    """Look at a finished run's files, learn one of its experiences again and compare.

    Args:
        run_dir: The run folder.
        experience: Which to learn again, by its name or number (1 is the first); None for the last
            that can be.
        tolerance: By how much numbers may deviate, relative to the largest of their tensor, on
            other hardware or with other versions; 0 asks for the same bits.
        plugin_path: Files of yours to load instead of the run's own plugin files.

    Raises:
        ClframeError: The run cannot be verified: it is none, has not finished, or has not kept what
            is needed.
    """
    folder = RunFolder(Path(run_dir).expanduser())
    folder.read_config()
    if not folder.results.exists():
        raise RunFolderError(
            f"run '{folder.path}' has not come to its end; finish it with resume={folder.path}"
        )
    config = RunConfig.from_folder(folder.path, plugin_path)
    if (learner := name_of(config.learner)) != STREAMS_OWN:
        raise RunFolderError(
            f"run '{folder.path}' learned from what it did itself (learner={learner}), which its "
            "checkpoints do not hold: it cannot be verified by learning an experience again"
        )
    findings = [_checked("files", lambda: _check_files(folder))]
    store = folder.checkpoints
    broken = store.problems()
    if broken:
        number, problem = next(iter(broken.items()))
        words = f"'{store.state_file(number)}' cannot be used: {problem}"
        findings.append(Finding("checkpoints", words, good=False))
    else:
        findings.append(Finding("checkpoints", f"{len(store.usable())} whole"))
    if config.fork is not None:
        findings.append(_checked("parent", lambda: _check_parent(config.fork or {}, folder)))
    kept = kept_between(store)
    if not kept:
        if not broken:
            raise RunFolderError(f"run '{folder.path}' has no checkpoint of its end")
        return findings
    last = kept[max(kept)]
    findings.append(_checked("settings", lambda: _check_settings(config, last, folder)))
    findings.append(_checked("matrix", lambda: _check_matrix(folder, store, last)))
    record = read_record(folder.path) if all(finding.good for finding in findings) else None
    if record is not None and record.own_data:
        findings.append(_checked("data", lambda: _check_data(config, record)))
    if all(finding.good for finding in findings):
        number = _chosen(folder, kept, experience)
        findings.append(_relearned(config, store, kept[number - 1], kept[number], tolerance))
    return findings


def kept_between(store: CheckpointStore) -> dict[int, CheckpointInfo]:
    """The checkpoints between two experiences, by how many had been learned.

    Ask the store for its problems first: only what was found whole is among them.
    """
    found = ((info.learned, info) for info in store.usable() if info.between)
    return {learned: info for learned, info in found if learned is not None}


def replayable(folder: RunFolder, kept: dict[int, CheckpointInfo], number: int | None) -> int:
    """An experience whose start and end have been kept: this one, or the last such.

    Raises:
        RunFolderError: There is none.
    """
    possible = sorted(n for n in kept if n > 0 and n - 1 in kept)
    if number is None and possible:
        return possible[-1]
    if number is None or number not in possible:
        which = "any experience" if number is None else f"experience {number}"
        there = ", ".join(map(str, possible)) or "none"
        raise RunFolderError(
            f"run '{folder.path}' has not kept the states before and after {which} (it has those "
            f"of: {there}); {KEEP_ALL}"
        )
    return number


def _checked(what: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(what, check())
    except ClframeError as error:
        return Finding(what, str(error), good=False)


def _saved_matrix(store: CheckpointStore, number: int) -> dict[str, Any]:
    """The matrix in a checkpoint.

    Raises:
        RunFolderError: It holds none.
    """
    matrix = store.read(number, torch.device("cpu")).get("matrix")
    try:
        return AccuracyMatrix.from_state(matrix).to_json()  # type: ignore[arg-type]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise not_of_this_run(store.folder, error) from error


def _check_files(folder: RunFolder) -> str:
    sums = read_sums(folder.path)
    for name in sums:
        check_file(folder.path, name, sums)
    return f"{len(sums)} as the run wrote them" if sums else "no list of sums, so unchecked"


def _check_settings(config: RunConfig, info: CheckpointInfo, folder: RunFolder) -> str:
    built = build(config.replace(logger=None, progress=False, trainer=_alone(config)))
    assert built.folder is not None
    identity.check_settings(info.identity, built.folder.identity, folder.path)
    return "those that the checkpoints were made with"


def _check_parent(fork: Mapping[str, Any], folder: RunFolder) -> str:
    """Whether the run that this one was forked from still has the state it began with."""
    origin = Origin(folder.path / fork["run"], fork["sha256"])
    began = f"the state {origin.sha256[:12]} after {fork['at']} experiences"
    if not origin.run.is_dir():
        return f"'{fork['run']}' is not there; {began} is compared by its sum alone"
    if origin.problem is not None:
        raise RunFolderError(f"'{fork['run']}' {origin.problem}")
    return f"'{fork['run']}' has {began}"


def _check_matrix(folder: RunFolder, store: CheckpointStore, info: CheckpointInfo) -> str:
    """Whether results.json and matrix.csv have the matrix that the last checkpoint has."""
    saved = _saved_matrix(store, info.number)
    result = Result.load(folder.path)
    told = result.matrix.to_json()
    for row, (name, cells) in enumerate(zip(saved["rows"], saved["values"], strict=True)):
        others = told["values"][row] if row < len(told["values"]) else []
        for column, cell, other in zip(saved["columns"], cells, others, strict=False):
            if cell != other:
                raise RunFolderError(
                    f"'{folder.results}' says {other} for task {column} after {name}, where the "
                    f"checkpoint has {cell}"
                )
    if len(told["rows"]) != len(saved["rows"]):
        raise RunFolderError(
            f"'{folder.results}' has {len(told['rows'])} rows, the checkpoint of the end has "
            f"{len(saved['rows'])}"
        )
    if read_text(folder.matrix) not in (None, result.matrix.to_csv()):
        raise RunFolderError(f"'{folder.matrix}' is not the matrix of '{folder.results}'")
    return f"{len(told['rows'])} rows, the same in results.json, matrix.csv and the checkpoint"


def _check_data(config: RunConfig, record: DataRecord) -> str:
    """Whether the data is what was learned and tested on, and no sample was both."""
    stream = build_stream(config, discover(config.plugin_paths))
    stream = in_order(stream, (config.trainer or {}).get("experience_order"))
    there = {*(one.name for one in stream), *(task.name for task in stream.tasks)}
    gone = [name for name in (*record.experiences, *record.tasks) if name not in there]
    if gone:
        raise RunFolderError(f"'{gone[0]}' is not in the data any more")
    learned = [one for one in stream if one.name in record.experiences]
    changes = record.changes(learned, stream.tasks)
    if changes:
        raise RunFolderError(listed(changes))
    tested = [task for task in stream.tasks if task.name in record.tasks]
    for name, (n, total) in record.trained_on(tested).items():
        raise RunFolderError(f"{n:,} of {total:,} test samples of task '{name}' were trained on")
    return (
        f"{len(learned)} experiences and {len(tested)} tasks as recorded, no sample both learned "
        "and tested on"
    )


def _chosen(
    folder: RunFolder, kept: dict[int, CheckpointInfo], experience: str | int | None
) -> int:
    """The number of the experience to learn again; its start and its end are there."""
    rows = Result.load(folder.path).matrix.rows[1:]
    if isinstance(experience, str) and not experience.isdecimal():
        if experience not in rows:
            raise SettingError(
                f"run '{folder.path}' has learned no experience '{experience}'; "
                f"{nearest(experience, rows)}"
            )
        experience = rows.index(experience) + 1
    fork = folder.read_config().get("fork")
    if fork is not None and experience is not None and int(experience) <= fork["at"]:
        raise RunFolderError(
            f"experience {experience} of run '{folder.path}' was learned by its parent "
            f"'{fork['run']}': verify that"
        )
    return replayable(folder, kept, None if experience is None else int(experience))


def _alone(config: RunConfig) -> dict[str, Any]:
    return {**(config.trainer or {}), **ONE_PROCESS}


def _relearned(
    config: RunConfig,
    store: CheckpointStore,
    start: CheckpointInfo,
    end: CheckpointInfo,
    tolerance: float,
) -> Finding:
    """Learn an experience again and compare what came out with what was saved."""
    began = time.perf_counter()
    built = build(
        config.replace(
            logger=None, progress=False, resume=None, run_dir=False, trainer=_alone(config)
        )
    )
    replay(built.learner, built.stream, store, start)
    learner = built.learner
    fresh = _compared(snapshot.capture(learner, learner.state))
    saved = _compared(store.read(end.number, torch.device("cpu")))
    apart = list(deviations(saved, fresh))
    name = learner.state.matrix.rows[-1]
    seconds = time.perf_counter() - began
    what = f"experience {end.learned} ({name})"
    again = f"learned again in {seconds:.1f} s"
    if not apart:
        tensors = count_tensors(saved)
        return Finding(what, f"{again}: {tensors} tensors and the row equal to the bit")
    worst = max(apart, key=lambda one: one.size)
    words = f"{again}: {_named(apart, worst)}"
    if worst.size <= tolerance:
        return Finding(what, f"{words}, within the tolerance of {tolerance:g}")
    return Finding(what, words, good=False)


def _named(apart: Sequence[Deviation], worst: Deviation) -> str:
    many = f"{len(apart)} places differ, most of all " if len(apart) > 1 else ""
    size = "" if worst.size == float("inf") else f" (relative {worst.size:.3g})"
    return f"{many}{worst.place}: {worst.words}{size}"


def _compared(state: dict[str, Any]) -> dict[str, Any]:
    """What of a state is compared: all that was learned, measured and drawn."""
    compared = {key: value for key, value in state.items() if key not in _NOT_COMPARED}
    compared["plugins"] = {
        name: value for name, value in state["plugins"].items() if name not in DEFAULT_PLUGINS
    }
    return compared
