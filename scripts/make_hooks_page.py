"""Write docs/hooks.md from clframe/hookspecs.py.

python scripts/make_hooks_page.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from clframe import hookspecs


def page() -> str:
    """The hook reference as Markdown."""
    lines = [
        "# Hooks",
        "",
        "<!-- Written by scripts/make_hooks_page.py; change the docstrings. -->",
        "",
    ]
    lines += [inspect.getdoc(hookspecs) or "", ""]
    lines += ["## Reference", ""]
    for name in hookspecs.HOOKS:
        function = getattr(hookspecs.HookSpecs, name)
        arguments = ", ".join(n for n in inspect.signature(function).parameters if n != "self")
        lines += [f"### `{name}({arguments})`", "", inspect.getdoc(function) or "", ""]
    text = "\n".join(lines).rstrip() + "\n"
    for role in (":class:", ":meth:", ":mod:", ":func:"):
        text = text.replace(role, "")
    return text.replace("``", "`").replace("::\n", ":\n")


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("docs", "hooks.md").write_text(page())
