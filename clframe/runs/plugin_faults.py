"""Name the plugin and the hook when a plugin fails, leaves or hangs during a run.

An exception keeps its traceback and gets one more line. ``sys.exit`` in a hook becomes an error:
the run has no result, so it must not look like a success. A thread inspects the stack of the run
every few seconds and reports a hook of a third-party plugin that does not return; the hooks
themselves stay as they are.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, NamedTuple

from clframe.core.plugin import Plugin
from clframe.errors import ClframeError, PluginError
from clframe.hookspecs import HOOKS
from clframe.runs.status import note_hanging
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.plugin import Plugins
    from clframe.runs.folder import RunFolder

_EVERY = 5.0
"""Seconds between two looks at the stack."""
_LONG = 60.0
"""Seconds after which a hook that has not returned is reported."""
_OURS = ("clframe", "clframe_contrib")
_Codes = dict[CodeType, list[tuple[Plugin, str]]]


class HookCall(NamedTuple):
    """A hook of a plugin that is being called.

    Args:
        plugin: The plugin.
        hook: The hook's name.
        frame: The call itself.
    """

    plugin: Plugin
    hook: str
    frame: FrameType


@contextlib.contextmanager
def name_plugin(learner: Learner, folder: RunFolder | None) -> Iterator[None]:
    """Add a line to an error in a hook: which plugin, which hook, and how to continue."""
    try:
        yield
    except SystemExit as error:
        call = _innermost(_codes(learner.plugins), _frames_of(error.__traceback__))
        where = "the code of this run" if call is None else f"plugin '{call.plugin.name}'"
        hook = "" if call is None else f" in hook '{call.hook}'"
        raise PluginError(
            f"{where} called sys.exit{hook}, so the run has no result; raise an error "
            f"instead{_to_continue(folder)}"
        ) from error
    except Exception as error:
        call = None
        if not isinstance(error, ClframeError) and not hasattr(error, "__notes__"):
            call = _innermost(_codes(learner.plugins), _frames_of(error.__traceback__))
        if call is not None:
            error.add_note(
                f"clframe: plugin '{call.plugin.name}' failed in hook '{call.hook}'"
                f"{_to_continue(folder)}"
            )
        raise


def _to_continue(folder: RunFolder | None) -> str:
    if folder is None:
        return ""
    if not folder.begun and not folder.resumed:
        return "; nothing was written"
    return f"; fix it, then continue with resume={folder.path}"


@contextlib.contextmanager
def report_hanging_hooks(learner: Learner, status: Path | None) -> Iterator[None]:
    """Warn about a hook that has not returned for a minute, and tell ``clframe watch``.

    Args:
        learner: Learner whose plugins are watched.
        status: The run's ``status.json``; None if the run is not written.
    """
    ended = threading.Event()
    thread, codes = threading.get_ident(), _codes(learner.plugins)

    def look() -> None:
        # The call is kept until the next look. Otherwise a later call could get its place in memory
        # and be mistaken for it.
        seen: HookCall | None = None
        since, steps, reported = time.monotonic(), -1, False
        while not ended.wait(_EVERY):
            frame = sys._current_frames().get(thread)
            call = _innermost(codes, _stack_of(frame))
            if call is not None and not _is_foreign(call.plugin):
                call = None
            now = learner.state.global_steps
            same = seen is not None and call is not None and seen.frame is call.frame
            if not same or now != steps:
                seen, steps, since, reported = call, now, time.monotonic(), False
            elif call is not None and not reported and time.monotonic() - since >= _LONG:
                reported = True
                warn_user(
                    f"plugin '{call.plugin.name}' has been in hook '{call.hook}' for "
                    f"{_LONG:.0f} s without finishing a step"
                )
                if status is not None:
                    note_hanging(status, call.plugin.name, call.hook)
            del frame, call

    watcher = threading.Thread(target=look, name="clframe-hooks", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _is_foreign(plugin: Plugin) -> bool:
    """Return whether a plugin does not come with clframe; ours may work for long."""
    return type(plugin).__module__.partition(".")[0] not in _OURS


def _innermost(codes: _Codes, frames: Iterable[FrameType]) -> HookCall | None:
    """Find the innermost call of a plugin's hook."""
    innermost: HookCall | None = None
    for frame in frames:
        calls = codes.get(frame.f_code, [])
        if len(calls) > 1:  # Inherited by several plugins. Inspecting locals keeps them in memory.
            calls = [call for call in calls if frame.f_locals.get("self") is call[0]] or calls
        if calls:
            innermost = HookCall(*calls[0], frame)
    return innermost


def _codes(plugins: Plugins) -> _Codes:
    """List the plugins and hooks that each function implements."""
    codes: _Codes = {}
    for hook in HOOKS:
        for implementation in getattr(plugins.hook, hook).get_hookimpls():
            function = inspect.unwrap(implementation.function)
            code = getattr(getattr(function, "__func__", function), "__code__", None)
            if code is not None:
                codes.setdefault(code, []).append((implementation.plugin, hook))
    return codes


def _frames_of(traceback: TracebackType | None) -> Iterator[FrameType]:
    """Yield the frames that an exception passed, the outermost first."""
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _stack_of(frame: FrameType | None) -> list[FrameType]:
    """List the frames of a running thread, the outermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]
