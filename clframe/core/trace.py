"""What happens in the hooks: which was called, who answered what, and how long it took.

``CLFRAME_TRACE=1`` prints every hook call of an experience and of its first step, one line each;
``CLFRAME_TRACE=all`` those of every step. ``clframe trace`` makes a table of them.
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
    """What the environment asks for: empty for no trace."""
    value = os.environ.get("CLFRAME_TRACE", "")
    return "" if value == "0" else value


class Answer(NamedTuple):
    """What one plugin answered.

    Args:
        plugin: Its name.
        milliseconds: How long it took.
        words: The answer in a few words; ``-`` for none.
    """

    plugin: str
    milliseconds: float
    words: str


class Call(NamedTuple):
    """One call of a hook.

    Args:
        hook: Its name.
        within: The hooks during which it was called, from outside in.
        milliseconds: How long all of it took.
        answers: Of each plugin, in the order in which they were asked.
        asked: How many plugins have the hook.
    """

    hook: str
    within: tuple[str, ...]
    milliseconds: float
    answers: list[Answer]
    asked: int


class Trace:
    """Times every implementation of every hook of a manager and tells each call.

    Args:
        manager: With all plugins registered.
        tell: Is given each call when it has ended, also those to hooks that nobody has.
    """

    def __init__(self, manager: pluggy.PluginManager, tell: Callable[[Call], None]) -> None:
        self.tell = tell
        # Of the calls that are under way, since a hook may call others: hook, start and answers.
        self._calls: list[tuple[str, float, list[Answer]]] = []
        for caller in vars(manager.hook).values():
            if isinstance(caller, pluggy.HookCaller):
                for implementation in caller.get_hookimpls():
                    self._time(implementation)
        manager.add_hookcall_monitoring(self._before, self._after)

    def _time(self, implementation: Any) -> None:
        function = implementation.function
        if inspect.isgeneratorfunction(function):
            return  # a wrapper goes around the others; its time is theirs

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
    """Prints calls as they come.

    Args:
        every_step: Print the hooks of all steps, not only of an experience's first.
    """

    def __init__(self, every_step: bool = False) -> None:
        self.every_step = every_step
        self._printed: set[str] = set()

    def __call__(self, call: Call) -> None:
        """Print a call, unless it is one of a step like those before it."""
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
