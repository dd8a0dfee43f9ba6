"""Words of the command line, read by Hydra's grammar.

A word chooses in a group (``strategy=ewc``) or changes a setting (``trainer.max_epochs=2``, bare
``max_epochs=2``, ``~optimizer.lr``). Which names exist is checked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clframe.errors import SettingError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

# Letters, digits, dashes and dots; `hydra/launcher` and `stream@other` get a sentence each.
_KEY = re.compile(r"[A-Za-z_][\w.-]*")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")

EMPTY_CHOICES = {
    "strategy": "naive",
    "model": "default",
    "learner": "default",
    "scheduler": "none",
    "logger": "none",
    "experiment": "null",
}
"""What is chosen in a group from which ``~group`` or ``group=null`` takes the choice away."""


def read(word: str) -> Override:
    """One word as Hydra reads it.

    Raises:
        SettingError: It is not of Hydra's grammar, or of a part of it that makes no sense here.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if word.startswith("-") or ("=" not in word and not word.startswith("~")):
        raise SettingError(f"'{word}' is not a setting; write key=value")
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        reason = " ".join(str(error).split())
        raise SettingError(
            f"'{word}' cannot be read ({reason}); several values are a,b,c or range(0,10), and "
            "a text with other signs goes in quotes"
        ) from error
    key = override.key_or_group
    if override.package is not None:
        raise SettingError(
            f"'{word}': '@' moves a group elsewhere, which no run has a use for; write "
            f"{key}={word.partition('=')[2]}"
        )
    if re.match(r"hydra\b", key):
        raise SettingError(
            f"'{word}' is a setting of Hydra's, which clframe runs without: a run's folder is "
            "run_dir=DIR, a sweep's settings are sweep.NAME=value"
        )
    if not _KEY.fullmatch(key):
        raise SettingError(f"'{word}' is not a setting; write key=value")
    return override


def read_single(word: str) -> Override:
    """One word that has a single value, for a single run."""
    value = word.partition("=")[2]
    override = read(word)
    if override.is_sweep_override() or _RANGE.fullmatch(value):
        raise SettingError(f"'{word}' names several values; put -m after fit to sweep them")
    return override


def expand_ranges(word: str) -> str:
    """Whole numbers from..to, both included, as the list that Hydra's grammar knows.

    >>> expand_ranges("seed=0..3,7")
    'seed=0,1,2,3,7'
    """
    key, equals, value = word.partition("=")
    parts = []
    for part in value.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            parts.append(part)
            continue
        first, last = int(match[1]), int(match[2])
        if last < first:
            raise SettingError(f"'{word}' counts backwards; write {key}={last}..{first}")
        parts += [str(number) for number in range(first, last + 1)]
    return key + equals + ",".join(parts)


def split_plus(word: str) -> str:
    """``strategy=ewc+replay`` in Hydra's spelling, alone or among several.

    >>> split_plus("strategy=ewc+replay,si")
    'strategy=[ewc,replay],si'
    >>> split_plus("strategy=[ewc+si,replay]")
    'strategy=[ewc,si,replay]'

    Raises:
        SettingError: A plus sign has no name before or after it.
    """
    key, equals, value = word.partition("=")
    if key != "strategy" or "+" not in value:
        return word
    if re.search(r"(^|[+,\[])\s*\+|\+\s*($|[,\]])", value):
        raise SettingError(f"'{word}': a name is missing beside '+'; write strategy=ewc+replay")
    parts = re.split(r"(\[[^\]]*\])|,", value)
    plain = []
    for part in filter(None, parts):
        if part.startswith("["):
            plain.append(part.replace("+", ","))
        else:
            plain.append(f"[{part.replace('+', ',')}]" if "+" in part else part)
    return key + equals + ",".join(plain)


def names_of(override: Override) -> list[str]:
    """The names that a group is to have: of ``ewc`` or ``[ewc,replay]``; none of ``null``.

    Raises:
        SettingError: It is something else.
    """
    value: Any = override.value()
    names = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(name, str | int | float) for name in names):
        group = override.key_or_group
        raise SettingError(
            f"'{override.input_line}': {group} takes the name of a choice; its settings are "
            f"{group}.NAME=value"
        )
    return [str(name) for name in names]


def take_config_dirs(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """All other words, and the folders of ``--config-dir DIR`` or ``config_dir=DIR``.

    >>> take_config_dirs(["--config-dir", "mine", "seed=1", "config_dir=yours"])
    (['seed=1'], ['mine', 'yours'])
    """
    others: list[str] = []
    folders: list[str] = []
    rest = iter(words)
    for word in rest:
        key, _, value = word.partition("=")
        if word == "--config-dir":
            value = next(rest, "")
        elif key not in ("--config-dir", "config_dir"):
            others.append(word)
            continue
        value = value.strip().strip("[]").strip("'\"")
        if not value:
            raise SettingError(f"{key} needs a folder: config_dir=DIR")
        folders += [folder.strip() for folder in value.split(",")]
    return others, folders
