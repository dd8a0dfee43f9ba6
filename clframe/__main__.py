"""``python -m clframe`` is the same as ``clframe``."""

from __future__ import annotations

import os
import sys

# ``python -m`` looks for modules in the working directory first, as the command ``clframe`` does
# not: a folder that somebody sent must not bring modules.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from clframe.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
