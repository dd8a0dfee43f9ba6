"""What is in the event files of TensorBoard."""

from __future__ import annotations

import struct
from pathlib import Path


def points_of_board(run: str) -> list[tuple[str, int, float]]:
    """Every scalar of all event files: length, check sum, record, check sum; again and again."""
    from tensorboardX.proto.event_pb2 import Event

    points = []
    for path in sorted(Path(run, "tensorboard").glob("events.*")):
        content, place = path.read_bytes(), 0
        while place < len(content):
            (length,) = struct.unpack("<Q", content[place : place + 8])
            event = Event.FromString(content[place + 12 : place + 12 + length])
            points += [
                (value.tag, event.step, value.simple_value)
                for value in event.summary.value
                if value.tag != "matrix"
            ]
            place += 16 + length
    return points
