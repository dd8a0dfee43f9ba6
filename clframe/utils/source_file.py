"""Load a Python file by its path, from its source only."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType


class SourceOnly(SourceFileLoader):
    """Loader that compiles the source and ignores ``__pycache__``.

    A compiled file next to the source could hold other code, and the copy of a plugin in a run
    folder must stay the only file there.

    Args:
        name: Name of the module.
        path: Path of the file.
        content: The file's content when it was checked; None reads the file when it is loaded.
    """

    def __init__(self, name: str, path: str, content: bytes | None = None) -> None:
        super().__init__(name, path)
        self._content = content

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source."""
        path = self.get_filename(fullname)
        content = self.get_data(path) if self._content is None else self._content
        code: CodeType = self.source_to_code(content, path)
        return code


def spec_of_file(name: str, path: str | Path, content: bytes | None = None) -> ModuleSpec | None:
    """Return the spec of a module made of one ``.py`` file; None for other files."""
    if Path(path).suffix != ".py":
        return None
    loader = SourceOnly(name, str(path), content)
    return importlib.util.spec_from_file_location(name, path, loader=loader)
