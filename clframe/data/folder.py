"""The data folder of the user."""

from __future__ import annotations

import os
from pathlib import Path


def default_data_dir() -> Path:
    """``$CLFRAME_DATA`` or ``~/.cache/clframe``."""
    chosen = os.environ.get("CLFRAME_DATA")
    return Path(chosen) if chosen else Path.home() / ".cache" / "clframe"


def data_folder(data_dir: str | Path | None) -> Path:
    """The data folder that was named, or the default one."""
    return (default_data_dir() if data_dir is None else Path(data_dir)).expanduser()
