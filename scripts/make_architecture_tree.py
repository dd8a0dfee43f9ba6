"""Write the tree of modules into docs/architecture.md.

    python scripts/make_architecture_tree.py

A room's line is the first line of its ``__init__.py``; its modules follow. A test compares the page
with the tree.
"""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- tree -->\n", "<!-- end of tree -->"


def tree() -> str:
    """Return all rooms with their modules, as Markdown."""
    lines = ["| room | what is in it | modules |", "| --- | --- | --- |"]
    for init in sorted((ROOT / "clframe").rglob("__init__.py")):
        folder = init.parent
        modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        summary = (ast.get_docstring(ast.parse(init.read_text())) or "").split("\n\n")[0]
        summary = " ".join(summary.split()).replace("|", "/")
        room = folder.relative_to(ROOT).as_posix()
        lines.append(f"| `{room}/` | {summary} | {', '.join(modules)} |")
    return "\n".join(lines)


def page() -> str:
    """Return the page with the present tree."""
    before, _, rest = PAGE.read_text().partition(START)
    return f"{before}{START}\n{tree()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(textwrap.shorten(f"wrote {PAGE}", 80))
