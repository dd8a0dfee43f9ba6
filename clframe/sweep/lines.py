"""Lines of JSON through a pipe: how a sweep talks to the process that starts its runs."""

from __future__ import annotations

import json
import os
from typing import Any


class Lines:
    """Whole lines from a file descriptor.

    Args:
        descriptor: Of the reading end of a pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = False
        self._rest = b""

    def read(self) -> list[Any]:
        """The JSON values of the lines that have come; waits for something to come."""
        content = os.read(self.descriptor, 65536)
        self.ended = not content
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [json.loads(line) for line in lines]
