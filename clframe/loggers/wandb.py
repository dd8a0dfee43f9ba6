"""Weights & Biases: online where it can be, offline where it cannot, never a prompt or a hang.

``WANDB_MODE`` decides where it is set, as W&B's own conventions say. Otherwise the run is online if
a key is configured and the server answers within two seconds, and offline if not.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import WandbLogger

from clframe.hookspecs import hookimpl
from clframe.utils.console import notice
from clframe.utils.files import write_json

if TYPE_CHECKING:
    from clframe.core.registry import Registry

_SECONDS = 2.0
_TIMEOUTS = ("init_timeout", "finish_timeout", "login_timeout")


class BiasesRun(WandbLogger):
    """Lightning's W&B logger, with a memory of which run it is and what it has sent.

    A run that is resumed is the same W&B run. What it logs again on the way to where it was killed
    has been sent already and is passed over: it would be the same numbers.

    Args:
        run_dir: The run folder; W&B's own files go below it.
        **settings: Of Lightning's logger.
    """

    remote = True
    """A server is involved, whose failures must not end the run."""

    def __init__(self, run_dir: Path, **settings: Any) -> None:
        self._memory = run_dir / "wandb" / "clframe.json"
        known = _recall(self._memory)
        self._sent = int(known.get("sent", 0))
        self._calls = 0
        super().__init__(save_dir=str(run_dir), id=known.get("id") or _new_id(), **settings)

    @property
    def experiment(self) -> Any:
        """The W&B run; offline if the server takes the connection and then does not answer."""
        if self._experiment is None:
            self._remember()
            try:
                return WandbLogger.experiment.fget(self)  # type: ignore[attr-defined]
            except Exception as error:
                if self._wandb_init.get("mode") == "offline":
                    raise
                line = (str(error).strip().splitlines() or [type(error).__name__])[0]
                notice(f"W&B: {line}; this run is logged offline (wandb sync sends it)")
                self._wandb_init["mode"] = "offline"
        return WandbLogger.experiment.fget(self)  # type: ignore[attr-defined]

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Send numbers, unless they were sent before the run was resumed."""
        self._calls += 1
        if self._calls > self._sent:
            super().log_metrics(metrics, step)
            self._sent = self._calls
            self._remember()

    def finalize(self, status: str) -> None:
        """End the W&B run, marked as failed where the run did not come to its end."""
        super().finalize(status)
        if self._experiment is not None:
            self._experiment.finish(exit_code=0 if status == "success" else 1)

    def _remember(self) -> None:
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._memory, {"id": self._id, "sent": self._sent})

    def state_dict(self) -> dict[str, Any]:
        """How often something has been logged."""
        return {"calls": self._calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after so many."""
        self._calls = state["calls"]


def _recall(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def _new_id() -> str:
    return secrets.token_hex(4)


def wandb(
    run_dir: Path,
    run_config: dict[str, Any],
    project: str = "clframe",
    name: str | None = None,
    entity: str | None = None,
    group: str | None = None,
    timeout: float = 30.0,
) -> BiasesRun:
    """Weights & Biases: config, losses, the matrix as table and image, metrics.

    Args:
        run_dir: The run folder; W&B's own files go below it.
        run_config: The resolved config of the run.
        project: W&B project.
        name: Of the run; its folder if left out.
        entity: W&B user or team.
        group: W&B group.
        timeout: Seconds to wait for the server at the start and at the end of the run.
    """
    import wandb as package

    # Versions of W&B differ in which of these they know.
    known = package.Settings.model_fields
    patience: dict[str, Any] = {name: timeout for name in _TIMEOUTS if name in known}
    mode = os.environ.get("WANDB_MODE") or choose_mode()
    return BiasesRun(
        run_dir,
        name=name or f"{run_dir.parent.parent.name}-{run_dir.parent.name}-{run_dir.name}",
        project=project,
        entity=entity,
        group=group,
        config=run_config,
        mode=mode,
        settings=package.Settings(**patience),
    )


def choose_mode() -> str:
    """Online or offline, with one sentence when it has to be offline."""
    address = server()
    if not has_key(address):
        notice("W&B: no API key is configured, so this run is logged offline (wandb sync sends it)")
        return "offline"
    if not answers(address):
        notice(
            f"W&B: {address} does not answer, so this run is logged offline (wandb sync sends it)"
        )
        return "offline"
    return "online"


def server() -> str:
    """The address of the W&B server."""
    return os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"


def has_key(server: str) -> bool:
    """Whether W&B would find a key without asking for one."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    import netrc

    try:
        stored = netrc.netrc(os.environ.get("NETRC") or str(Path.home() / ".netrc"))
    except (OSError, netrc.NetrcParseError):
        return False
    return stored.authenticators(urllib.parse.urlparse(server).hostname or "") is not None


def answers(server: str) -> bool:
    """Whether a connection to the server can be opened in time."""
    address = urllib.parse.urlparse(server)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=_SECONDS):
            return True
    except OSError:
        return False


@hookimpl
def register(registry: Registry) -> None:
    """Add the logger."""
    registry.add("logger", "wandb", wandb)
