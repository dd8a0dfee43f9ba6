"""``CLFRAME_TRACE=1``: print every hook call of an experience and of its first step.

One line per call, with who answered, what, and how long it took. ``CLFRAME_TRACE=all`` prints the
hooks of every step.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from typing import Any

import pluggy

PER_STEP = frozenset(
    {"extra_batches", "penalty", "after_backward", "after_step", "predict", "working"}
)
"""Hooks that are called many times per experience."""


def mode() -> str:
    """What the environment asks for: empty for no trace."""
    value = os.environ.get("CLFRAME_TRACE", "")
    return "" if value == "0" else value


def describe(value: Any) -> str:
    """An answer in a few words."""
    if value is None:
        return "-"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{type(value).__name__}{list(shape)}"
    if isinstance(value, bool | int | float | str):
        return repr(value)
    if hasattr(value, "__len__"):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


class Trace:
    """Times every implementation of every hook of a manager and prints each call.

    Args:
        manager: With all plugins registered.
        every_step: Print the hooks of all steps, not only of an experience's first.
    """

    def __init__(self, manager: pluggy.PluginManager, every_step: bool = False) -> None:
        self.every_step = every_step
        self._printed: set[str] = set()
        # Of the calls that are under way, since a hook may call others: start and answers.
        self._calls: list[tuple[float, list[str]]] = []
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
            self._calls[-1][1].append(f"{name} {took:.2f} ms {describe(answer)}")
            return answer

        implementation.function = timed

    def _before(self, hook: str, implementations: Any, arguments: Any) -> None:
        if hook == "before_experience":
            self._printed.clear()
        self._calls.append((time.perf_counter(), []))

    def _after(self, outcome: Any, hook: str, implementations: Any, arguments: Any) -> None:
        started, answers = self._calls.pop()
        took = (time.perf_counter() - started) * 1000
        if not implementations or (
            hook in PER_STEP and hook in self._printed and not self.every_step
        ):
            return
        self._printed.add(hook)
        name = "  " * len(self._calls) + hook
        line = "; ".join(answers) or "nobody answered"
        sys.stderr.write(f"trace {name:<20} {took:8.2f} ms  {line}\n")
