"""Keep the paths that a file names inside of its folder."""

from __future__ import annotations

import re
from pathlib import Path

from clframe.errors import DataError

_FIELD = re.compile(r"\{(\w+)(?::0?(\d)?d?)?\}")
_NAME = re.compile(r"[^\w.+()\[\] -]+")
_LONGEST = 1000


def inside(root: Path, name: str, where: str) -> Path:
    """Return the path of a file below a folder.

    A link may point out of the folder into the blobs of a Hugging Face cache, where its snapshots
    keep their files.

    Args:
        root: The folder.
        name: The name of the file, relative to the folder.
        where: The file that names it, for the message.

    Raises:
        DataError: The path is outside of the folder.
    """
    try:
        path = root / name
        base, real = root.resolve(), path.resolve()
        allowed = [base]
        if base.parent.name == "snapshots":
            allowed.append(base.parent.parent / "blobs")
        good = "\0" not in name and any(real.is_relative_to(folder) for folder in allowed)
    except (OSError, ValueError, RuntimeError):
        good = False
    if not good:
        raise DataError(f"{where} names the file '{name[:200]}', which is not inside of '{root}'")
    return path


def filled(pattern: object, where: str, **values: object) -> str:
    """Return a pattern with its fields filled in: ``{name}``, or ``{name:03d}`` for numbers.

    >>> filled("chunk-{chunk_index:03d}", "info.json", chunk_index=7)
    'chunk-007'

    Raises:
        DataError: It is not a pattern, or has other fields.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise DataError(f"{where}: the pattern has an unknown field '{match[1]}'")
        return str(values[match[1]]).zfill(int(match[2] or 0))

    if not isinstance(pattern, str) or len(pattern) > _LONGEST:
        raise DataError(f"{where}: a pattern of file names must be a text")
    path = _FIELD.sub(value, pattern)
    if "{" in path or "}" in path:
        raise DataError(f"{where}: the pattern '{pattern[:100]}' is not one of {{name}} fields")
    return path


def file_name(name: str) -> str:
    """Return a name as a safe file name, without path separators.

    >>> file_name("../up"), file_name("reach-v3")
    ('_up', 'reach-v3')
    """
    return _NAME.sub("_", name).lstrip(". ")[:150] or "task"
