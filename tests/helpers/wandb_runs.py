"""Runs that log to W&B, and what is in the files of an offline one."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers.processes import session_server


def run(code: str, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in the folder, with a home that knows no W&B account."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB")}
    environment |= {"HOME": str(home), "OMP_NUM_THREADS": "1", **variables}
    return session_server().run("-c", code, *words, folder=folder, environment=environment)


def records(path: Path) -> Iterator[Any]:
    """The records of a file: a 7-byte head, then LevelDB's log format in blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2  # has those of the installed protobuf
    content = path.read_bytes()
    place, parts = 7, b""
    while place < len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record = messages.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def key_of(item: Any) -> str:
    """The name under which a value is logged or set."""
    return item.key or "/".join(item.nested_key)
