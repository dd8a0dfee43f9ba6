"""The W&B server's address, and whether it can be reached without a prompt or a hang."""

from __future__ import annotations

import os
import socket
import urllib.parse
from pathlib import Path

from clframe.utils.console import warn_user

_SECONDS = 2.0


def choose_mode() -> str:
    """Return online or offline, and warn if it has to be offline."""
    address = server()
    if not has_key(address):
        warn_user(
            "W&B: no API key is configured, so this run is logged offline (wandb sync sends it)"
        )
        return "offline"
    if not answers(address):
        warn_user(
            f"W&B: {address} does not answer, so this run is logged offline (wandb sync sends it)"
        )
        return "offline"
    return "online"


def server() -> str:
    """Return the address of the W&B server."""
    return os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"


def has_key(server: str) -> bool:
    """Return whether W&B would find a key without asking for one."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    import netrc

    try:
        stored = netrc.netrc(os.environ.get("NETRC") or str(Path.home() / ".netrc"))
    except (OSError, netrc.NetrcParseError):
        return False
    return stored.authenticators(urllib.parse.urlparse(server).hostname or "") is not None


def answers(server: str) -> bool:
    """Return whether a connection to the server can be opened in time."""
    address = urllib.parse.urlparse(server)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=_SECONDS):
            return True
    except OSError:
        return False
