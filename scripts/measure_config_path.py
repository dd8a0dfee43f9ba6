"""Count the files and lines of clframe that run from ``clframe fit ...`` to a ``RunConfig``.

A file counts if one of its functions is called. The same command has run once before, so that
imports and the registry of clframe's own names, which are made once in a process, do not count::

    python scripts/measure_config_path.py strategy=ewc lr=0.1
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import clframe
from clframe.cli.main import main
from clframe.config.read_overrides import load_catalog
from clframe.config.run_config import RunConfig

PACKAGE = Path(clframe.__file__).parent
WORDS = ("strategy=ewc", "lr=0.1", "trainer.max_epochs=2")


class _Composed(BaseException):
    """The run is described, and the command need not run it."""


def measure(words: list[str]) -> dict[str, Any]:
    """Return the files, their lines, and the lines of the functions that were called."""
    called: set[CodeType] = set()
    made = RunConfig.__post_init__.__code__
    load_catalog()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.add(frame.f_code)
        elif event == "return" and frame.f_code is made:
            raise _Composed

    for _ in range(2):
        called.clear()
        sys.setprofile(note)
        try:
            main(["fit", *words])
        except _Composed:
            pass
        else:
            raise SystemExit(f"clframe fit {' '.join(words)} made no RunConfig")
        finally:
            sys.setprofile(None)
    return _counted(called)


def _counted(called: set[CodeType]) -> dict[str, Any]:
    files: dict[str, set[int]] = {}
    for code in called:
        path = Path(code.co_filename)
        if path.is_relative_to(PACKAGE):
            numbers = [line for *_, line in code.co_lines() if line is not None]
            files.setdefault(str(path), set()).update(range(min(numbers), max(numbers) + 1))
    whole = {path: len(Path(path).read_text(encoding="utf-8").splitlines()) for path in files}
    names = {str(Path(path).relative_to(PACKAGE)): lines for path, lines in whole.items()}
    return {
        "files": dict(sorted(names.items())),
        "number_of_files": len(files),
        "lines_of_files": sum(whole.values()),
        "lines_of_functions": sum(map(len, files.values())),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:] or list(WORDS)), indent=1))
