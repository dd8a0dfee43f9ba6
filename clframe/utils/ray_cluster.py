"""Connect to a Ray cluster, with clear errors if there is none."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

from clframe.errors import SettingError


def import_ray(setting: str) -> Any:
    """Import the package ray.

    Args:
        setting: The setting that needs it, for the message.

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
        setting: The setting that needs it, for messages.
        address: Address of the cluster; None for ``RAY_ADDRESS`` or a cluster on this machine.
        start: Start a cluster on this machine if there is none.

    Raises:
        SettingError: There is no such cluster, or ray is not installed.
    """

    def __init__(self, setting: str, address: str | None = None, start: bool = False) -> None:
        self.ray = import_ray(setting)
        self._ours = not self.ray.is_initialized()
        self.started = False
        """Whether the cluster was started only for this process."""
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
        # By default Ray runs its workers at a low priority (nice 15), which never get a turn on a
        # busy machine. Our runs must not wait like that.
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
    """Keep our handler of SIGTERM (save and leave), which Ray replaces when it starts a cluster."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # Not the main thread, so nothing was changed.
            signal.signal(signal.SIGTERM, before)
