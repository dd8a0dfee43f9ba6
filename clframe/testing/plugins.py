"""The contract of plugins, item by item."""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from clframe.core.hook_results import ANSWERS, describe
from clframe.core.learner import Learner
from clframe.core.plugin import Plugin, check_composition
from clframe.core.results import Result
from clframe.core.stream import Scenario, Stream
from clframe.errors import ClframeError
from clframe.hookspecs import HOOKS
from clframe.run import run
from clframe.testing.cost import Cost, measure
from clframe.testing.result import Broken, Check, NotChecked, require
from clframe.testing.toy import (
    interrupted_run,
    killed_run,
    prepare_toy,
    toy_run,
    toy_stream,
)
from clframe.utils import random_state

GROWTH = 1.6
"""Maximum ratio of the times of a step after many experiences and near the beginning."""
GENERATORS = {
    "learner": "learner.generator",
    "torch": "torch's generator",
    "python": "Python's random",
    "numpy": "NumPy's random",
}


class PluginContract:
    """The contract of a plugin, as checks that share their runs.

    Args:
        plugin: The plugin, freshly made; it is copied, not changed.
        stream: Stream to check it on; None for a toy stream in the first scenario it supports.
        required: Plugins that it needs.
        others: Plugins to compose it with.
    """

    def __init__(
        self,
        plugin: Plugin,
        stream: Stream | None = None,
        required: Sequence[Plugin] = (),
        others: Mapping[str, Plugin] | None = None,
    ) -> None:
        self.plugin = plugin
        self.scenario = cast(Scenario, plugin.scenarios[0])
        self.stream = stream or toy_stream(self.scenario)
        self.required = list(required)
        self.others = dict(others or {})
        self._first: tuple[Result, Learner] | None = None
        self._drawn: dict[str, Any] = {}
        self._cost: Cost | None = None

    def checks(self) -> dict[str, Check]:
        """Return all items by name, the quick ones first."""
        return {
            "hooks": self.hooks,
            "learns": self.learns,
            "random state": self.random_state,
            "determinism": self.determinism,
            "state": self.state,
            "kill and resume": self.kill_and_resume,
            "scenarios": self.scenarios,
            "composition": self.composition,
            "cost per step": self.cost,
            "growth": self.growth,
        }

    # ------------------------------------------------------------ the class

    def hooks(self) -> str:
        """Check that it has hooks, and no misspelled ones."""
        kind = type(self.plugin)
        has = [name for name in HOOKS if hasattr(getattr(kind, name, None), "clframe_impl")]
        for name, _ in inspect.getmembers(kind, inspect.isfunction):
            if name in HOOKS or name.startswith("_") or hasattr(Plugin, name):
                continue
            close = difflib.get_close_matches(name, HOOKS, n=1, cutoff=0.85)
            require(
                not close,
                f"method '{name}' is not a hook and is never called: did you mean "
                f"'{''.join(close)}'? Rename it and mark it @hookimpl, or give it another name",
            )
        require(
            bool(has),
            f"plugin '{self.plugin.name}' has no hook, so it does nothing: add a method named "
            "after a hook (docs/hooks.md) and mark it @hookimpl",
        )
        return ", ".join(has)

    # ------------------------------------------------------------ one run

    def _plugins(self) -> list[Plugin]:
        return [*copy.deepcopy(self.required), copy.deepcopy(self.plugin)]

    def whole_run(self) -> tuple[Result, Learner]:
        """Return the first whole run, made once."""
        if self._first is None:
            prepared = prepare_toy(self._plugins(), self.stream)
            unused: dict[str, str] = {}

            def note(outcome: Any, hook: str, implementations: Any, arguments: Any) -> None:
                if hook not in ANSWERS and outcome.exception is None and outcome.get_result():
                    unused.setdefault(hook, describe(outcome.get_result()[0]))

            def nothing(*arguments: Any) -> None:
                pass

            prepared.learner.plugins.manager.add_hookcall_monitoring(nothing, note)
            result = run(prepared.learner, prepared.stream, "toy")
            self._drawn = self._generators(prepared.learner)
            for hook, answer in unused.items():
                raise Broken(
                    f"plugin '{self.plugin.name}' returned {answer} from {hook}, whose return "
                    "value is not used: change the hook's arguments, and return nothing"
                )
            self._first = result, prepared.learner
        return self._first

    @staticmethod
    def _generators(learner: Learner) -> dict[str, Any]:
        saved = random_state.capture(learner.generator, learner.engine.device)
        return {name: copy.deepcopy(saved[name]) for name in GENERATORS}

    def learns(self) -> str:
        """Check that a small run ends with finite weights."""
        result, learner = self.whole_run()
        for key, value in learner.state_dict().items():
            require(
                bool(torch.isfinite(value.float()).all()),
                f"plugin '{self.plugin.name}' leaves '{key}' not finite",
            )
        accuracy = result.metrics["gem"]["acc"]
        return f"{self.scenario}-incremental, {accuracy:.2f} of {result.matrix.measure} at the end"

    def determinism(self) -> str:
        """Check that the same seed gives the same matrix."""
        again, _ = toy_run(self._plugins(), self.stream)
        same = (self.whole_run()[0].matrix.values == again.matrix.values).all()
        require(
            bool(same),
            f"plugin '{self.plugin.name}' gives another matrix the second time: draw random "
            "numbers from learner.generator or torch's own generator",
        )
        return "the same matrix twice"

    def random_state(self) -> str:
        """Check the source of its random numbers; an evaluator must not draw any."""
        first, _ = self.whole_run()
        plain, learner = toy_run(copy.deepcopy(self.required), self.stream)
        state = self._generators(learner)
        drawn = [
            source
            for name, source in GENERATORS.items()
            if not _equal(state[name], self._drawn[name])
        ]
        listed = " and ".join(drawn)
        name = self.plugin.name
        if self.plugin.capabilities.evaluator:
            require(
                not drawn and bool((plain.matrix.values == first.matrix.values).all()),
                f"plugin '{name}' has the capability 'evaluator' but changes what is learned"
                + (f" (it draws from {listed})" if drawn else "")
                + ": measure within clframe.evaluation.evaluation_mode.evaluation_mode(learner)",
            )
        if self.plugin.capabilities.batched_seeds:
            require(
                set(drawn) <= {GENERATORS["learner"]},
                f"plugin '{name}' has the capability 'batched_seeds' but draws from {listed}: draw "
                "from learner.generator only",
            )
        return f"draws from {listed}" if drawn else "draws no random numbers"

    # ------------------------------------------------------------ saved state

    def state(self) -> str:
        """Check that it continues from its saved state between experiences."""
        ordered = self.whole_run()[1].plugins.ordered
        (used,) = (plugin for plugin in ordered if plugin.name == self.plugin.name)
        missing = [name for name in self.plugin.state if not hasattr(used, name)]
        require(
            not missing,
            f"plugin '{self.plugin.name}' names {_quoted(missing)} in `state` but has no such "
            "attribute: set it in __init__ or in configure",
        )
        resumed = interrupted_run(self._plugins(), self.stream)
        require(
            bool((self.whole_run()[0].matrix.values == resumed.matrix.values).all()),
            f"plugin '{self.plugin.name}' does not continue from its saved state: name every "
            "attribute that changes during a run in `state`",
        )
        return f"keeps {_quoted(self.plugin.state)}" if self.plugin.state else "keeps nothing"

    def kill_and_resume(self) -> str:
        """Check that it continues from any step as if nothing had happened."""
        _, killed = killed_run(self._plugins(), self.stream)
        saved = killed.state_dict()
        whole = self.whole_run()[1].state_dict()
        require(
            all(torch.equal(value, saved[key]) for key, value in whole.items()),
            f"plugin '{self.plugin.name}' does not continue within an experience: name every "
            "attribute that changes from step to step in `state`; what it makes in "
            "before_experience is made again",
        )
        return "killed every seventh step, the same weights"

    # ------------------------------------------------------------ composition

    def scenarios(self) -> str:
        """Check that it runs in the other scenarios that it declares."""
        for scenario in self.plugin.scenarios[1:]:
            chosen: Any = scenario
            try:
                toy_run(self._plugins(), toy_stream(chosen), max_epochs=1)
            except ClframeError as error:
                raise Broken(
                    f"plugin '{self.plugin.name}' declares the {scenario} scenario, "
                    f"but: {error}; leave it out of `scenarios`, or make it work"
                ) from error
        return ", ".join(self.plugin.scenarios)

    def composition(self) -> str:
        """Check that it runs with others, before and after them, unless they conflict."""
        composed, refused = [], []
        for name, other in self.others.items():
            if other.name == self.plugin.name or name in self.plugin.needs:
                continue
            for turned in (False, True):
                plugins = [*self._plugins(), copy.deepcopy(other)]
                plugins = plugins[::-1] if turned else plugins
                try:
                    check_composition(plugins, self.stream)
                except ClframeError:
                    refused.append(name)
                    break
                _, learner = toy_run(plugins, self.stream, max_epochs=1)
                require(
                    all(bool(torch.isfinite(p).all()) for p in learner.parameters()),
                    f"plugin '{self.plugin.name}' combined with '{name}' leaves weights that are "
                    f"not finite: put a role of '{name}' into `excludes`, or make both work",
                )
            else:
                composed.append(name)
        if not composed:
            raise NotChecked(f"refused with {', '.join(refused) or 'all'}")
        text = f"with {', '.join(composed)}"
        return f"{text}; refused with {', '.join(refused)}" if refused else text

    # ------------------------------------------------------------ cost

    def cost(self) -> str:
        """Return the ratio of a step's time to that without the plugin."""
        self._check_steps()
        return f"{self._measured().ratio:.2f} times a step without it"

    def growth(self) -> str:
        """Check that a step takes as long after many experiences as after few."""
        self._check_steps()
        ratio = self._measured().growth
        if ratio > GROWTH:  # Measure again for longer: another process may have been busy.
            ratio = min(ratio, self._measured(repeats=5).growth)
        require(
            ratio <= GROWTH,
            f"a step with plugin '{self.plugin.name}' takes {ratio:.1f} times as long after 11 "
            "experiences as after 2: keep sums instead of lists over past experiences",
        )
        return f"{ratio:.2f} times as long after 11 experiences as after 2"

    def _measured(self, repeats: int = 0) -> Cost:
        if self._cost is None or repeats:
            self._cost = measure(self._plugins, self.required, self.scenario, repeats or 3)
        return self._cost

    def _check_steps(self) -> None:
        if not self.plugin.capabilities.training_steps:
            raise NotChecked("the method learns without steps")


def check_plugin(plugin: Plugin, stream: Stream | None = None) -> None:
    """Check that a plugin follows the contract.

    It must run on the toy stream in a scenario it supports, give the same result twice, and
    continue from saved state as if it had not been interrupted. ``clframe check`` checks more.

    >>> from clframe import Learner, hookimpl
    >>> class Idle(Plugin):
    ...     "Does nothing, and says so."
    ...
    ...     @hookimpl
    ...     def penalty(self, learner: Learner) -> float:
    ...         return 0.0
    >>> check_plugin(Idle())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    clframe.errors.PluginError: plugin 'idle' returned the float 0.0 from penalty; return ...

    Args:
        plugin: The plugin, freshly made; it is copied, not changed.
        stream: Another stream to check it on.

    Raises:
        AssertionError: Names the problem.
    """
    contract = PluginContract(plugin, stream)
    for check in (
        contract.hooks,
        contract.learns,
        contract.determinism,
        contract.state,
        contract.kill_and_resume,
    ):
        check()


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, list | tuple):
        return all(_equal(a, b) for a, b in zip(first, second, strict=True))
    return bool(first == second)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
