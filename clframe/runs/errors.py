"""What the machine does to a run (disk, memory, data) as one sentence, with the run left whole."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from clframe.errors import ClframeError, DataError, RunFolderError

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.runs.folder import RunFolder

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutOfMemoryError(ClframeError):
    """A step needs more memory than there is."""


@contextlib.contextmanager
def translate_errors(learner: Learner, folder: RunFolder | None) -> Iterator[None]:
    """Translate what the machine does to a run into errors that say what to do."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{_where(learner)} {error}{_resume(folder)}") from error
    except (ClframeError, ConnectionError):  # connections are not files; their owners know them
        raise
    except OSError as error:
        raise _of_files(error, learner, folder) from error
    except EOFError as error:
        raise DataError(f"{_where(learner)} a file ends too early: {_line(error)}") from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        size = learner.engine.settings.batch_size
        smaller = f"try trainer.batch_size={size // 2}" if size > 1 else "take a smaller model"
        raise OutOfMemoryError(
            f"{_where(learner)} there is not enough memory for a step with trainer.batch_size="
            f"{size}: {smaller}{_resume(folder)}"
        ) from error


def _of_files(error: OSError, learner: Learner, folder: RunFolder | None) -> ClframeError:
    # Of a file that is put in its place, the second is the name that the user knows.
    name = getattr(error, "filename2", None) or error.filename
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    inside = folder is not None and isinstance(name, str) and str(folder.path) in name
    if folder is not None and (error.errno in _FULL or inside or error.errno == errno.EROFS):
        reason = error.strerror or _line(error)
        if inside and error.errno not in _FULL and name != str(folder.path):
            reason = f"'{name}': {reason}"
        hint = "free some space, then " if error.errno in _FULL else ""
        return RunFolderError(
            f"run_dir '{folder.path}' cannot be written: {reason}; what was saved before is "
            f"whole: {hint}continue with resume={folder.path}"
        )
    what = f"'{name}': {error.strerror}" if name else _line(error)
    return DataError(f"{_where(learner)} a file cannot be read: {what}{_resume(folder)}")


def _where(learner: Learner) -> str:
    if learner.experience is None:
        return "before the first experience"
    return f"at experience '{learner.experience.name}'"


def _resume(folder: RunFolder | None) -> str:
    return "" if folder is None else f"; the run can be continued with resume={folder.path}"


def _line(error: BaseException) -> str:
    """The last line of a message: workers put their traceback before it."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on the host or on a GPU."""
    text = str(error)
    return (
        isinstance(error, MemoryError | torch.OutOfMemoryError)
        or "can't allocate memory" in text
        or "out of memory" in text.lower()
    )
