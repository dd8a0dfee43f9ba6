"""The reference of public names, from their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from docs_site import public, text

_OWN = ("__call__", "__len__", "__getitem__")


def pages() -> dict[str, str]:
    """A page for each public module by its path below docs/."""
    made = {}
    for module in (*public.MODULES, *public.FOR_AUTHORS):
        summary = text.markdown(inspect.getdoc(importlib.import_module(module)) or "")
        parts = [f"# {module}", summary]
        for name, value in public.names(module).items():
            parts += _entry(module, name, value)
        made[f"api/{module}.md"] = "\n\n".join(part for part in parts if part) + "\n"
    return made


def _entry(module: str, name: str, value: Any) -> list[str]:
    doc = public.documented(value)
    parts = [f"## {name}"]
    if inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "__wrapped__"):
        parts.append(f"```text\n{module}.{name}{_signature(value)}\n```")
    parts.append(text.markdown(doc))
    if inspect.isclass(value):
        parts += _members(value)
    return parts


def _signature(value: Any) -> str:
    try:
        shown = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    words = [_parameter(p) for p in shown.parameters.values()]
    line = f"({', '.join(words)})"
    if len(line) > 80:
        line = "(\n    " + ",\n    ".join(words) + ",\n)"
    if shown.return_annotation not in (inspect.Signature.empty, None, "None"):
        line += f" -> {_type(shown.return_annotation)}"
    return line


def _parameter(parameter: inspect.Parameter) -> str:
    stars: dict[object, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    shown = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not parameter.empty:
        shown += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = re.sub(
            r"<(?:function|class) '?(\S+?)'?(?: at 0x\w+)?>", r"\1", repr(parameter.default)
        )
        shown += f" = {re.sub(r' at 0x[0-9a-f]+', '', default)}"
    return shown


def _type(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    return inspect.formatannotation(annotation)


def _members(value: type) -> list[str]:
    """What the class itself defines for others: methods, properties, annotated attributes."""
    parts = []
    for base in value.__mro__:
        if not base.__module__.startswith("clframe"):
            continue
        for name, member in vars(base).items():
            if (name.startswith("_") and name not in _OWN) or f"#### {name}" in parts:
                continue
            if base is not value and name in vars(value):
                continue
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if isinstance(member, property):
                parts += [f"#### {name}", text.markdown(inspect.getdoc(member) or "")]
            elif inspect.isfunction(plain) and plain.__doc__:
                signature = f"```text\n{name}{_signature(plain)}\n```"
                parts += [f"#### {name}", signature, text.markdown(inspect.getdoc(plain) or "")]
    return parts
