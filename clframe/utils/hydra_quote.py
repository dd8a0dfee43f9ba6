"""Write values in the grammar of Hydra's overrides."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(r"[\w./+@%-]+( [\w./+@%-]+)*")


def override_value(value: Any) -> str:
    """Return a value in the grammar of Hydra's overrides.

    >>> [override_value(x) for x in (None, True, 0.5, "mlp", "a, b", [1, "x"], {"k": 2})]
    ['null', 'true', '0.5', 'mlp', "'a, b'", '[1,x]', '{k:2}']
    """
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value) if isinstance(value, bool | None) else repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{override_value(x)}" for key, x in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(override_value(x) for x in value) + "]"
    text = str(value)
    if _PLAIN.fullmatch(text) and not _reads_as_other(text):
        return text
    # Hydra keeps a backslash, except before a quote.
    text = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text)
    return "'" + text.replace("'", "\\'") + "'"


def _reads_as_other(text: str) -> bool:
    """Return whether an unquoted text would be read as a number, a boolean or null."""
    if text.lower() in ("null", "true", "false", "nan", "inf", "-inf"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
