"""Signals that ask a run to save and stop: Ctrl-C, SIGTERM, SIGHUP and a scheduler's own."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from clframe.errors import SettingError, nearest
from clframe.utils.console import drop_if_lost
from clframe.utils.processes import hangup

ALWAYS = ("SIGINT", "SIGTERM")


class StopRequest:
    """Record of whether a run has been asked to save and stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: str | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


def check(names: Sequence[str]) -> None:
    """Refuse names that are not signals, or that cannot be caught."""
    catchable = [s.name for s in signal.Signals if s.name not in ("SIGKILL", "SIGSTOP")]
    for name in names:
        if name not in catchable:
            raise SettingError(
                f"checkpoint.signals: {name!r} is not a signal that can be caught; "
                f"{nearest(str(name), catchable)}"
            )


@contextlib.contextmanager
def listening(request: StopRequest, names: Sequence[str]) -> Iterator[None]:
    """Let these signals (and always SIGINT, SIGTERM and SIGHUP) stop a run cleanly.

    At the first signal, the run saves and stops after the current step. A second Ctrl-C stops at
    once. A SIGHUP that is ignored, as with nohup, stays ignored. Only the main thread can catch
    signals; other threads change nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    process = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # A data worker; the run itself handles the signal.
            return
        name = signal.Signals(number).name
        if request and number in (signal.SIGINT, signal.SIGTERM):
            raise KeyboardInterrupt
        if not request:
            request.signal = name
            # Not sys.stderr: the signal may have interrupted a write to it.
            text = f"clframe: {name}: saving after this step; Ctrl-C again stops at once\n"
            with contextlib.suppress(OSError):
                os.write(2, text.encode())
        if number == signal.SIGHUP:
            drop_if_lost()

    before = {}
    always = [*(signal.Signals[name] for name in ALWAYS), *hangup()]
    for number in dict.fromkeys((*always, *(signal.Signals[name] for name in names))):
        before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: the handler was not installed from Python and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
