"""What can go wrong in the middle of a run, each as one sentence and with the run left whole.

A loss that is not finite is found without waiting for the device at every step: losses stay where
they are and are looked at together, at the end of an epoch, before a checkpoint and every few
hundred steps. So no checkpoint is ever taken of a run whose loss is gone.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clframe.errors import ClframeError, DataError, RunFolderError

if TYPE_CHECKING:
    from clframe.checkpoint.checkpointer import Place
    from clframe.core.learner import Learner, Step
    from clframe.core.stream import Experience
    from clframe.runs.folder import RunFolder

_LOOK_EVERY = 256
"""Steps after which losses are looked at even if nothing else asks for it."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotFiniteError(ClframeError):
    """The loss became infinite or not a number."""


class OutOfMemoryError(ClframeError):
    """A step needs more memory than there is."""


class Losses:
    """The losses of the last steps and of their parts, still on the device.

    Args:
        learner: Whose they are.
        experience: Which is learned.
        place: Where the loop is.
    """

    def __init__(self, learner: Learner, experience: Experience, place: Place) -> None:
        self.learner = learner
        self.experience = experience
        self.place = place
        self._steps: list[tuple[Tensor, list[Tensor], list[Tensor]]] = []
        self._last: Step | None = None

    def add(self, loss: Tensor, step: Step) -> None:
        """Keep a step's loss."""
        self._steps.append((loss, step.losses, step.terms))
        self._last = step
        if len(self._steps) >= _LOOK_EVERY:
            self.check()

    def check(self) -> None:
        """Look at the losses kept so far, with one read from the device.

        Raises:
            NotFiniteError: With the experience, the first step and whose term it was.
        """
        losses = [loss for loss, _, _ in self._steps]
        if not losses or bool(torch.stack(losses).isfinite().all()):
            self._steps = []
            return
        first = int(torch.stack(losses).isfinite().logical_not().nonzero()[0])
        number = self.place.steps - len(losses) + first + 1
        whose = self._whose(*self._steps[first][1:])
        raise NotFiniteError(
            f"the loss is not finite in experience '{self.experience.name}', epoch "
            f"{self.learner.epoch + 1}, step {number}: {whose}; the last checkpoint is from before "
            "it. A smaller learning rate or weight may help, trainer.on_nan=ignore goes on all the "
            "same"
        )

    def _whose(self, parts: list[Tensor], terms: list[Tensor]) -> str:
        """Whose part of the loss is not finite: a plugin's, or the model's itself."""
        bad_parts = [i for i, part in enumerate(parts) if not bool(part.isfinite())]
        bad_terms = [i for i, term in enumerate(terms) if not bool(term.isfinite())]
        names: list[str] = []
        if 0 not in bad_parts:
            who = self._names("extra_batches", len(parts) - 1) if len(parts) > 1 else []
            names += [who[i - 1] for i in bad_parts]
            who = self._names("penalty", len(terms)) if terms else []
            names += [who[i] for i in bad_terms]
        if not names:
            return "the loss of the current batch itself, so the model's outputs are not finite"
        return "the term of plugin " + " and ".join(f"'{n}'" for n in dict.fromkeys(names))

    def _names(self, hook: str, count: int) -> list[str]:
        """Which plugins the answers to a hook are of; pluggy itself does not tell."""
        assert self._last is not None
        plugins = self.learner.plugins
        caller = getattr(plugins.hook, hook)
        # pluggy calls the last one first.
        callers = [impl.plugin for impl in reversed(caller.get_hookimpls()) if not impl.wrapper]
        if len(callers) == count:
            return [plugin.name for plugin in callers]
        # Some gave no answer, or several at once: ask each again.
        given: dict[str, Any] = {"learner": self.learner}
        given |= {"step": self._last} if hook == "penalty" else {"batch": self._last.batch}
        names: list[str] = []
        for plugin in callers:
            others = [other for other in plugins.ordered if other is not plugin]
            with torch.no_grad():
                answers = plugins.manager.subset_hook_caller(hook, others)(**given)
            for answer in answers:
                names += [plugin.name] * (len(answer) if isinstance(answer, list) else 1)
        unknown = " or ".join(plugin.name for plugin in callers)
        return names if len(names) == count else [unknown] * count


@contextlib.contextmanager
def as_sentences(learner: Learner, folder: RunFolder | None) -> Iterator[None]:
    """Turn what the machine does to a run into errors that say what to do."""
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
        if not _is_memory(error):
            raise
        size = learner.engine.settings.batch_size
        smaller = f"try trainer.batch_size={size // 2}" if size > 1 else "take a smaller model"
        raise OutOfMemoryError(
            f"{_where(learner)} there is not enough memory for a step with trainer.batch_size="
            f"{size}: {smaller}{_resume(folder)}"
        ) from error


def _of_files(error: OSError, learner: Learner, folder: RunFolder | None) -> ClframeError:
    name = error.filename
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    inside = folder is not None and isinstance(name, str) and str(folder.path) in name
    if folder is not None and (error.errno in _FULL or inside or error.errno == errno.EROFS):
        reason = error.strerror or _line(error)
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


def _is_memory(error: BaseException) -> bool:
    text = str(error)
    return (
        isinstance(error, MemoryError | torch.OutOfMemoryError)
        or "can't allocate memory" in text
        or "out of memory" in text.lower()
    )
