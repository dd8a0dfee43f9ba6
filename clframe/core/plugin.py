"""The base class of plugins, and the manager that calls them for one learner.

Mistakes that pluggy would pass over in silence are refused when the class is made: a hook's name
that does not exist, an argument a hook does not have, a hook-named method without the marker.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import pluggy

from clframe.core import trace
from clframe.core.capabilities import Capabilities, check_attributes, check_capabilities
from clframe.core.roles import check_roles, conflict
from clframe.core.stream import SCENARIOS
from clframe.errors import PluginError, nearest
from clframe.hookspecs import HOOKS, HookSpecs
from clframe.utils.serialization import load_value, plain_value

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.stream import Experience, Stream
    from clframe.data.dataset import Data

_IN_STEPS = ("extra_data", "extra_batches", "penalty", "after_backward")
"""Hooks by which a plugin changes what is learned in a step."""
_ARGUMENTS = {hook: set(inspect.signature(getattr(HookSpecs, hook)).parameters) for hook in HOOKS}


class MetricFacts(Protocol):
    """What a plugin says of one of its metrics: a :class:`clframe.metrics.MetricInfo`."""

    @property
    def name(self) -> str:
        """The full name, with the family first."""

    def to_json(self) -> dict[str, Any]:
        """What results.json holds of it."""


class Plugin:
    """One method, evaluator or recorder: a class with ``@hookimpl`` methods in one file.

    Hyperparameters are the keyword arguments of ``__init__``, with type hints and defaults; they
    become settings on the command line. What must survive a checkpoint is named in ``state``.

    Example:
        >>> from clframe import Plugin, hookimpl
        >>> from clframe.testing import toy_run, toy_stream
        >>> class Count(Plugin):
        ...     '''Counts steps.'''
        ...
        ...     state = ("steps",)
        ...     steps = 0
        ...
        ...     @hookimpl
        ...     def after_step(self):
        ...         self.steps += 1
        >>> counter = Count()
        >>> _ = toy_run([counter], toy_stream(), max_epochs=1, batch_size=40)
        >>> counter.steps
        6
    """

    name: ClassVar[str] = ""
    """The name in configs and on the command line; the class name in lower case if left empty."""
    paper: ClassVar[str] = ""
    """Where the method comes from: authors, title, year."""
    scenarios: ClassVar[Sequence[str]] = SCENARIOS
    """The scenarios the method can work in."""
    needs: ClassVar[Sequence[str]] = ()
    """Names of plugins that must be there too."""
    roles: ClassVar[Collection[str]] = ()
    """What the plugin decides about learning: names of the table in :mod:`clframe.core.roles`."""
    excludes: ClassVar[Mapping[str, str]] = {}
    """Roles that the plugin cannot work with in another one, each with the reason."""
    capabilities: Capabilities = Capabilities()
    """What the plugin needs and can do; an instance may replace its own in ``__init__``."""
    metric_info: ClassVar[Sequence[MetricFacts]] = ()
    """Direction, unit and formula of the numbers that the hook ``metrics`` returns, as
    ``clframe.metrics.MetricInfo("family.name", higher_is_better=False)``. Without an entry, higher
    is better."""
    state: ClassVar[Sequence[str]] = ()
    """Names of attributes that make up the plugin's state (tensors, modules, optimizers, plain
    values and lists, dicts of those): all that changes from step to step, from epoch to epoch or
    from experience to experience. What ``before_experience`` makes is made again by it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__ or not cls.name:
            cls.name = cls.__name__.lower()
        where = f"{cls.__module__}.{cls.__name__}"
        check_roles(cls, where)
        check_capabilities(cls, cls.capabilities, where)
        for info in cls.metric_info:
            if "." not in info.name:
                raise PluginError(
                    f"{where}.metric_info names '{info.name}': write the full name with the "
                    f"family first, such as '{cls.name}.{info.name}'"
                )
        for attribute, value in vars(cls).items():
            if not callable(value):
                continue
            marked = hasattr(value, "clframe_impl")
            if attribute in HOOKS and not marked:
                raise PluginError(
                    f"{where}.{attribute} is named like a hook but lacks @hookimpl, so it would "
                    "never be called: add the marker or rename the method"
                )
            if marked and attribute not in HOOKS:
                raise PluginError(
                    f"{where}.{attribute} is marked @hookimpl but there is no hook of that name; "
                    f"{nearest(attribute, HOOKS)}"
                )
            if marked:
                unknown = set(inspect.signature(value).parameters) - _ARGUMENTS[attribute]
                if unknown:
                    raise PluginError(
                        f"{where}.{attribute} asks for {', '.join(sorted(unknown))}, which that "
                        "hook does not give; it gives "
                        f"{', '.join(sorted(_ARGUMENTS[attribute] - {'self'}))}"
                    )

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Make this plugin for a run; None where the run has no need of it.

        Called for the built-in plugins (``clframe.strategies.DEFAULT_PLUGINS``), which every run
        has; those of a strategy are made from their settings.
        """
        return cls()

    @classmethod
    def summary(cls) -> str:
        """The first line of the class's docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    def state_dict(self) -> dict[str, Any]:
        """Everything named in ``state``, as tensors and plain values."""
        return {key: plain_value(self._saved(key)) for key in self.state}

    def _saved(self, key: str) -> Any:
        """An attribute that ``state`` names."""
        if not hasattr(self, key):
            raise PluginError(
                f"plugin '{self.name}' names '{key}' in `state` but has no such attribute: set it "
                "in __init__ or in configure"
            )
        return getattr(self, key)

    def written_files(self) -> dict[str, dict[str, Any]]:
        """What files of the run folder held when the state was taken, by their place in it.

        A run is not resumed where such a file was damaged or changed; see ``utils/sums.py``.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` gave."""
        if set(state) != set(self.state):
            raise PluginError(
                f"the saved state of plugin '{self.name}' holds {sorted(state)}, "
                f"but this version of it keeps {sorted(self.state)}"
            )
        for key, value in state.items():
            setattr(self, key, load_value(self._saved(key), value))

    def revisited_data(self, stream: Stream, seen: Sequence[Experience]) -> Sequence[Data]:
        """Return the data of earlier experiences that the method goes back to, if any.

        It counts as the method's memory in tables. Buffers are counted without it.

        Args:
            stream: What is learned.
            seen: The experiences that were learned.
        """
        return ()

    def state_in_fork(self, state: dict[str, Any]) -> dict[str, Any]:
        """What a forked run takes over of its parent's state: all of it, unless a plugin says."""
        return state


@functools.cache
def _marked(kind: type) -> frozenset[str]:
    """Names of a class that are marked as hooks."""
    return frozenset(
        name for name in dir(kind) if hasattr(getattr(kind, name, None), "clframe_impl")
    )


class _Manager(pluggy.PluginManager):
    """pluggy's, which looks at each attribute of each plugin; ours once at those of a class."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Return a hook's marker, or None if the attribute is not a hook."""
        kind: Any = type(plugin)
        return super().parse_hookimpl_opts(plugin, name) if name in _marked(kind) else None


class Plugins:
    """The plugins of one learner in their written order, and pluggy's manager over them."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self.ordered = list(plugins)
        self.manager = _Manager("clframe")
        self.manager.add_hookspecs(HookSpecs)
        # pluggy calls the last registered first, so the written order is registered in reverse.
        for plugin in reversed(self.ordered):
            self.manager.register(plugin, name=plugin.name)
        self.manager.check_pending()
        self.hook = self.manager.hook
        if trace.mode():
            trace.Trace(self.manager, trace.Printer(every_step=trace.mode() == "all"))
        self._implemented = {name for name in HOOKS if getattr(self.hook, name).get_hookimpls()}
        self._named_calls: dict[str, list[tuple[str, Callable[..., Any]]]] = {}

    def implements(self, hook: str) -> bool:
        """Whether any plugin has this hook."""
        return hook in self._implemented

    def only(self, plugin: Plugin, hook: str) -> bool:
        """Whether this plugin alone has this hook."""
        implementations = getattr(self.hook, hook).get_hookimpls()
        return [implementation.plugin for implementation in implementations] == [plugin]

    def calls(self, hook: str) -> Iterator[Callable[..., Any]]:
        """Each plugin's own implementation of a hook, to be called one by one in their order."""
        # pluggy calls the last one first.
        for implementation in reversed(getattr(self.hook, hook).get_hookimpls()):
            others = [other for other in self.ordered if other is not implementation.plugin]
            yield self.manager.subset_hook_caller(hook, others)

    def named_results(
        self, hook: str, of: Collection[str] | None = None, /, **arguments: Any
    ) -> list[tuple[str, Any]]:
        """Return what plugins return from a hook, each with its plugin's name.

        If a plugin wraps the hook, all are called at once and share the name ``a+b``.

        Args:
            hook: Its name.
            of: The names of the plugins that are asked; None for all.
            **arguments: Of the hook.
        """
        calls = self._named_calls.get(hook)
        if calls is None:
            caller = getattr(self.hook, hook)
            # pluggy calls the last one first.
            found = list(reversed(caller.get_hookimpls()))
            names = [one.plugin.name for one in found if not (one.wrapper or one.hookwrapper)]
            if len(names) == len(found) > 1:
                calls = list(zip(names, self.calls(hook), strict=True))
            else:
                calls = [("+".join(names), caller)]
            self._named_calls[hook] = calls
        if of is not None:
            calls = [(name, call) for name, call in calls if name in of]
        return [(name, answer) for name, call in calls for answer in call(**arguments)]

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """The state of every plugin by name."""
        return {plugin.name: plugin.state_dict() for plugin in self.ordered}

    def written_files(self) -> dict[str, dict[str, Any]]:
        """What the files held that plugins have written; ask after :meth:`state_dict`."""
        return {n: mark for plugin in self.ordered for n, mark in plugin.written_files().items()}

    def load_state_dict(self, state: dict[str, dict[str, Any]]) -> None:
        """Restore the state of every plugin."""
        for plugin in self.ordered:
            plugin.load_state_dict(state.get(plugin.name, {}))


def check_composition(plugins: Sequence[Plugin], stream: Stream) -> None:
    """Refuse a set of plugins that cannot work together or on this stream, naming both."""
    names = [plugin.name for plugin in plugins]
    for name in names:
        if names.count(name) > 1:
            raise PluginError(f"plugin '{name}' is given twice; a strategy may hold it once")
    for plugin in plugins:
        check_attributes(plugin)
    for position, plugin in enumerate(plugins):
        for other in plugins[position + 1 :]:
            if words := conflicting(plugin, other):
                raise PluginError(words)
    for plugin in plugins:
        for name in plugin.needs:
            if name not in names:
                raise PluginError(f"plugin '{plugin.name}' needs plugin '{name}': add it")
        if plugin.capabilities.needs_boundaries and not stream.boundaries:
            raise PluginError(
                f"plugin '{plugin.name}' has to know when a task ends, but stream '{stream.name}' "
                "has no boundaries between tasks: choose a method that learns step by step, such "
                "as er or der, or a stream with boundaries"
            )
        learner = stream.learner
        labels = plugin.capabilities.needs_class_labels
        if labels and learner is not None and not learner.classifies:
            raise PluginError(
                f"plugin '{plugin.name}' needs labels that are classes, but stream '{stream.name}' "
                f"is learned by {learner.__name__}: choose another strategy, or set classifies = "
                "True in that class if its outputs are a logit for each class"
            )
        if stream.scenario not in plugin.scenarios:
            raise PluginError(
                f"plugin '{plugin.name}' works in the {' and '.join(plugin.scenarios)} scenario, "
                f"but stream '{stream.name}' is {stream.scenario}-incremental: "
                f"set scenario={plugin.scenarios[0]} or choose another strategy"
            )


def check_online(plugins: Sequence[Plugin], passes: int | None) -> None:
    """Refuse a method that shows samples again where every sample is to be seen once."""
    for plugin in plugins:
        if passes is not None and plugin.capabilities.multi_pass:
            raise PluginError(
                f"plugin '{plugin.name}' trains on samples of an experience again, but "
                "trainer.passes=1 shows every sample once: leave trainer.passes out or choose "
                "another strategy"
            )


def conflicting(one: Plugin | type[Plugin], other: Plugin | type[Plugin]) -> str:
    """Return why two plugins, or their classes, cannot be combined; empty if they can."""
    if words := conflict(one, other):
        return words
    for this, that in ((one, other), (other, one)):
        if this.capabilities.training_steps:
            continue
        if _acts_in_steps(that) or not that.capabilities.training_steps:
            return (
                f"plugin '{this.name}' cannot be combined with '{that.name}': it learns without "
                f"steps and leaves nothing to '{that.name}'"
            )
    return ""


def _acts_in_steps(plugin: Plugin | type[Plugin]) -> bool:
    """Return whether a plugin changes what is learned in a step."""
    return not plugin.capabilities.evaluator and any(
        hasattr(getattr(plugin, hook, None), "clframe_impl") for hook in _IN_STEPS
    )
