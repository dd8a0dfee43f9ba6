"""The help of ``clframe fit`` below the options: groups with their names, and other keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from clframe.config import name_catalog
from clframe.config.groups import SETTINGS
from clframe.config.name_lists import plural
from clframe.utils.console import wrap

_MANY = 6
"""Maximum number of names with the same beginning that are listed separately."""


def choices() -> str:
    """Return the groups with their names, and the other keys."""
    import importlib.resources

    text = (importlib.resources.files("clframe.configs") / "fit.yaml").read_text(encoding="utf-8")
    catalog = name_catalog.cached()
    first = "groups, chosen by GROUP=NAME; settings are GROUP.SETTING=VALUE or SETTING=VALUE:"
    lines = wrap(first)
    for group in dict.fromkeys([*re.findall(r"^  - (?:optional )?(\w+):", text, re.M), *SETTINGS]):
        names = catalog.groups.get(group, []) if catalog is not None else []
        listed = ", ".join(_shortened(names)) or f"see clframe list {plural(group)}"
        lines += _columns(group, listed)
    lines += ["", "other keys:"]
    for key, meaning in _root_keys(text):
        lines += _columns(key, meaning)
    last = "clframe list NAME explains a name and its settings, also those of the trainer."
    lines += ["", *wrap(last)]
    return "\n".join(lines)


def _columns(name: str, text: str) -> list[str]:
    return wrap(text, 18, f"  {name:<15} ")


def _root_keys(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of fit.yaml with the comments above them."""
    comment: list[str] = []
    for line in text.partition("\n\n")[2].splitlines():
        key = re.match(r"(\w+):", line)
        if line.startswith("# "):
            comment.append(line[2:])
        elif key and key[1] not in ("hydra", *SETTINGS):
            yield key[1], " ".join(comment) or "seed of all random numbers"
        if not line.startswith("#"):
            comment = []


def _shortened(names: Sequence[str]) -> list[str]:
    """Return the names, with one entry for many that begin alike.

    >>> _shortened(["mlp", *(f"task_{i}" for i in range(9))])
    ['mlp', 'task_* (9)']
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        folder, slash, rest = name.rpartition("/")
        start = folder + slash if slash else rest[: rest.rfind("_") + 1]
        alike.setdefault(start or name, []).append(name)
    shown: list[str] = []
    for start, members in alike.items():
        shown += [f"{start}* ({len(members)})"] if len(members) > _MANY else members
    return shown
