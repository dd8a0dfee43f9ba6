"""Read untrusted YAML: plain values only, in time that is linear in the text.

Anchors and aliases are refused (a kilobyte of them can stand for gigabytes). Dates and base-60
numbers (``1:30``) are texts, as in YAML 1.2. clframe itself writes none of them.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_BITS = 4096
"""Maximum bits of a whole number; Python cannot print one of many thousands."""
_NUMBERS = {
    "tag:yaml.org,2002:int": (
        re.compile(r"[-+]?(0b[0-1_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)\Z"),
        "-+0123456789",
    ),
    "tag:yaml.org,2002:float": (
        re.compile(
            r"([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"
        ),
        "-+0123456789.",
    ),
}
_LEFT_OUT = (*_NUMBERS, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge")


class _Loader(yaml.SafeLoader):
    """Loader of plain values."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _LEFT_OUT]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse anchors and aliases."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:
            raise yaml.composer.ComposerError(
                None, None, "anchors and aliases are not read", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> int:
        """Refuse numbers with an absurd number of digits."""
        value = int(super().construct_yaml_int(node))
        if value.bit_length() > _BITS:
            raise ValueError("a number has too many digits")
        return value


for _tag, (_pattern, _first) in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, _pattern, list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


class _Dumper(yaml.SafeDumper):
    """Dumper that writes out equal values instead of aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write every value out."""
        return True


def read_yaml(text: str) -> Any:
    """Return the content of a YAML text.

    Raises:
        ValueError: It is not YAML, or has more than plain values; names the problem and the line.
    """
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f"line {mark.line + 1}"
        problem = getattr(error, "problem", None) or ""
        raise ValueError(": ".join(detail for detail in (where, problem) if detail)) from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (TypeError, OverflowError, AttributeError) as error:
        raise ValueError(str(error)) from error


def as_yaml(content: Any) -> str:
    """Return plain values as YAML, in their order."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False)
