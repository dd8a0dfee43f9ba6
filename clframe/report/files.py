"""Write a report atomically, with a clear error if it cannot be written."""

from __future__ import annotations

from pathlib import Path

from clframe.errors import RunFolderError
from clframe.utils.files import write_bytes


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write `content` under a temporary name next to `path`, then move it into place.

    Args:
        path: The file to write; missing parent folders are made.
        content: Text (stored as UTF-8) or bytes.

    Raises:
        RunFolderError: The file cannot be written there.
    """
    # A folder name on disk may hold bytes that are not text; the page shows them as "?".
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFolderError(
            f"{path} cannot be written ({reason}); name a writable file with --out."
        ) from error
