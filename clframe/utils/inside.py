"""Paths that a file names stay inside of the folder that the file is in."""

from __future__ import annotations

import re
from pathlib import Path

from clframe.errors import DataError

_FIELD = re.compile(r"\{(\w+)(?::0?(\d)?d?)?\}")
_NAME = re.compile(r"[^\w.+()\[\] -]+")
_LONGEST = 1000


def inside(root: Path, name: str, where: str) -> Path:
    """Return the path of a file below a folder.

    A link may lead out of the folder into the blobs of a Hugging Face cache, where its snapshots
    keep their files.

    Args:
        root: The folder.
        name: As a file of the folder has it.
        where: Which file that is, for the message.

    Raises:
        DataError: The name leads out of the folder.
    """
    try:
        path = root / name
        base, real = root.resolve(), path.resolve()
        allowed = [base]
        if base.parent.name == "snapshots":
            allowed.append(base.parent.parent / "blobs")
        good = "\0" not in name and any(real.is_relative_to(one) for one in allowed)
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
        DataError: It is none, or has other fields.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise DataError(f"{where}: the pattern has a field '{match[1]}', which is unknown")
        return str(values[match[1]]).zfill(int(match[2] or 0))

    if not isinstance(pattern, str) or len(pattern) > _LONGEST:
        raise DataError(f"{where}: a pattern of file names must be a text")
    found = _FIELD.sub(value, pattern)
    if "{" in found or "}" in found:
        raise DataError(f"{where}: the pattern '{pattern[:100]}' is not one of {{name}} fields")
    return found


def file_name(name: str) -> str:
    """Return a name as the name of a file, without what leads elsewhere.

    >>> file_name("../up"), file_name("reach-v3")
    ('_up', 'reach-v3')
    """
    return _NAME.sub("_", name).lstrip(". ")[:150] or "task"
