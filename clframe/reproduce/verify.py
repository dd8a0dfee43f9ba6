"""Verify a run: its files agree, and an experience learned again is bit-identical.

A run keeps the state before and after each experience (``checkpoint.every_experience``). So anyone
can learn one experience and its row again and compare, at the cost of one experience instead of
all.
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
"""Entries of a state about time and position, which are not compared."""


@dataclass(frozen=True)
class Finding:
    """A checked item.

    Args:
        what: Its name, in a word or two.
        words: What was found.
        good: Whether it passed.
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
    """Check a finished run's files, learn one of its experiences again and compare.

    Args:
        run_dir: The run folder.
        experience: The experience to learn again, by name or number (1 is the first); None for the
            last possible one.
        tolerance: Maximum deviation of numbers on other hardware or versions, relative to the
            largest of their tensor; 0 requires the same bits.
        plugin_path: Your own files to load instead of the run's plugin files.

    Raises:
        ClframeError: The run cannot be verified: there is none, or it is unfinished or has not kept
            the states.
    """
    folder = RunFolder(Path(run_dir).expanduser())
    folder.read_config()
    if not folder.results.exists():
        raise RunFolderError(
            f"run '{folder.path}' is not finished; finish it with resume={folder.path}"
        )
    config = RunConfig.from_folder(folder.path, plugin_path)
    if (learner := name_of(config.learner)) != STREAMS_OWN:
        raise RunFolderError(
            f"run '{folder.path}' learned from its own actions (learner={learner}), which its "
            "checkpoints do not hold: it cannot be verified by learning an experience again"
        )
    findings = [_checked("files", lambda: _check_files(folder))]
    store = folder.checkpoints
    broken = store.problems()
    if broken:
        number, problem = next(iter(broken.items()))
        problem_text = f"'{store.state_file(number)}' cannot be used: {problem}"
        findings.append(Finding("checkpoints", problem_text, good=False))
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
    """Return the checkpoints between two experiences, by number of learned experiences.

    Call the store's ``problems`` first: only checkpoints found intact are returned.
    """
    infos = ((info.learned, info) for info in store.usable() if info.between)
    return {learned: info for learned, info in infos if learned is not None}


def replayable(folder: RunFolder, kept: dict[int, CheckpointInfo], number: int | None) -> int:
    """Return this experience, or the last one, whose start and end have been kept.

    Raises:
        RunFolderError: There is no such experience.
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


def _checked(title: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(title, check())
    except ClframeError as error:
        return Finding(title, str(error), good=False)


def _saved_matrix(store: CheckpointStore, number: int) -> dict[str, Any]:
    """Return the matrix in a checkpoint.

    Raises:
        RunFolderError: It holds no matrix.
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
    """Check that the parent of a forked run still has the state that it started from."""
    origin = Origin(folder.path / fork["run"], fork["sha256"])
    began = f"the state {origin.sha256[:12]} after {fork['at']} experiences"
    if not origin.run.is_dir():
        return f"'{fork['run']}' is missing; {began} is compared only by its checksum"
    if origin.problem is not None:
        raise RunFolderError(f"'{fork['run']}' {origin.problem}")
    return f"'{fork['run']}' has {began}"


def _check_matrix(folder: RunFolder, store: CheckpointStore, info: CheckpointInfo) -> str:
    """Check that results.json and matrix.csv have the matrix of the last checkpoint."""
    saved = _saved_matrix(store, info.number)
    result = Result.load(folder.path)
    recorded = result.matrix.to_json()
    for row, (name, cells) in enumerate(zip(saved["rows"], saved["values"], strict=True)):
        others = recorded["values"][row] if row < len(recorded["values"]) else []
        for column, cell, other in zip(saved["columns"], cells, others, strict=False):
            if cell != other:
                raise RunFolderError(
                    f"'{folder.results}' has {other} for task {column} after {name}, but the "
                    f"checkpoint has {cell}"
                )
    if len(recorded["rows"]) != len(saved["rows"]):
        raise RunFolderError(
            f"'{folder.results}' has {len(recorded['rows'])} rows, the checkpoint of the end has "
            f"{len(saved['rows'])}"
        )
    if read_text(folder.matrix) not in (None, result.matrix.to_csv()):
        raise RunFolderError(f"'{folder.matrix}' is not the matrix of '{folder.results}'")
    return f"{len(recorded['rows'])} rows, the same in results.json, matrix.csv and the checkpoint"


def _check_data(config: RunConfig, record: DataRecord) -> str:
    """Check that the data is unchanged, and that no sample was both learned and tested on."""
    stream = build_stream(config, discover(config.plugin_paths))
    stream = in_order(stream, (config.trainer or {}).get("experience_order"))
    there = {*(experience.name for experience in stream), *(task.name for task in stream.tasks)}
    gone = [name for name in (*record.experiences, *record.tasks) if name not in there]
    if gone:
        raise RunFolderError(f"'{gone[0]}' is no longer in the data")
    learned = [experience for experience in stream if experience.name in record.experiences]
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
    """Return the number of the experience to learn again, whose start and end were kept."""
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
    """Learn an experience again and compare the result with the saved state."""
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
    title = f"experience {end.learned} ({name})"
    again = f"learned again in {seconds:.1f} s"
    if not apart:
        tensors = count_tensors(saved)
        return Finding(title, f"{again}: {tensors} tensors and the row equal to the bit")
    worst = max(apart, key=lambda deviation: deviation.size)
    text = f"{again}: {_named(apart, worst)}"
    if worst.size <= tolerance:
        return Finding(title, f"{text}, within the tolerance of {tolerance:g}")
    return Finding(title, text, good=False)


def _named(apart: Sequence[Deviation], worst: Deviation) -> str:
    many = f"{len(apart)} places differ, most of all " if len(apart) > 1 else ""
    size = "" if worst.size == float("inf") else f" (relative {worst.size:.3g})"
    return f"{many}{worst.place}: {worst.words}{size}"


def _compared(state: dict[str, Any]) -> dict[str, Any]:
    """Return the compared entries of a state: everything learned, measured and drawn."""
    compared = {key: value for key, value in state.items() if key not in _NOT_COMPARED}
    compared["plugins"] = {
        name: value for name, value in state["plugins"].items() if name not in DEFAULT_PLUGINS
    }
    return compared
