"""Read lines of JSON from a pipe, between a sweep and the process that starts its runs."""

from __future__ import annotations

import json
import os
from typing import Any


class Lines:
    """Reader of whole lines from a file descriptor.

    Args:
        descriptor: The reading end of a pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = False
        self._rest = b""

    def read(self) -> list[Any]:
        """Return the JSON values of new lines; wait until there are some."""
        content = os.read(self.descriptor, 65536)
        self.ended = not content
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [json.loads(line) for line in lines]
