"""The user's data folder."""

from __future__ import annotations

import os
from pathlib import Path


def default_data_dir() -> Path:
    """Return ``$CLFRAME_DATA`` or ``~/.cache/clframe``."""
    chosen = os.environ.get("CLFRAME_DATA")
    return Path(chosen) if chosen else Path.home() / ".cache" / "clframe"


def data_folder(data_dir: str | Path | None) -> Path:
    """Return the given data folder, or the default one."""
    return (default_data_dir() if data_dir is None else Path(data_dir)).expanduser()
