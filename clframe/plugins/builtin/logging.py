"""Send the numbers, images, videos and results of a run to its loggers."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.evaluation.schedule import is_shown
from clframe.hookspecs import hookimpl
from clframe.plugins.builtin import media_files
from clframe.recording.logger import RunLogger, title_of
from clframe.recording.media import Media
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Experience
    from clframe.recording.step_log import StepLog

_FULL = (errno.ENOSPC, errno.EDQUOT)
_OF_EPOCH = "values of the epoch"


class Logging(Plugin):
    """Logger of losses and matrix rows during training, and of metrics and results at the end.

    Args:
        loggers: The run's loggers.
        run_dir: The run folder, where media files are kept.
    """

    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, loggers: Sequence[RunLogger], run_dir: Path = Path()) -> None:
        self.loggers = list(loggers)
        self.run_dir = run_dir
        self._step_log: StepLog | None = None
        self._learner: Learner | None = None
        self._warned: set[str] = set()
        self._expected: set[str] = set()
        self._written: dict[tuple[str, int], int] = {}

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if the run is written to a folder."""
        return None if context.run_dir is None else cls(context.loggers, context.run_dir)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loggers that can resume."""
        of_epoch = {} if self._step_log is None else self._step_log.state_dict()
        states = {type(logger).__name__: logger.state_dict() for logger in self.loggers}
        kept = {name: state for name, state in states.items() if state}
        return {**kept, _OF_EPOCH: of_epoch} if of_epoch else kept

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return the files that loggers have written into the run folder, if they list them."""
        return {
            name: mark for logger in self.loggers for name, mark in logger.written_files().items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore each logger's state; a new logger begins here."""
        for logger in self.loggers:
            if type(logger).__name__ in state:
                logger.load_state_dict(state[type(logger).__name__])
        if self._step_log is not None:
            self._step_log.load_state_dict(state.get(_OF_EPOCH, {}))

    def state_in_fork(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of files; loggers on a server start a new run."""
        local = [type(logger).__name__ for logger in self.loggers if not logger.remote]
        return {name: state[name] for name in local if name in state}

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Send numbers to every logger."""
        self._tell(lambda logger: logger.log_metrics(numbers, step=step))

    def _tell(
        self, call: Callable[[RunLogger], None], loggers: Sequence[RunLogger] | None = None
    ) -> None:
        """Call each logger; a failing server must not end the run."""
        for logger in list(self.loggers if loggers is None else loggers):
            try:
                call(logger)
            except OSError as error:
                if not logger.remote or error.errno in _FULL:
                    raise  # the disk is full or broken, so the run cannot be saved either
                self._give_up(logger, error)
            except Exception as error:
                if not logger.remote:
                    raise
                self._give_up(logger, error)

    def _give_up(self, logger: RunLogger, error: Exception) -> None:
        self.loggers.remove(logger)
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        warn_user(f"logger {title_of(logger)} failed and is not used any more: {line}")

    # ------------------------------------------------------------ media

    def log_media(
        self, media: Sequence[Media], step: int, numbers: Mapping[str, float] | None = None
    ) -> None:
        """Send media, in one row with numbers, to every logger that accepts them."""
        taking = [logger for logger in self.loggers if logger.takes_media]
        self._tell(lambda logger: logger.log_media(media, step, numbers), taking)

    def _take_media(self, name: str, value: Any, caption: str, step: int) -> None:
        """Send a value of ``learner.log_media``; warn once about a logger that cannot take it."""
        for logger in self.loggers:
            others = any(other.takes_media for other in self.loggers)
            quiet = others and logger.numbers_only
            who = title_of(logger)
            if not (logger.takes_media or quiet or who in self._warned):
                self._warned.add(who)
                hint = "" if others else "; logger=wandb and logger=tensorboard take more"
                warn_user(f"logger {who} accepts only numbers and skips '{name}'{hint}")
        if not any(logger.takes_media for logger in self.loggers):
            return
        media = media_files.write(self.run_dir, name, value, caption, self._stem(name, step))
        self.log_media([media], step, self._place())

    def _stem(self, name: str, step: int) -> str:
        """Return the stem of a file name: the step, and a counter if a step has several files."""
        number = self._written[name, step] = self._written.get((name, step), 0) + 1
        return f"{step:07d}" if number == 1 else f"{step:07d}-{number}"

    def _place(self) -> dict[str, float]:
        """Return the axis of experiences: how many have been learned."""
        return {} if self._learner is None else {"experience": float(len(self._learner.seen))}

    # ------------------------------------------------------------ hooks

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Receive the values of ``learner.log`` and ``learner.log_media``."""
        if self.loggers:
            self._learner, self._step_log = learner, learner.step_log
            takes_media = any(logger.takes_media for logger in self.loggers)
            learner.step_log.connect(self.log, self._take_media, takes_media)

    @hookimpl(trylast=True)
    def after_epoch(
        self, learner: Learner, experience: Experience, epoch: int, logs: dict[str, Any]
    ) -> None:
        """Log the epoch's numbers at its last step."""
        learner.step_log.flush()
        numbers = {f"train/{key}": float(value) for key, value in logs.items() if key != "seconds"}
        numbers |= learner.step_log.end_epoch()
        if learner.learning_rate is not None:
            numbers.setdefault("train/lr", learner.learning_rate)
        numbers["train/experience"] = float(experience.index)
        numbers["train/epoch"] = float(epoch)
        self.log(numbers, learner.global_steps)

    @hookimpl(trylast=True)
    def after_evaluation(
        self, learner: Learner, row: str, results: dict[str, dict[str, float]]
    ) -> None:
        """Log the row of the matrix, by task and as a mean, and the matrix so far."""
        self._expect(learner, results)
        self.log(row_numbers(results, len(learner.seen)), learner.global_steps)
        shown = learner.seen and is_shown(len(learner.seen) - 1, len(learner.stream))
        if shown and learner.step_log.takes_media:
            self._log_matrix(learner)
        for logger in [logger for logger in self.loggers if logger.log_model == "all"]:
            self._tell(lambda target: target.log_checkpoint(f"after-{row}"), [logger])

    def _expect(self, learner: Learner, results: dict[str, dict[str, float]]) -> None:
        """Announce the columns of later rows, so that tables are not rewritten each time."""
        new = {name for measures in results.values() for name in measures} - self._expected
        if new and len(results) < len(learner.stream.tasks):
            self._expected |= new
            tasks = learner.stream.tasks
            names = [f"eval/{measure}/{task.name}" for measure in sorted(new) for task in tasks]
            for logger in self.loggers:
                logger.expect(names)

    def _log_matrix(self, learner: Learner) -> None:
        """Log the matrix so far as a table and as a heat map."""
        media = media_files.of_matrix(self.run_dir, learner.state.matrix, len(learner.seen))
        self.log_media(media, learner.global_steps, self._place())

    @hookimpl(trylast=True)
    def on_metric(self, learner: Learner, name: str, step: int, values: dict[str, float]) -> None:
        """Log the values that a plugin measured during training."""
        learner.step_log.flush()  # so that steps stay in order
        self.log({f"{name}/{key}": value for key, value in values.items()}, step)

    @hookimpl(trylast=True)
    def after_run(self, learner: Learner, result: Result) -> None:
        """Log the metrics, and the results as an artifact if the logger has artifacts."""
        numbers = {
            f"metrics/{family}.{name}": float(value)
            for family, values in result.metrics.items()
            for name, value in values.items()
            if isinstance(value, int | float)
        }
        self.log(numbers, learner.global_steps)
        files = [self.run_dir / name for name in ("results.json", "matrix.csv", "config.yaml")]
        self._tell(lambda logger: logger.log_files("results", "results", files, ["final"]))

    @hookimpl(trylast=True)
    def teardown(self, error: BaseException | None) -> None:
        """Close every logger with the run's final status."""
        status = "success" if error is None else "failed"
        if isinstance(error, KeyboardInterrupt):
            status = "stopped"
        if self._step_log is not None:
            with contextlib.nullcontext() if error is None else contextlib.suppress(Exception):
                self._step_log.flush()
        for logger in list(self.loggers):
            # After a failure (a full disk) closing may fail too, which adds no information.
            quietly = contextlib.nullcontext() if error is None else contextlib.suppress(Exception)
            with quietly:
                self._tell(lambda logger: logger.finalize(status), [logger])


def row_numbers(results: Mapping[str, Mapping[str, float]], experiences: int) -> dict[str, float]:
    """Return the logged numbers of a row of the matrix, after ``experiences`` experiences.

    >>> row_numbers({"a": {"accuracy": 1.0}, "b": {"accuracy": 0.5}}, 1)["eval/mean"]
    0.75
    """
    numbers = {
        f"eval/{measure}/{task}": value
        for task, measures in results.items()
        for measure, value in measures.items()
    }
    firsts = [next(iter(measures.values())) for measures in results.values()]
    if firsts:
        numbers["eval/mean"] = sum(firsts) / len(firsts)
    return {**numbers, "eval/experiences": float(experiences), "experience": float(experiences)}
