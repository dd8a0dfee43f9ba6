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
    """Whether a run has been asked to save and stop, and by which signal."""

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
                f"checkpoint.signals: {name!r} is no signal that can be caught; "
                f"{nearest(str(name), catchable)}"
            )


@contextlib.contextmanager
def listening(request: StopRequest, names: Sequence[str]) -> Iterator[None]:
    """During a run, let these signals (and always SIGINT, SIGTERM and SIGHUP) stop it politely.

    The first one is noted, and the run saves and stops after the current step. A second Ctrl-C
    stops at once. A SIGHUP that is ignored, as with nohup, stays so. Only the main thread can catch
    signals; elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    process = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # forked to read data: what the whole group gets is the run's
            return
        name = signal.Signals(number).name
        if request and number in (signal.SIGINT, signal.SIGTERM):
            raise KeyboardInterrupt
        if not request:
            request.signal = name
            # Not through sys.stderr: the signal may have come in the middle of writing to it.
            words = f"clframe: {name}: saving after this step; Ctrl-C again stops at once\n"
            with contextlib.suppress(OSError):
                os.write(2, words.encode())
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
            # None: a handler that was not installed from Python and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
