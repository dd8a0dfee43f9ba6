"""The registry of everything that a config can name: plugins, streams, models, metrics, ...

Names are resolved only here. A config can choose among installed code and files given on the
command line, but it can never bring code.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from clframe.core.plugin import Plugin
from clframe.errors import PluginError, UnknownNameError, nearest
from clframe.utils import setting_checks
from clframe.utils.config_files import find_config_dirs, stream_defaults
from clframe.utils.entry_points import entry_points_of
from clframe.utils.processes import USER_MODULE
from clframe.utils.source_file import spec_of_file

Kind = Literal["stream", "plugin", "model", "metric", "logger", "optimizer", "scheduler", "learner"]
KINDS: tuple[Kind, ...] = get_args(Kind)

ENTRY_POINT_GROUP = "clframe.plugins"
BUILT_IN = (
    "clframe.streams",
    "clframe.plugins",
    "clframe.plugins.builtin",
    "clframe.models",
    "clframe.loggers",
    "clframe.rl",
)
BUILT_IN_MODULES = (
    "clframe.training.optimizers",
    "clframe.training.schedulers",
    "clframe.core.learner_factory",
    "clframe.robot.learner",
)


GIVEN: dict[str, tuple[str, ...]] = {
    "stream": ("data_dir", "download", "registry"),
    "model": ("stream", "input_shape", "n_outputs", "data_dir"),
    "logger": ("run_dir", "run_config", "stream_name", "progress"),
}
"""Parameters of factories that core fills in, by kind."""
GIVEN_UNLESS_SET = ("seed", "scenario")
"""Parameters of streams that core fills in from the run, unless the stream's settings do."""


@dataclass(frozen=True)
class Entry:
    """A registered name with its factory and origin."""

    kind: Kind
    name: str
    factory: Callable[..., Any]
    origin: str
    summary: str
    model: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trainer: Mapping[str, Any] = field(default_factory=dict)
    learners: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedFile:
    """A user's file: its path and the content that was executed."""

    path: Path
    sha256: str
    content: bytes


class Registry:
    """The registered names of each kind. Made by :func:`discover`; it holds no state of a run.

    Example:
        >>> from torch import nn
        >>> def thin(n_outputs: int, width: int = 8) -> nn.Module:
        ...     '''One narrow layer.'''
        ...     return nn.Sequential(nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, n_outputs))
        >>> registry = Registry()
        >>> registry.add("model", "thin", thin)  # what a module's ``register`` hook does
        >>> registry.get("model", "thin").summary, registry.settings_of("model", "thin")
        ('One narrow layer.', {'width': 8})
    """

    def __init__(self, config_dirs: Sequence[Path] = ()) -> None:
        """Make an empty registry.

        Args:
            config_dirs: The user's own config folders.
        """
        self.config_dirs = tuple(config_dirs)
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
        self._origin = "clframe"
        self._added = 0
        self.problems: list[str] = []
        self.files: list[LoadedFile] = []
        """The user's files that were loaded, in order."""

    def add(
        self,
        kind: Kind,
        name: str,
        factory: Callable[..., Any],
        summary: str = "",
        model: Mapping[str, Any] | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
        trainer: Mapping[str, Any] | None = None,
        family: str | None = None,
        learners: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Register a factory under a name.

        Args:
            kind: stream, plugin, model, metric, logger, optimizer, scheduler or learner.
            name: The name that users type.
            factory: A function that is called with the settings as keyword arguments.
            summary: One line for ``clframe list``; the docstring's first line if empty.
            model: For a stream: its default model (``name`` and settings); None is ``mlp``. For a
                learner: the model that it needs, with settings from the stream's model if both have
                them.
            plugins: For a stream: defaults by plugin that replace the plugin's own, because the
                right strength of a penalty differs by orders of magnitude.
            trainer: For a stream: default settings of the trainer.
            family: For clframe's own streams: ``configs/stream/_FAMILY.yaml`` holds all of these.
            learners: For a stream: defaults by learner that replace the learner's own.
        """
        if family is not None:
            defaults = stream_defaults(family)
            model = defaults.get("model") if model is None else model
            plugins = defaults.get("plugins") if plugins is None else plugins
            trainer = defaults.get("trainer") if trainer is None else trainer
            learners = defaults.get("learners") if learners is None else learners
        if kind not in self._entries:
            raise PluginError(f"there is no kind '{kind}' to register; {nearest(kind, KINDS)}")
        if kind == "plugin" and not (inspect.isclass(factory) and issubclass(factory, Plugin)):
            raise PluginError(
                f"plugin '{name}' of {self._origin} is registered with {factory!r}, which is no "
                "subclass of clframe.Plugin: register the class"
            )
        present = self._entries[kind].get(name)
        if present is not None and present.factory is not factory:
            raise PluginError(
                f"{kind} '{name}' of {self._origin} is already registered by {present.origin}; "
                "give one of them another name"
            )
        self._added += 1
        line = summary or (inspect.getdoc(factory) or "").split("\n")[0]
        self._entries[kind][name] = Entry(
            kind,
            name,
            factory,
            self._origin,
            line,
            model or {},
            plugins or {},
            trainer or {},
            learners or {},
        )

    def add_module(self, module: ModuleType, origin: str | None = None) -> None:
        """Register the plugin classes of a module and call its ``register`` hook."""
        before, self._origin = self._origin, origin or self._origin
        try:
            for value in list(vars(module).values()):
                if (
                    inspect.isclass(value)
                    and issubclass(value, Plugin)
                    and value.__module__ == module.__name__
                    and not value.__name__.startswith("_")
                ):
                    self.add("plugin", value.name, value)
            hook = getattr(module, "register", None)
            if hook is not None and hasattr(hook, "clframe_impl"):
                hook(self)
        finally:
            self._origin = before

    def add_package(self, package: ModuleType, origin: str | None = None) -> None:
        """Register every module of a package."""
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if not info.name.rsplit(".", 1)[-1].startswith("_"):
                self.add_module(importlib.import_module(info.name), origin)

    def add_all(self, other: Registry) -> None:
        """Add every name of another registry."""
        for kind, entries in other._entries.items():
            self._entries[kind].update(entries)

    def add_file(self, path: Path) -> None:
        """Load a user's Python file and register what it defines."""
        if not path.is_file():
            raise PluginError(f"plugin_path: cannot open '{path}': no such file")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise PluginError(f"plugin_path: cannot read '{path}': {error.strerror}") from error
        name = f"{USER_MODULE}{path.stem}"
        spec = spec_of_file(name, path, content)
        if spec is None or spec.loader is None:
            raise PluginError(f"plugin_path: '{path}' is not a Python file (.py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except SyntaxError as error:
            raise PluginError(f"plugin_path: '{path}' line {error.lineno}: {error.msg}") from error
        except PluginError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"plugin_path: cannot load '{path}': {type(error).__name__}: {error}"
            ) from error
        self.files.append(LoadedFile(path, hashlib.sha256(content).hexdigest(), content))
        before = self._added
        self.add_module(module, origin=str(path))
        if self._added == before:
            raise PluginError(
                f"plugin_path: '{path}' defines no subclass of clframe.Plugin and no register hook"
            )

    def add_entry_point(self, value: object, origin: str) -> None:
        """Register the plugin class or module that an installed package's entry point names.

        Raises:
            PluginError: It defines nothing to register. The message says what to change.
        """
        before = self._added
        if inspect.isclass(value) and issubclass(value, Plugin):
            self._origin = origin
            self.add("plugin", value.name, value)
            self._origin = "clframe"
        elif isinstance(value, ModuleType):
            self.add_module(value, origin)
        else:
            raise PluginError("it is neither a module nor a subclass of clframe.Plugin")
        if self._added == before:
            modules = pkgutil.iter_modules(getattr(value, "__path__", ()), f"{origin}.")
            names = [module.name for module in modules if "._" not in module.name]
            right = (
                "its modules are not searched: name the module with the plugin, such as "
                f'"{names[0]}", in the entry point, or let a register hook in {origin} '
                "call registry.add_package"
                if names
                else "define one there, or name the module that does in the entry point"
            )
            raise PluginError(
                f"{origin} defines no subclass of clframe.Plugin and no register hook; {right}"
            )

    def entries(self, kind: Kind) -> list[Entry]:
        """Return all entries of a kind by name."""
        return [self._entries[kind][name] for name in sorted(self._entries[kind])]

    def plugin_classes(self) -> dict[str, type[Plugin]]:
        """Return the classes of all plugins by name."""
        factories: dict[str, Any] = {e.name: e.factory for e in self.entries("plugin")}
        return factories  # all of them are classes, see add

    def names(self, kind: Kind) -> list[str]:
        """Return all names of a kind."""
        return sorted(self._entries[kind])

    def get(self, kind: Kind, name: str) -> Entry:
        """Return the entry with that name.

        Raises:
            UnknownNameError: There is none; the message suggests the nearest known name.
        """
        try:
            return self._entries[kind][name]
        except KeyError:
            names = self._entries[kind]
            raise UnknownNameError(f"unknown {kind} '{name}'; {nearest(name, names)}") from None

    def settings_of(self, kind: Kind, name: str, all_settings: bool = False) -> dict[str, Any]:
        """Return the settings of an entry with their defaults.

        Args:
            kind: The entry's kind.
            name: The entry's name.
            all_settings: Include a stream's own seed and scenario.
        """
        given = GIVEN.get(kind, ()) + (() if all_settings else GIVEN_UNLESS_SET)
        return setting_checks.defaults(self.get(kind, name).factory, given)

    def model_for(self, stream: str, learner: str = "default") -> dict[str, Any]:
        """Return the default model of a stream."""
        entry = self._entries["stream"].get(stream)
        model = dict(entry.model) if entry is not None and entry.model else {"name": "mlp"}
        wanted = self.get("learner", learner).model
        if not wanted:
            return model
        factory = self.get("model", wanted["name"]).factory
        shared = {k: v for k, v in model.items() if setting_checks.accepts(factory, k)}
        return {**shared, **wanted}

    def learner_for(self, stream: str, learner: str) -> dict[str, Any]:
        """Return a stream's defaults for the settings of a learner."""
        entry = self._entries["stream"].get(stream)
        return dict(entry.learners.get(learner, {})) if entry is not None else {}

    def plugins_for(self, stream: str) -> Mapping[str, Mapping[str, Any]]:
        """Return a stream's defaults for the settings of plugins."""
        entry = self._entries["stream"].get(stream)
        return entry.plugins if entry is not None else {}

    def trainer_for(self, stream: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the trainer's settings: the given values on top of the stream's defaults.

        A given ``max_epochs``, ``max_steps`` or ``passes`` replaces all of these from the stream.
        """
        entry = self._entries["stream"].get(stream)
        defaults = dict(entry.trainer) if entry is not None else {}
        if {"max_epochs", "max_steps"} & set(values) or values.get("passes") is not None:
            defaults.pop("max_epochs", None)
            defaults.pop("max_steps", None)
        return {**defaults, **values}

    def build(self, kind: Kind, name: str, values: dict[str, Any], **given: Any) -> Any:
        """Make the named object from checked settings and the values that core provides.

        A factory receives only those of the provided values that it has parameters for.
        """
        entry = self.get(kind, name)
        wanted = {k: v for k, v in given.items() if setting_checks.accepts(entry.factory, k)}
        checked = setting_checks.check(entry.factory, values, f"{kind} '{name}'", given=wanted)
        try:
            return entry.factory(**setting_checks.pack(entry.factory, {**wanted, **checked}))
        except SystemExit as error:
            raise PluginError(
                f"{kind} '{name}' from {entry.origin} called sys.exit while it was made; "
                "raise an error there instead"
            ) from error


@functools.cache
def _built_in() -> Registry:
    """Return the registry of clframe's own names; every run gets a copy."""
    registry = Registry()
    for name in BUILT_IN:
        registry.add_package(importlib.import_module(name))
    for name in BUILT_IN_MODULES:
        registry.add_module(importlib.import_module(name))
    return registry


def discover(
    plugin_path: Iterable[str | Path] = (), config_dir: Sequence[str | Path] = ()
) -> Registry:
    """Find all names: built-in ones, those of installed packages, and those of the user's files.

    An installed package that cannot be loaded is skipped with a warning, so that a broken package
    does not stop a run that does not use it.

    Args:
        plugin_path: Files with plugins.
        config_dir: Folders with config files, in addition to ``$CLFRAME_CONFIG``.
    """
    registry = Registry(find_config_dirs(config_dir))
    registry.add_all(_built_in())
    for point in entry_points_of(ENTRY_POINT_GROUP):
        try:
            registry.add_entry_point(point.load(), point.value)
        except (Exception, SystemExit) as error:
            problem = f"skipping installed plugin '{point.name}' ({point.value}): {error}"
            registry.problems.append(problem)
            warnings.warn(problem, stacklevel=2)
    for path in plugin_path:
        registry.add_file(Path(path))
    return registry
