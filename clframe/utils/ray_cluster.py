"""A Ray cluster: the package, where the cluster is, and what to say if there is none."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

from clframe.errors import SettingError


def import_ray(setting: str) -> Any:
    """The package.

    Args:
        setting: What asks for it, for the message.

    Raises:
        SettingError: It is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise SettingError(
            f"{setting} needs the package ray, which is not installed: pip install 'clframe[ray]'"
        ) from error
    return ray


class Cluster:
    """The connection of this process to a cluster.

    Args:
        setting: What asks for it, for messages.
        address: Of the cluster; None takes ``RAY_ADDRESS`` or the one that runs on this machine.
        start: Start one on this machine if none is named or found.

    Raises:
        SettingError: There is no such cluster, or no package.
    """

    def __init__(self, setting: str, address: str | None = None, start: bool = False) -> None:
        self.ray = import_ray(setting)
        self._ours = not self.ray.is_initialized()
        self.started = False
        """Whether the cluster is one that was started for this process alone."""
        if not self._ours:
            return
        address = address or os.environ.get("RAY_ADDRESS") or "auto"
        try:
            self._connect(address)
        except (ConnectionError, ValueError, RuntimeError, TypeError) as error:
            if start and address == "auto":
                self._start()
                return
            reason = " ".join(str(error).split())
            if address == "auto":
                reason = "none runs on this machine and RAY_ADDRESS is not set"
            raise SettingError(
                f"{setting}: no Ray cluster was found ({reason}); start one with `ray start "
                "--head`, and on each further machine `ray start --address=HOST:6379`, or give the "
                "address of one in RAY_ADDRESS"
            ) from error

    def _start(self) -> None:
        # Ray lets its workers have what other processes leave (nice 15), and whoever has a busy
        # machine waits for them for ever. These are the runs that were asked for.
        os.environ.setdefault("RAY_worker_niceness", "0")
        self._connect("local", include_dashboard=False)
        self.started = True

    def _connect(self, address: str, **options: Any) -> None:
        with _signals_kept():
            self.ray.init(address=address, log_to_driver=False, logging_level="error", **options)

    def close(self) -> None:
        """Leave the cluster, unless this process was in it before."""
        if self._ours:
            self.ray.shutdown()


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself where it starts a cluster; here it means to save and leave."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not the main thread, and so nothing was changed
            signal.signal(signal.SIGTERM, before)
