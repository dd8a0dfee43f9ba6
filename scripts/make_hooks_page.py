"""Write docs/hooks.md from clframe/hookspecs.py.

python scripts/make_hooks_page.py
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
        lines += [f"### `{name}({arguments})`", "", typed(function), ""]
        lines += [inspect.getdoc(function) or "", ""]
    text = "\n".join(lines).rstrip() + "\n"
    for role in (":class:", ":meth:", ":mod:", ":func:"):
        text = text.replace(role, "")
    return text.replace("``", "`").replace("::\n", ":\n")


def typed(function: Callable[..., Any]) -> str:
    """What a hook is given and may return, with types."""
    signature = inspect.signature(function)
    given = [str(one).replace("'", "") for n, one in signature.parameters.items() if n != "self"]
    returned = str(signature.return_annotation).replace("'", "")
    return f"Given `{'`, `'.join(given)}`; returns `{returned}`."


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("docs", "hooks.md").write_text(page())
