"""``python -m clframe`` is the same as ``clframe``."""

from __future__ import annotations

import sys

from clframe.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
