"""The interface of loggers; every method except ``log_metrics`` has a default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from clframe.errors import PluginError
from clframe.utils.overrides import check_overrides

if TYPE_CHECKING:
    from clframe.recording.media import Media


class RunLogger:
    """A logger of a run. Derive from it, or from a Lightning logger and it, in this order.

    Register the function that makes it: ``registry.add("logger", "mine", make)``. Any Lightning
    logger can be returned as well; it then gets numbers only.

    Example:
        >>> class Printer(RunLogger):
        ...     '''Prints every number.'''
        ...
        ...     def log_metrics(self, metrics, step=None):
        ...         print(step, dict(metrics))
        >>> Printer().log_metrics({"train/loss": 0.5}, step=3)
        3 {'train/loss': 0.5}
    """

    remote: ClassVar[bool] = False
    """Whether a server is involved, whose failures must not end the run."""
    takes_media: bool = False
    """Whether it can log images, videos, tables and texts (:meth:`log_media`)."""
    numbers_only: ClassVar[bool] = False
    """Whether nobody expects media in it, so that it skips them without a warning."""
    log_model: bool | Literal["all"] = False
    """Whether it logs checkpoints: the last one, or ``all`` (:meth:`log_checkpoint`)."""
    title: str = ""
    """Its name in messages; the name of its class if empty."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_overrides(cls, [RunLogger])
        if cls.log_metrics is RunLogger.log_metrics:
            where = f"{cls.__module__}.{cls.__name__}"
            for base in cls.__mro__[1:]:
                if base is not RunLogger and "log_metrics" in vars(base):
                    raise PluginError(
                        f"{where} does not use 'log_metrics' of {base.__name__}: write class "
                        f"{cls.__name__}({base.__name__}, clframe.RunLogger), in this order"
                    )
            raise PluginError(f"{where} has no method 'log_metrics'")

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log numbers by name; every logger has this method."""
        raise NotImplementedError

    def log_media(
        self, media: Sequence[Media], step: int, numbers: Mapping[str, float] | None = None
    ) -> None:
        """Log media, which are files of the run folder, in one row with numbers."""

    def log_files(
        self, name: str, kind: str, paths: Sequence[Path], aliases: Sequence[str]
    ) -> None:
        """Log files of the run folder as an artifact."""

    def log_checkpoint(self, alias: str) -> None:
        """Log the newest checkpoint as an artifact."""

    def expect(self, names: Sequence[str]) -> None:
        """Prepare for numbers that will be logged under these names."""

    def state_dict(self) -> dict[str, Any]:
        """Return the logger's position as plain data; a resumed run continues there."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return checksums of the logger's files in the run folder, by path."""
        return {}

    def finalize(self, status: str) -> None:
        """Close the logger; ``status`` is success, failed or stopped."""


class NumbersOnly(RunLogger):
    """A Lightning logger that is not a :class:`RunLogger`: it gets only numbers.

    Args:
        logger: The Lightning logger.
    """

    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self.title = type(logger).__name__

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log numbers by name."""
        self.logger.log_metrics(dict(metrics), step=step)

    def finalize(self, status: str) -> None:
        """Close the logger."""
        self.logger.finalize(status)


def as_run_logger(made: Any, name: str) -> RunLogger:
    """Return the object that a logger's factory made as a logger of a run.

    Raises:
        PluginError: It is not a logger; names the missing method.
    """
    if isinstance(made, RunLogger):
        return made
    for method in ("log_metrics", "finalize"):
        if not callable(getattr(made, method, None)):
            raise PluginError(
                f"logger '{name}' is a {type(made).__name__} without '{method}': return a "
                "Lightning logger or a subclass of clframe.RunLogger"
            )
    return NumbersOnly(made)


def title_of(logger: RunLogger) -> str:
    """Return a logger's name for messages."""
    return logger.title or type(logger).__name__
