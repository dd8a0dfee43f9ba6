"""Expand the arguments of a sweep, in Hydra's grammar, into one run per combination."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from clframe.config.groups import CHOSEN, KEYS_OF_FIT, ROOT_KEYS
from clframe.config.read_overrides import (
    BETWEEN_NAMES,
    RANGE,
    catalog_of,
    check_key,
    read,
    split,
    split_plus,
)
from clframe.errors import SettingError
from clframe.sweep.settings import SweepSettings
from clframe.utils import setting_checks

_LONGEST_NAME = 120
_PLAIN = re.compile(r"[\w./,+\[\] -]+")
"""A name or a list of names."""
_NOT_SWEPT = {
    "run_dir": "a sweep gives every run its own folder; set the sweep's folder with sweep_dir=",
    "resume": "a sweep continues by itself; run the same command again",
    "config_dir": "every run has the same config folders; config_dir=[a,b] adds two",
    "plugin_path": "every run has the same plugins; plugin_path=[a.py,b.py] loads two files",
}
_FOR_ALL = ("config_dir", "plugin_path")


def check_names(overrides: Sequence[str]) -> None:
    """Refuse unknown keys and names in a sweep's overrides, before heavy imports.

    Names in the user's files, and those that only Hydra's parser can read, such as ``glob(*)``, are
    checked when the runs are composed.

    Raises:
        SettingError: A key is unknown.
        UnknownNameError: A name is unknown.
    """
    if any(
        override.startswith(("plugin_path=", "config_dir=", "--config-dir"))
        for override in overrides
    ):
        return
    catalog = catalog_of()
    for override in overrides:
        if override.lstrip("+~").startswith("hydra"):
            continue  # `divide` names the right setting.
        sign, key, value = split(override)
        if key in CHOSEN and key != "model":
            names = BETWEEN_NAMES.split(value) if _PLAIN.fullmatch(value) else []
            for name in names:
                if name not in ("", "null") and not (key == "logger" and "." in name):
                    catalog.check(key, name)
        elif key not in (*CHOSEN, *ROOT_KEYS) and key.partition(".")[0] not in KEYS_OF_FIT:
            check_key(sign, key, overrides, catalog)


def expand_ranges(word: str) -> str:
    """Write whole numbers from..to, both included, as a list in Hydra's grammar.

    >>> expand_ranges("seed=0..3,7")
    'seed=0,1,2,3,7'
    """
    key, equals, value = word.partition("=")
    items = []
    for item in value.split(","):
        match = RANGE.fullmatch(item.strip())
        if match is None:
            items.append(item)
            continue
        first, last = int(match[1]), int(match[2])
        if last < first:
            raise SettingError(f"'{word}' counts backwards; write {key}={last}..{first}")
        items += [str(number) for number in range(first, last + 1)]
    return key + equals + ",".join(items)


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Args:
        fixed: Overrides of all runs, as they were written.
        axes: The swept keys, each with its values as text.
    """

    fixed: tuple[str, ...]
    axes: dict[str, tuple[str, ...]]

    @property
    def combinations(self) -> list[dict[str, str]]:
        """Combinations of a value for every swept key; the last key changes fastest."""
        return [
            dict(zip(self.axes, values, strict=True))
            for values in itertools.product(*self.axes.values())
        ]

    @property
    def samples(self) -> list[dict[str, str]]:
        """Combinations that hold every value at least once, to find wrong names and types.

        Integer seeds are all valid, so one of them is enough.
        """
        first = {key: values[0] for key, values in self.axes.items()}
        samples = [first]
        for key, values in self.axes.items():
            if key != "seed" or not all(value.isdecimal() for value in values):
                samples += [{**first, key: value} for value in values[1:]]
        return samples

    def overrides(self, combination: dict[str, str]) -> list[str]:
        """Return the overrides of one run."""
        return [*self.fixed, *(f"{key}={value}" for key, value in combination.items())]


class Words(NamedTuple):
    """The arguments of a sweep, sorted by purpose."""

    overrides: list[str]
    """Overrides of the runs."""
    settings: SweepSettings
    folder: Path | None
    """The folder from ``sweep_dir=``."""
    allow: list[str]
    """Names from ``resume.allow=...``, for runs that are continued."""


def divide(arguments: Sequence[str]) -> Words:
    """Separate the runs' overrides from the settings of the sweep itself.

    >>> divide(["seed=0,1", "sweep.jobs=3", "sweep_dir=here"]).overrides
    ['seed=0,1']
    """
    overrides: list[str] = []
    options: dict[str, Any] = {}
    folder: Path | None = None
    allow: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key == "sweep_dir":
            if not value:
                raise SettingError("sweep_dir needs a folder: sweep_dir=DIR")
            folder = Path(str(read(argument).value()))
        elif key in ("resume.allow", "resume_allow"):
            allow.append(argument)
        elif key.startswith("sweep."):
            _put(options, key, read(argument).value())
        elif key.lstrip("+~").startswith("hydra"):
            raise SettingError(
                f"'{argument}': sweeps do not use Hydra's launchers; choose one of clframe's "
                "with sweep.launcher=local, submitit or ray"
            )
        else:
            overrides.append(argument)
    checked = SweepSettings(**setting_checks.check(SweepSettings, options, "sweep"))
    return Words(overrides, checked, folder, allow)


def _put(options: dict[str, Any], key: str, value: Any) -> None:
    """Insert ``sweep.jobs`` or ``sweep.submitit.timeout_min`` into the options."""
    names = key.split(".")[1:]
    if len(names) == 2 and names[0] in ("submitit", "ray"):
        options.setdefault(names[0], {})[names[1]] = value
    elif len(names) == 1:
        options[names[0]] = value
    else:
        raise SettingError(f"'{key}' has too many parts; settings of a sweep are sweep.NAME=value")


def expand(overrides: Sequence[str], names: Callable[[str], Sequence[str]]) -> Plan:
    """Separate swept keys from fixed ones.

    Args:
        overrides: As on the command line, such as ``strategy=ewc,si`` or ``seed=0..4``.
        names: Returns the names that a group such as ``strategy`` offers, for ``glob(...)``.

    Raises:
        SettingError: An override cannot be read or swept, or there is nothing to sweep.

    >>> expand(["strategy=ewc,ewc+er", "seed=0..1", "lr=0.1"], lambda group: [])
    Plan(fixed=('lr=0.1',), axes={'strategy': ('ewc', '[ewc,er]'), 'seed': ('0', '1')})
    """
    fixed: list[str] = []
    axes: dict[str, tuple[str, ...]] = {}
    keys: set[str] = set()
    for word in overrides:
        parsed = read(word := expand_ranges(split_plus(word)))
        key = parsed.key_or_group
        swept = parsed.is_sweep_override()
        if key in _NOT_SWEPT and (swept or key not in _FOR_ALL):
            raise SettingError(f"'{word}' is not for a sweep: {_NOT_SWEPT[key]}")
        if key in keys and (swept or key in axes):
            raise SettingError(f"'{key}' is given twice; write all its values in one list")
        keys.add(key)
        if swept:
            axes[key] = _values(word, parsed, names)
        else:
            fixed.append(word)
    if not axes:
        raise SettingError(
            "there is nothing to sweep: no setting has several values; write for example "
            "seed=0,1,2 or seed=range(0,3), or leave -m out for a single run"
        )
    return Plan(tuple(fixed), axes)


def _values(word: str, parsed: Any, names: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Return the values of a swept override as text, each once, in order."""
    from hydra.core.override_parser.types import Glob
    from hydra.errors import HydraException

    if parsed.is_interval_sweep():
        raise SettingError(
            f"'{word}' has no list of values; use range(start,stop,step) or write them: a,b,c"
        )
    try:
        if isinstance(parsed._value, Glob):
            values = parsed._value.filter(list(names(parsed.key_or_group)))
        else:
            values = list(parsed.sweep_string_iterator())
    except (HydraException, ValueError) as error:
        raise SettingError(f"'{word}' cannot be listed: {' '.join(str(error).split())}") from error
    if not values:
        raise SettingError(f"'{word}' names no value")
    return tuple(dict.fromkeys(values))


def run_name(combination: dict[str, str]) -> str:
    """Return a folder name for one run that stays the same when the sweep grows.

    Characters that are not allowed are left out, and a short checksum keeps such names distinct.

    >>> run_name({"strategy": "[ewc,er]", "trainer.max_epochs": "2", "seed": "0"})
    'strategy-ewc+er_max_epochs-2_seed-0'
    >>> run_name({"data_dir": "/data/a"})
    'data_dir-data-a_ad43c4'
    """
    pieces = []
    for key, value in combination.items():
        text = value[1:-1].replace(",", "+") if value.startswith("[") else value
        pieces.append(f"{key.rpartition('.')[2]}-{text}")
    plain = "_".join(pieces)
    name = re.sub(r"[^\w.+-]+", "-", plain).replace("--", "-")[:_LONGEST_NAME]
    return name if name == plain else f"{name}_{_checksum(sorted(combination.items()))[:6]}"


def default_folder(plan: Plan, plugins: str) -> Path:
    """Return a sweep's folder by the overrides its runs share, so the same command finds it again.

    Args:
        plan: The sweep.
        plugins: Checksum of the user's plugin files: edited code makes a new sweep.
    """
    keys = "-".join(key.rpartition(".")[2] for key in plan.axes)
    identity = _checksum([sorted(plan.fixed), sorted(plan.axes), plugins])
    return Path("runs") / "sweeps" / f"{keys[:_LONGEST_NAME]}-{identity[:8]}"


def plugins_checksum(paths: Sequence[str]) -> str:
    """Return a checksum of the user's plugin files; empty without any."""
    if not paths:
        return ""
    return hashlib.sha256(b"\0".join(Path(path).read_bytes() for path in paths)).hexdigest()[:16]


def _checksum(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()
