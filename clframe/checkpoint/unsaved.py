"""Find attributes of plugins that change during a run but are not in ``state``.

Such an attribute is lost when the run is resumed, and the results differ silently. Attributes that
a plugin makes again in ``configure``, ``before_experience`` or ``before_epoch`` are fine, because a
resumed run calls these hooks before it restores a step. So a value is compared at the point where a
resumed run continues with it:

* Within an epoch, with the value at the epoch's start.
* Between experiences, with the value after ``configure``, and only if ``before_experience`` has not
  changed it.
* In a resumed run, with the value that the interrupted run had.

Only plugins that do not come with clframe are checked, and only those without a ``state_dict`` of
their own.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clframe.core.plugin import Plugin
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.core.learner import Learner

Sums = dict[str, dict[str, str]]
"""Checksums by plugin and attribute."""
OURS = ("clframe", "clframe_contrib")
_NUMBERS = 1024
"""Numbers of a tensor that are compared, spread over it: enough to see a change."""
_ITEMS = 32
"""Items at the end of a list or dict that are compared, so that a long one costs no more."""
_DEPTH = 4


class Unsaved:
    """Checker of the attributes that a learner's plugins do not save.

    Args:
        learner: A configured learner, before a checkpoint is restored.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._plugins = [p for p in learner.plugins.ordered if _is_watched(p)]
        self._reported: set[tuple[str, str]] = set()
        self._first = self.sums()
        self._carried: Sums = {}
        self._epoch: Sums = {}

    def sums(self) -> Sums:
        """Return a checksum of each attribute that is not saved."""
        if not self._plugins:
            return {}
        skipped = self._known()
        sums: Sums = {}
        for plugin in self._plugins:
            names = [name for name in _names(plugin) if name not in plugin.state]
            texts = {name: _text(getattr(plugin, name), skipped) for name in names}
            sums[plugin.name] = {name: _sum(text) for name, text in texts.items() if text}
        return sums

    def between(self) -> Sums:
        """Note the changes since the run began; return them for the checkpoint."""
        self._carried = _changed(self._first, self.sums())
        return self._carried

    def resumed(self, saved: Mapping[str, Any]) -> None:
        """Note where this run differs from the interrupted one at the start of the experience."""
        now = self.sums()
        apart = _changed(now, saved.get("unsaved", {}))
        self._carried = {p: {n: now[p].get(n, "") for n in names} for p, names in apart.items()}

    def begin_epoch(self, saved: Mapping[str, Any] | None) -> None:
        """Note the values at the start of an epoch; report those that a resumed run lacks.

        Args:
            saved: The checkpoint within the epoch that is restored next, if any.
        """
        if not self._plugins:
            return
        self._epoch = self.sums()
        carried, self._carried = self._carried, {}
        for plugin, names in carried.items():
            # Changes made by the hooks before the first step are made again on resume.
            same = [name for name, old in names.items() if self._epoch[plugin].get(name, "") == old]
            self._tell(plugin, same)
        for plugin, names in _changed(self._epoch, (saved or {}).get("unsaved", {})).items():
            self._tell(plugin, list(names))

    def within(self) -> Sums:
        """Report changes made by steps; return the differences since the run began."""
        now = self.sums()
        for plugin, names in _changed(self._epoch, now).items():
            self._tell(plugin, list(names))
        return _changed(self._first, now)

    def _known(self) -> set[int]:
        """Return the ids of everything that is saved with the learner, regardless of its owner."""
        learner = self._learner
        saved = [*learner.modules(), learner.optimizer, learner.schedule, learner.generator]
        tensors = [*learner.parameters(), *learner.buffers()]
        return {*map(id, saved), *map(id, tensors), *(-t.data_ptr() for t in tensors if t.numel())}

    def _tell(self, plugin: str, names: list[str]) -> None:
        new = [name for name in names if (plugin, name) not in self._reported]
        self._reported |= {(plugin, name) for name in new}
        if not new:
            return
        (owner,) = (p for p in self._plugins if p.name == plugin)
        listed = ", ".join(f'"{name}"' for name in (*owner.state, *new))
        comma = "," if len(owner.state) + len(new) == 1 else ""
        quoted = ", ".join(f"'{name}'" for name in new)
        are = "is" if len(new) == 1 else "are"
        warn_user(
            f"plugin '{plugin}': {quoted} {are} not saved, so a resumed run may end with other "
            f"results. Write state = ({listed}{comma}) in class {type(owner).__name__}"
        )


def _is_watched(plugin: Plugin) -> bool:
    kind = type(plugin)
    return not _is_ours(kind) and kind.state_dict is Plugin.state_dict


def _is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] in OURS


def _names(plugin: Plugin) -> dict[str, Any]:
    """Return a plugin's attributes, including class attributes with a first value.

    Attributes of its base classes in clframe are left out.
    """
    attributes: dict[str, Any] = {}
    ours: set[str] = set()
    for kind in type(plugin).__mro__[: type(plugin).__mro__.index(Plugin)]:
        plain = {n: v for n, v in vars(kind).items() if not n.startswith("__") and not callable(v)}
        attributes |= {n: v for n, v in plain.items() if not hasattr(v, "__get__")}
        if _is_ours(kind):
            codes = [getattr(value, "__code__", None) for value in vars(kind).values()]
            ours |= {name for code in codes if code is not None for name in code.co_names}
    return {n: v for n, v in {**attributes, **vars(plugin)}.items() if n not in ours}


def _changed(before: Sums, after: Sums) -> Sums:
    """Return attributes whose values differ, by plugin, for plugins that both have."""
    return {
        plugin: {name: value for name, value in names.items() if before[plugin].get(name) != value}
        for plugin, names in after.items()
        if plugin in before
    }


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _key(value: Any) -> str:
    """Return a key as text that is the same in every process."""
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if is_plain else type(value).__name__


def _text(value: Any, skipped: set[int], depth: int = 0) -> str:
    """Return a value as text that changes with it; empty for objects that cannot be inspected."""
    if id(value) in skipped or depth > _DEPTH:
        return ""
    if value is None or isinstance(value, bool | int | float | str | bytes | complex):
        return repr(value)
    if isinstance(value, torch.Tensor):
        if value.numel() and -value.data_ptr() in skipped:
            return ""
        flat = value.detach().flatten()
        chosen = flat[:: max(1, len(flat) // _NUMBERS)].cpu()
        return f"{tuple(value.shape)} {chosen.tolist()}"
    if isinstance(value, np.ndarray | np.generic):
        flat_array = np.asarray(value).ravel()
        return f"{value.shape} {flat_array[:: max(1, flat_array.size // _NUMBERS)].tolist()}"
    if isinstance(value, torch.Generator):
        return _sum(str(value.get_state().tolist()))
    if isinstance(value, random.Random):
        return _sum(repr(value.getstate()))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=True))
    if isinstance(value, dict):
        items = islice(reversed(value.items()), _ITEMS)
        inner = [f"{_key(key)}: {_text(item, skipped, depth + 1)}" for key, item in items]
        return f"{len(value)} {{{', '.join(inner)}}}"
    if isinstance(value, set | frozenset):
        return f"{len(value)} {sorted(map(_key, value)) if len(value) <= _NUMBERS else ''}"
    if isinstance(value, list | tuple):
        inner = [_text(item, skipped, depth + 1) for item in value[-_ITEMS:]]
        return f"{len(value)} [{', '.join(inner)}]"
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
        return _text(dict(value.state_dict()), skipped, depth + 1)
    return ""
