"""Any Lightning logger, named by its class: MLflow, Comet, Neptune or your own.

It gets the run's numbers and config. It also gets images, videos and tables if it is of a known
kind: a logger with W&B's ``log_image`` and ``log_table``, a writer with TensorBoard's
``add_image``, or a client with MLflow's ``log_artifact``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.errors import SettingError, nearest
from clframe.hookspecs import hookimpl
from clframe.loggers.local import flat, markdown
from clframe.recording.logger import RunLogger
from clframe.recording.media import Media
from clframe.utils.files import write_json

if TYPE_CHECKING:
    from clframe.core.registry import Registry

_IDS = {"run_id": "run_id", "id": "version", "experiment_key": "version", "version": "version"}
"""Parameters by which loggers continue a run, and the attributes that identify it."""
_NEW_EACH_TIME = ("CSVLogger",)
"""Loggers that would delete existing files if they were given their version."""


class Foreign(RunLogger):
    """A Lightning logger with the interface of clframe's loggers.

    A resumed run continues the logger's run if its class has a parameter for that. Calls that the
    interrupted run has already made are skipped.

    Args:
        logger: The Lightning logger.
        run_dir: The run folder.
        run_config: The resolved config of the run.
    """

    remote = True

    def __init__(self, logger: Any, run_dir: Path, run_config: Mapping[str, Any]) -> None:
        self.logger, self._run_dir = logger, run_dir
        self.title = type(logger).__name__
        self.takes_media = _way_of(logger) is not None
        self._config: Mapping[str, Any] | None = run_config
        self._memory = memory_of(run_dir, self.title)
        self._calls = 0
        # One byte for each call: the number of calls is known even after a kill.
        self._counter = self._memory.with_suffix(".sent")
        self._sent = self._counter.stat().st_size if self._counter.is_file() else 0

    def _begin(self) -> None:
        """Send the config at the first call, and remember the id of the logger's run."""
        if self._config is None:
            return
        config, self._config = self._config, None
        with contextlib.suppress(NotImplementedError):
            self.logger.log_hyperparams(flat(config))
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        ids = {name: getattr(self.logger, held, None) for name, held in _IDS.items()}
        plain = {name: value for name, value in ids.items() if isinstance(value, str | int)}
        write_json(self._memory, plain)

    def _is_new(self) -> bool:
        """Count a call; return False if it was made before the run was resumed."""
        self._begin()
        self._calls += 1
        if self._calls <= self._sent:
            return False
        self._sent = self._calls
        with self._counter.open("ab") as file:
            file.write(b".")
        return True

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Send numbers."""
        if self._is_new():
            self.logger.log_metrics(dict(metrics), step=step)

    def log_media(
        self, media: Sequence[Media], step: int, numbers: Mapping[str, float] | None = None
    ) -> None:
        """Send media in the way of this kind of logger."""
        way = _way_of(self.logger)
        if way is not None and self._is_new():
            for medium in media:
                if (self._run_dir / medium.path).is_file():
                    way(self.logger, medium, self._run_dir / medium.path, step)

    def finalize(self, status: str) -> None:
        """Close the logger."""
        self.logger.finalize("success" if status == "success" else "failed")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of calls."""
        return {"calls": self._calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after this number of calls."""
        self._calls = state["calls"]


def _way_of(logger: Any) -> Any:
    """Return the function that sends media to this kind of logger, or None."""
    if hasattr(logger, "log_image") and hasattr(logger, "log_table"):
        return _as_wandb
    # By the class, because `experiment` of some loggers begins a run on a server.
    kinds = {base.__name__ for base in type(logger).__mro__}
    if "TensorBoardLogger" in kinds:
        return _as_tensorboard
    return _as_mlflow if "MLFlowLogger" in kinds else None


def _as_wandb(logger: Any, media: Media, path: Path, step: int) -> None:
    if media.kind == "table":
        table = json.loads(path.read_text())
        logger.log_table(media.name, columns=table["columns"], data=table["rows"], step=step)
    elif media.kind == "image":
        logger.log_image(media.name, images=[str(path)], step=step)
    elif media.kind == "video" and hasattr(logger, "log_video"):
        logger.log_video(media.name, videos=[str(path)], step=step)
    elif media.kind == "text" and hasattr(logger, "log_text"):
        logger.log_text(media.name, columns=["text"], data=[[path.read_text()]], step=step)


def _as_tensorboard(logger: Any, media: Media, path: Path, step: int) -> None:
    if media.kind == "image":
        import numpy as np

        from clframe.utils.image_files import opened_image

        with opened_image(path) as image:
            pixels = np.asarray(image.convert("RGB"))
        logger.experiment.add_image(media.name, pixels, step, dataformats="HWC")
    elif media.kind in ("table", "text"):
        text = path.read_text()
        shown = markdown(json.loads(text)) if media.kind == "table" else text
        logger.experiment.add_text(media.name, shown, step)


def _as_mlflow(logger: Any, media: Media, path: Path, step: int) -> None:
    logger.experiment.log_artifact(logger.run_id, str(path), media.name)


def lightning(
    run_dir: Path,
    run_config: dict[str, Any],
    class_path: str,
    init_args: dict[str, Any] = {},  # noqa: B006
) -> Foreign:
    """Return any Lightning logger, by the path of its class.

    Args:
        run_dir: The run folder.
        run_config: The resolved config of the run.
        class_path: For example ``lightning.pytorch.loggers.MLFlowLogger``.
        init_args: Its settings; ``logger.lightning.NAME=value`` puts one there. ``save_dir`` is the
            run folder if left out.

    Raises:
        SettingError: There is no such class, it is not a Lightning logger, or its settings are
            wrong.
    """
    kind = logger_class(class_path, run_dir)
    parameters = inspect.signature(kind).parameters
    free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    arguments = dict(init_args)
    for name in arguments:
        if name not in parameters and not free:
            raise SettingError(
                f"unknown setting '{name}' for logger {class_path}; {nearest(name, parameters)}"
            )
    if "save_dir" in parameters:
        arguments.setdefault("save_dir", str(run_dir))
    if kind.__name__ not in _NEW_EACH_TIME:
        with contextlib.suppress(OSError, ValueError):
            memory = json.loads(memory_of(run_dir, kind.__name__).read_text())
            ids = [name for name in _IDS if name in parameters and name in memory][:1]
            for name in ids:
                arguments.setdefault(name, memory[name])
    try:
        logger = kind(**arguments)
    except ModuleNotFoundError as error:
        line = (str(error).strip().splitlines() or [""])[0]
        raise SettingError(
            f"logger {class_path} needs a package that is not installed: {line}"
        ) from error
    except (TypeError, ValueError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SettingError(f"logger {class_path} cannot be made: {line}") from error
    return Foreign(logger, run_dir, run_config)


def memory_of(run_dir: Path, title: str) -> Path:
    """Return the path of the file that records a logger's run."""
    return run_dir / "loggers" / f"{title}.json"


def logger_class(path: str, run_dir: Path) -> Any:
    """Import the class of a path.

    Raises:
        SettingError: There is no such class, or it is not a Lightning logger.
    """
    module, _, name = path.rpartition(".")
    top = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise SettingError(
            f"logger {path}: there is no package '{top or path}' here; install it, or correct the "
            "name: package.module.Class"
        )
    # Import only installed code, never code that came with a run.
    if spec.origin and Path(spec.origin).resolve().is_relative_to(run_dir.resolve()):
        raise SettingError(f"logger {path} is inside the run folder, which is not executed")
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise SettingError(f"logger {path} cannot be imported: {error}") from error
    if kind is None:
        names = [n for n, v in vars(importlib.import_module(module)).items() if inspect.isclass(v)]
        raise SettingError(f"logger {path}: {module} has no '{name}'; {nearest(name, names)}")
    if not inspect.isclass(kind) or not _is_logger(kind):
        raise SettingError(
            f"logger {path} is not a Lightning logger: its class must derive from "
            "lightning.pytorch.loggers.Logger"
        )
    return kind


def _is_logger(kind: type) -> bool:
    """Return whether a class is a Lightning logger, under any of its three package names."""
    packages = ("lightning", "pytorch_lightning", "lightning_fabric")
    return any(
        base.__name__ == "Logger" and base.__module__.partition(".")[0] in packages
        for base in kind.__mro__
    )


@hookimpl
def register(registry: Registry) -> None:
    """Add the logger."""
    registry.add("logger", "lightning", lightning)
