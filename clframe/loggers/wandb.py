"""Weights & Biases: online where it can be, offline where it cannot, never a prompt or a hang.

``WANDB_MODE`` decides where it is set, as W&B's own conventions say. Otherwise the run is online if
a key is configured and the server answers within two seconds, and offline if not.
"""

from __future__ import annotations

import os
import socket
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.console import notice
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from lightning.pytorch.loggers import WandbLogger

    from clframe.registry import Registry

_SECONDS = 2.0


def wandb(
    run_dir: Path,
    run_config: dict[str, Any],
    project: str = "clframe",
    name: str | None = None,
    entity: str | None = None,
    group: str | None = None,
) -> WandbLogger:
    """Weights & Biases: config, losses, the matrix as table and image, metrics.

    Args:
        run_dir: The run folder; W&B's own files go below it.
        run_config: The resolved config of the run.
        project: W&B project.
        name: Of the run; its folder if left out.
        entity: W&B user or team.
        group: W&B group.
    """
    from lightning.pytorch.loggers import WandbLogger

    mode = os.environ.get("WANDB_MODE") or choose_mode()
    return WandbLogger(
        name=name or f"{run_dir.parent.parent.name}-{run_dir.parent.name}-{run_dir.name}",
        save_dir=str(run_dir),
        project=project,
        entity=entity,
        group=group,
        config=run_config,
        mode=mode,
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
