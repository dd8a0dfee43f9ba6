"""Turn failures of the machine (disk, memory, data) into one-line errors; the run stays intact."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from clframe.data.loader import is_lost_reader
from clframe.errors import ClframeError, DataError, RunFolderError
from clframe.utils.files import FULL

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.runs.folder import RunFolder


class OutOfMemoryError(ClframeError):
    """A step needs more memory than there is."""


@contextlib.contextmanager
def translate_errors(learner: Learner, folder: RunFolder | None) -> Iterator[None]:
    """Turn failures of the machine into errors that say what to do."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if folder is not None and folder.begun:
            stop.run_dir = folder.path  # type: ignore[attr-defined]
        raise
    except DataError as error:
        raise DataError(f"{_where(learner)} {error}{_resume(folder)}") from error
    except (ClframeError, ConnectionError):  # Connections are not files; their owners handle them.
        raise
    except OSError as error:
        raise _of_files(error, learner, folder) from error
    except EOFError as error:
        raise DataError(f"{_where(learner)} a file ends too early: {_line(error)}") from error
    except (MemoryError, RuntimeError) as error:
        if is_lost_reader(error):
            raise DataError(
                f"{_where(learner)} one of the processes that read data was killed "
                f"(out of memory?); try fewer{_resume(folder)}"
            ) from error
        if not is_out_of_memory(error):
            raise
        if learner.experience is None:
            raise OutOfMemoryError(
                "there is not enough memory to begin: make the model, its plugins' additions, or "
                f"evaluation.eval_batch_size={learner.engine.evaluation.eval_batch_size} smaller"
            ) from error
        size = learner.engine.settings.batch_size
        smaller = f"try trainer.batch_size={size // 2}" if size > 1 else "take a smaller model"
        smaller += _replayed(learner, size)
        raise OutOfMemoryError(
            f"{_where(learner)} there is not enough memory for a step with trainer.batch_size="
            f"{size}: {smaller}{_resume(folder)}"
        ) from error


@contextlib.contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Report memory that runs out while something is built, before any step."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(f"{what} needs more memory than there is") from error


def _of_files(error: OSError, learner: Learner, folder: RunFolder | None) -> ClframeError:
    # If a file is moved into its place, the user knows the second name.
    name = getattr(error, "filename2", None) or error.filename
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    inside = folder is not None and isinstance(name, str) and str(folder.path) in name
    if error.errno in FULL and name and not inside:  # of the data folder
        return DataError(
            f"{_where(learner)} '{name}' cannot be written: {error.strerror}; free some space"
            f"{_resume(folder)}"
        )
    if folder is not None and (error.errno in FULL or inside or error.errno == errno.EROFS):
        reason = error.strerror or _line(error)
        if inside and error.errno not in FULL and name != str(folder.path):
            reason = f"'{name}': {reason}"
        hint = "free some space, then " if error.errno in FULL else ""
        if not _is_kept(folder):
            hint = hint.removesuffix(", then ") or "give another run_dir"
            return RunFolderError(f"run_dir '{folder.path}' cannot be written: {reason}; {hint}")
        return RunFolderError(
            f"run_dir '{folder.path}' cannot be written: {reason}; earlier checkpoints are "
            f"intact: {hint}continue with resume={folder.path}"
        )
    problem = f"'{name}': {error.strerror}" if name else _line(error)
    return DataError(f"{_where(learner)} a file cannot be read: {problem}{_resume(folder)}")


def _where(learner: Learner) -> str:
    if learner.experience is None:
        return "before the first experience"
    return f"at experience '{learner.experience.name}'"


def _replayed(learner: Learner, size: int) -> str:
    """Return a hint about the larger batches that plugins add to a step, if there are any."""
    sizes = {
        f"strategy.{plugin.name}.{name}": getattr(plugin, name, None)
        for plugin in learner.plugins.ordered
        for name in ("batch_size", "replay_size")
    }
    larger = [f"{k}={v}" for k, v in sizes.items() if isinstance(v, int) and v > size]
    return f", or less than {' and '.join(larger)}" if larger else ""


def _is_kept(folder: RunFolder) -> bool:
    """Return whether the folder stays; a new run that fails before its first step is removed."""
    return folder.begun or folder.resumed


def _resume(folder: RunFolder | None) -> str:
    if folder is None or not _is_kept(folder):
        return ""
    return f"; the run can be continued with resume={folder.path}"


def _line(error: BaseException) -> str:
    """Return the last line of a message; workers put their traceback before it."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, on the host or on a GPU."""
    text = str(error)
    return (
        isinstance(error, MemoryError | torch.OutOfMemoryError)
        or "can't allocate memory" in text
        or "Storage size calculation overflowed" in text  # more bytes than 64 bits can count
        or "out of memory" in text.lower()
    )
