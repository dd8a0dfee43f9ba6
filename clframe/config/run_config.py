"""The description of a run.

:class:`RunConfig` is the arguments of :func:`clframe.fit`, the content of ``config.yaml`` and what
the command line composes into. It is made from keywords (:meth:`RunConfig.of`), from overrides
(:func:`clframe.config.compose.compose`) or from a run folder (:meth:`RunConfig.from_folder`). Its
defaults are the same on the command line and in Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clframe.config.arguments import place_arguments
from clframe.config.read_config import read_content, refuse_objects
from clframe.config.setting_groups import GROUP_OF, GROUPS_OF_SETTINGS
from clframe.core.factory import Named
from clframe.core.learner_factory import STREAMS_OWN
from clframe.core.stream import SCENARIOS, Scenario, Stream
from clframe.errors import SettingError
from clframe.runs import received
from clframe.utils import setting_checks

if TYPE_CHECKING:
    from torch import nn

    from clframe.strategies import StrategyLike


@dataclass(frozen=True)
class RunConfig:
    """Everything that describes a run.

    The fields are the arguments of :func:`clframe.fit`, in the same order and with the same
    defaults.

    Args:
        stream: A registered name, a mapping with ``name`` and settings, or a stream.
        strategy: A name, a plugin, a mapping from plugin to settings, or a list of those.
        model: A registered name, a mapping with ``name`` and settings, or a module. By default,
            the stream's own model.
        learner: How to learn the stream: ``default`` (the stream's own way), ``imitation``,
            ``sac``, ``ppo``, or a mapping with ``name`` and settings.
        scenario: task, domain or class. By default, the stream's own.
        optimizer: adam, adamw, sgd, or a mapping with ``name`` and settings.
        scheduler: How the learning rate changes: none, cosine, linear, step, warmup_cosine, a class
            of ``torch.optim.lr_scheduler``, or a mapping with ``name`` and settings.
        logger: csv, wandb, tensorboard, a list of them, a mapping, or None. A Lightning logger is
            ``{"lightning": {"class_path": "package.module.Class", ...}}``.
        seed: Seed of everything random.
        data_dir: The data folder; None is ``$CLFRAME_DATA`` or ``~/.cache/clframe``.
        download: Download missing data.
        active_outputs: In class-incremental streams, compete among the classes ``seen`` so far or
            among ``all``.
        pretrain: A run folder whose final weights the model starts from.
        plugin_path: A file (or files) with your own plugins.
        plugin_files: The run's copies of these files, to load instead of them.
        run_dir: Where to write the run. None is ``runs/<stream>/<strategy>/<time>-s<seed>/``, and
            False writes nothing.
        resume: A run folder to continue, made with the same arguments. ``auto`` continues the run
            in ``run_dir``, or starts it if there is none.
        resume_allow: Which differences are allowed when a run is continued, such as
            ``["trainer.max_epochs"]``, ``["version"]``, ``["data"]`` or ``["plugins"]``.
        progress: Show the progress of the run.
        strategy_name: The strategy's name in the records. By default, the names of its parts.
        overrides: The arguments of the command line that ask for this run, for the records. By
            default, they follow from the other arguments.
        fork: The run and its state that this run starts from; :func:`clframe.fork` writes it.
        trainer: How to train; ``clframe list trainer --long`` explains the settings.
        evaluation: When and on what tasks to evaluate; see ``clframe list evaluation``.
        logging: What to record besides the results; see ``clframe list logging``.
        checkpoint: How often to save the run; see ``clframe list checkpoint``.

    Example:
        >>> import clframe
        >>> config = clframe.RunConfig.of("split_mnist", ["ewc", "replay"], seed=3, max_epochs=2)
        >>> config.seed, config.trainer
        (3, {'max_epochs': 2})
    """

    stream: Named | Stream = "split_mnist"
    strategy: StrategyLike = "naive"
    model: Named | nn.Module | None = None
    learner: Named = STREAMS_OWN
    scenario: Scenario | None = None
    optimizer: Named = "adam"
    scheduler: Named = "none"
    logger: Named | Sequence[str] | None = "csv"
    seed: int = 0
    data_dir: str | Path | None = None
    download: bool = False
    active_outputs: Literal["seen", "all"] = "seen"
    pretrain: str | Path | None = None
    plugin_path: str | Path | Sequence[str | Path] | None = None
    plugin_files: Sequence[str | Path] | None = field(default=None, compare=False)
    run_dir: str | Path | Literal[False] | None = None
    resume: str | Path | None = None
    resume_allow: Sequence[str] = ()
    progress: bool = True
    strategy_name: str | None = None
    overrides: Sequence[str] | None = dataclasses.field(default=None, compare=False)
    fork: Mapping[str, Any] | None = None
    trainer: Mapping[str, Any] | None = None
    evaluation: Mapping[str, Any] | None = None
    logging: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", setting_checks.convert(self.seed, int, "seed"))
        setting_checks.at_least(self.seed, 0, "seed")
        for name in ("data_dir", "pretrain", "run_dir", "resume"):
            object.__setattr__(self, name, _folder(name, getattr(self, name)))
        if self.active_outputs not in ("seen", "all"):
            raise SettingError(f"active_outputs must be seen or all, got {self.active_outputs!r}")
        if not isinstance(self.progress, bool):
            raise SettingError(f"progress must be true or false, got {self.progress!r}")
        if self.scenario is not None and self.scenario not in SCENARIOS:
            raise SettingError(
                f"scenario must be one of {', '.join(SCENARIOS)}, got '{self.scenario}'"
            )
        for group, settings in GROUPS_OF_SETTINGS.items():
            values = getattr(self, group) or {}
            object.__setattr__(self, group, values)
            for name in values:
                if (right := GROUP_OF.get(name, group)) != group:
                    raise SettingError(
                        f"unknown setting '{name}' for {group}; write {right}.{name}"
                    )
            setting_checks.check(settings, values, group)
        if self.resume == "auto" and not self.run_dir:
            raise SettingError("resume=auto continues the run in run_dir: give run_dir=FOLDER")

    # ------------------------------------------------------------ constructors

    @classmethod
    def of(cls, *positional: Any, **values: Any) -> RunConfig:
        """Make one from the arguments of :func:`clframe.fit`.

        The first three may be positional. Other keywords that are not fields are settings of the
        trainer, and ``lr`` is a setting of the optimizer.

        >>> RunConfig.of("permuted_mnist", "ewc", max_epochs=1).trainer
        {'max_epochs': 1}
        >>> RunConfig.of("permuted_mnist", lr=0.01).optimizer
        {'name': 'adam', 'lr': 0.01}
        """
        fields = [field.name for field in dataclasses.fields(cls)]
        return cls(**place_arguments(fields, positional, values))

    @classmethod
    def from_folder(
        cls, path: str | Path, plugin_path: Sequence[str | Path] | None = None
    ) -> RunConfig:
        """Make one from the ``config.yaml`` of a run, to continue or read it.

        Args:
            path: The run folder.
            plugin_path: Your own files to load instead of the run's plugin files.

        Raises:
            ClframeError: The folder holds no run, or one that was made with Python objects, or
                one with code that you have not confirmed.
        """
        content = read_content(path)
        if not plugin_path:
            return cls.from_content(content, path)
        typed = [f"plugin_path={file}" for file in plugin_path]
        content |= {"plugin_path": received.plugin_paths(typed)}
        return cls.from_content(content, path, typed)

    @classmethod
    def from_content(
        cls, content: Mapping[str, Any], path: str | Path, typed: Sequence[str] = ()
    ) -> RunConfig:
        """Make one from the content of a ``config.yaml``.

        Args:
            content: Content of the file, with the user's overrides applied.
            path: The run folder.
            typed: The user's overrides; code that they name needs no confirmation.
        """
        refuse_objects(content, path)
        files = received.check(content, Path(path), typed)
        content = {**content, "plugin_files": [file.path for file in files] or None}
        fields = {entry.name for entry in dataclasses.fields(cls)}
        for name in content:
            if name not in fields:
                raise SettingError(
                    f"'{Path(path) / 'config.yaml'}' has an entry '{name}', which this version of "
                    "clframe does not know"
                )
        try:
            return cls(**{**content, "resume": str(path)})
        except SettingError as error:
            config = Path(path) / "config.yaml"
            raise SettingError(f"{error}; the settings of this run are in '{config}'") from error

    def replace(self, **values: Any) -> RunConfig:
        """Return a copy with other values."""
        if "plugin_path" in values:
            values.setdefault("plugin_files", None)
        return dataclasses.replace(self, **values)

    # ------------------------------------------------------------ content

    @property
    def plugin_paths(self) -> list[str | Path]:
        """The user's own plugin files, as they are loaded."""
        if self.plugin_files:
            return list(self.plugin_files)
        return self.named_files

    @property
    def named_files(self) -> list[str | Path]:
        """The files of ``plugin_path``."""
        path = self.plugin_path
        paths = [path] if isinstance(path, str | Path) else list(path or ())
        for item in paths:
            if not isinstance(item, str | Path):
                raise SettingError(f"plugin_path must be the names of files, got {item!r} in it")
        return paths

    @property
    def logger_names(self) -> list[str]:
        """The names of the chosen loggers."""
        if self.logger is None:
            return []
        return [self.logger] if isinstance(self.logger, str) else list(self.logger)


def _folder(name: str, value: Any) -> Any:
    """Return a folder's name; YAML reads a name of digits as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    nowhere = value is None or (name == "run_dir" and value is False)
    if not nowhere and not (isinstance(value, str | Path) and str(value)):
        raise SettingError(f"{name} must be the name of a folder, got {value!r}")
    return value
