"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Write under a temporary name in the same folder, flush to disk, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, content: str) -> None:
    """The same for text."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """The same for JSON; NaN is refused, since it is not JSON."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
