"""Trace of hook calls: which hook was called, who answered what, and how long it took.

``CLFRAME_TRACE=1`` prints every hook call of an experience and of its first step, one per line.
``CLFRAME_TRACE=all`` prints those of every step. ``clframe trace`` makes a table of them.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pluggy

from clframe.core.hook_results import describe

PER_STEP = frozenset(
    {"extra_batches", "penalty", "after_backward", "after_step", "predict", "on_progress"}
)
"""Hooks that are called many times per experience."""


def mode() -> str:
    """Return the value of ``CLFRAME_TRACE``; empty for no trace."""
    value = os.environ.get("CLFRAME_TRACE", "")
    return "" if value == "0" else value


class Answer(NamedTuple):
    """One plugin's answer.

    Args:
        plugin: The plugin's name.
        milliseconds: How long the call took.
        words: The answer in a few words; ``-`` for None.
    """

    plugin: str
    milliseconds: float
    words: str


class Call(NamedTuple):
    """One call of a hook.

    Args:
        hook: The hook's name.
        within: The enclosing hook calls, outermost first.
        milliseconds: How long the whole call took.
        answers: The plugins' answers, in the order of the calls.
        asked: How many plugins implement the hook.
    """

    hook: str
    within: tuple[str, ...]
    milliseconds: float
    answers: list[Answer]
    asked: int


class Trace:
    """Timer of every hook implementation of a manager; reports each call.

    Args:
        manager: The manager with all plugins registered.
        tell: Called with each call when it has ended, also for hooks without implementations.
    """

    def __init__(self, manager: pluggy.PluginManager, tell: Callable[[Call], None]) -> None:
        self.tell = tell
        # Hook, start and answers of the calls in progress; hooks may be nested.
        self._calls: list[tuple[str, float, list[Answer]]] = []
        for caller in vars(manager.hook).values():
            if isinstance(caller, pluggy.HookCaller):
                for implementation in caller.get_hookimpls():
                    self._time(implementation)
        manager.add_hookcall_monitoring(self._before, self._after)

    def _time(self, implementation: Any) -> None:
        function = implementation.function
        if inspect.isgeneratorfunction(function):
            return  # A wrapper encloses the other calls, so its time includes theirs.

        @functools.wraps(function)
        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            answer = function(*arguments)
            took = (time.perf_counter() - started) * 1000
            name = getattr(implementation.plugin, "name", "?")
            self._calls[-1][2].append(Answer(name, took, describe(answer)))
            return answer

        implementation.function = timed

    def _before(self, hook: str, implementations: Any, arguments: Any) -> None:
        self._calls.append((hook, time.perf_counter(), []))

    def _after(self, outcome: Any, hook: str, implementations: Any, arguments: Any) -> None:
        _, started, answers = self._calls.pop()
        took = (time.perf_counter() - started) * 1000
        within = tuple(outer for outer, _, _ in self._calls)
        self.tell(Call(hook, within, took, answers, len(implementations)))


class Printer:
    """Printer of calls as they end.

    Args:
        every_step: Print the hooks of all steps, not only of the first step of an experience.
    """

    def __init__(self, every_step: bool = False) -> None:
        self.every_step = every_step
        self._printed: set[str] = set()

    def __call__(self, call: Call) -> None:
        """Print a call, except for repeated calls of per-step hooks."""
        if call.hook == "before_experience":
            self._printed.clear()
        again = call.hook in PER_STEP and call.hook in self._printed and not self.every_step
        if again or not call.asked:
            return
        self._printed.add(call.hook)
        name = "  " * len(call.within) + call.hook
        answers = [f"{one.plugin} {one.milliseconds:.2f} ms {one.words}" for one in call.answers]
        line = "; ".join(answers) or "nobody answered"
        sys.stderr.write(f"trace {name:<20} {call.milliseconds:8.2f} ms  {line}\n")
