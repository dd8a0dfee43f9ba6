"""The plan of a lifetime: which task is learned under which conditions, when and for how long.

A plan is made from a few settings (order, repetitions, regimes), or read from a file of blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from clframe.data.sampler import epoch_order
from clframe.errors import DataError, SettingError, UnknownNameError, nearest
from clframe.streams.lifetime.variation import checked_parameters
from clframe.utils.plain_yaml import read_yaml
from clframe.utils.regular import read_text

Order = Literal["condensed", "dispersed", "alternating", "permuted"]
ORDERS: tuple[Order, ...] = get_args(Order)
PLAIN = "plain"
"""The variant of a task with unchanged inputs."""

_LONGEST = 1 << 20
_BLOCK_KEYS = ("blocks", "scenario")
_PASSED_OVER = (
    "author",
    "evaluation",
    "logging_base",
    "logging_base_dir",
    "seed",
    "stream",
    "threads",
)
"""Keys in l2logger's files that do not affect the order of blocks."""
_KEPT = ("complexity", "difficulty", "scenario_type")


@dataclass(frozen=True)
class Regime:
    """Conditions under which tasks are shown, with a name."""

    name: str
    parameters: dict[str, float]


@dataclass(frozen=True)
class Column:
    """A task under one regime: a column of the matrix."""

    task: int
    regime: Regime


@dataclass(frozen=True)
class Block:
    """A learning block.

    Args:
        column: The column to learn.
        length: Learning experiences; None for all samples of the task.
        passes: How often to repeat that length.
    """

    column: int
    length: int | None
    passes: int = 1


@dataclass
class Plan:
    """A lifetime: its columns, its learning blocks in order, and its metadata."""

    columns: list[Column] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)

    def column(self, column: Column) -> int:
        """Return the index of a column; add a new one."""
        if column not in self.columns:
            self.columns.append(column)
        return self.columns.index(column)


def clean(name: str) -> str:
    """Replace underscores, which L2 tools read as the separator of task and variant.

    >>> clean("pick_up bowl")
    'pick-up-bowl'
    """
    return re.sub(r"[^0-9A-Za-z]+", "-", name)


def parse_regimes(given: Sequence[Mapping[str, Any]], where: str) -> list[Regime]:
    """Return regimes from mappings of parameters; a regime without a name gets one."""
    regimes: list[Regime] = []
    for number, entry in enumerate(given):
        if not isinstance(entry, Mapping):
            raise SettingError(f"{where}: a regime is a mapping of parameters, got {entry!r}")
        parameters = checked_parameters(
            {key: value for key, value in entry.items() if key != "name"}, where
        )
        name = entry.get("name", f"v{number}" if parameters else PLAIN)
        if not isinstance(name, str) or not re.fullmatch(r"[0-9A-Za-z]+", name):
            raise SettingError(f"{where}: a regime's name is letters and digits, got {name!r}")
        if name.lower() in {regime.name.lower() for regime in regimes}:
            raise SettingError(f"{where}: two regimes are named '{name}'")
        regimes.append(Regime(name, parameters))
    return regimes


def plan_by_order(
    order: Order,
    n_tasks: int,
    regimes: Sequence[Regime],
    repetitions: int,
    block_length: int | None,
    seed: int,
) -> Plan:
    """Return a plan that trains every task equally long under every regime.

    * condensed: each task once, in one block that is ``repetitions`` times as long.
    * dispersed: ``repetitions`` rounds through all tasks, regime after regime.
    * alternating: two tasks take turns ``repetitions`` times, then the next two; an odd number ends
      with three.
    * permuted: rounds like dispersed, each in a random order.
    """
    shown = list(regimes) or [Regime(PLAIN, {})]
    plan = Plan([Column(task, r) for task in range(n_tasks) for r in shown])
    everything = list(range(len(plan.columns)))
    sequence: list[int] = []
    if order == "condensed":
        plan.blocks = [Block(column, block_length, repetitions) for column in everything]
    elif order == "alternating":
        for pair in _pairs(everything):
            sequence += pair * repetitions
    elif order == "permuted":
        for number in range(repetitions):
            sequence += epoch_order(len(everything), seed, number).tolist()
    else:
        by_regime = [t * len(shown) + r for r in range(len(shown)) for t in range(n_tasks)]
        sequence = by_regime * repetitions
    plan.blocks += [Block(column, block_length) for column in sequence]
    plan.info["scenario_type"] = order
    return plan


def _pairs(items: list[int]) -> list[list[int]]:
    """Group items in pairs; an odd number ends with three.

    >>> _pairs([0, 1, 2, 3, 4])
    [[0, 1], [2, 3, 4]]
    """
    pairs = [items[i : i + 2] for i in range(0, len(items), 2)]
    if len(pairs) > 1 and len(pairs[-1]) == 1:
        last = pairs.pop()
        pairs[-1] = pairs[-1] + last
    return pairs


def read_file(path: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Return the content of a scenario file: settings by name and, optionally, ``blocks``.

    Args:
        path: A YAML or JSON file with a mapping, or a list of blocks as in l2logger's examples;
            also a log's own ``scenario_info.json``.
        settings: The settings it may hold.

    Raises:
        ClframeError: The file is missing, is not YAML, or holds unknown keys.
    """
    where = f"scenario_file '{path}'"
    try:
        content = read_yaml(read_text(path, _LONGEST))
    except FileNotFoundError:
        raise DataError(f"{where} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {where}: {error}") from error
    except ValueError as error:
        reason = re.sub(r"^(line \d+): ", r"(\1): ", str(error))
        colon = " " if reason.startswith("(") else ": "
        raise DataError(f"{where} is neither YAML nor JSON{colon}{reason}") from error
    if isinstance(content, Mapping) and "input_file" in content:
        inner = content["input_file"]
        rest = {key: value for key, value in content.items() if key != "input_file"}
        # Here, 'scenario' is the stream's kind; inside input_file, the same key holds blocks.
        rest.pop("scenario", None)
        content = {**rest, **(inner if isinstance(inner, Mapping) else {"blocks": inner})}
    if isinstance(content, list):
        content = {"blocks": content}
    if not isinstance(content, Mapping):
        raise SettingError(f"{where} must hold settings by name or a list of blocks")
    result: dict[str, Any] = {}
    for key, value in content.items():
        if key in _BLOCK_KEYS:
            if "blocks" in result:
                raise SettingError(f"{where} has both 'blocks' and 'scenario'; keep one of them")
            result["blocks"] = value
        elif key in settings or key in _KEPT:
            result[key] = value
        elif key not in _PASSED_OVER:
            keys = (*settings, *_BLOCK_KEYS, *_KEPT)
            raise SettingError(f"{where}: unknown key '{key}'; {nearest(str(key), keys)}")
    return result


def plan_by_blocks(
    blocks: Any,
    labels: Sequence[str],
    regimes: Sequence[Regime],
    translate: Mapping[str, str],
    where: str,
) -> Plan:
    """Return a plan from blocks: ``{type: train, regimes: [{task, count, params}]}``.

    Every regime of a training block becomes a learning block. Each of them is followed by an
    evaluation of all tasks anyway; test blocks only add the tasks they name.

    Args:
        blocks: The blocks from the file.
        labels: Names of the base stream's tasks.
        regimes: Regimes defined by name.
        translate: Maps the file's task names to those of the base stream.
        where: The file's name in messages.
    """
    all_regimes = list(regimes) or [Regime(PLAIN, {})]
    plan = Plan()
    if not isinstance(blocks, list) or not blocks:
        raise SettingError(f"{where}: 'blocks' must be a list of blocks")
    for number, block in enumerate(blocks):
        at = f"{where}, block {number}"
        if not isinstance(block, Mapping) or set(block) != {"type", "regimes"}:
            raise SettingError(f"{at} must have the keys 'type' and 'regimes', got {block!r}")
        if block["type"] not in ("train", "test"):
            raise SettingError(f"{at}: type must be train or test, got {block['type']!r}")
        if not isinstance(block["regimes"], list) or not block["regimes"]:
            raise SettingError(f"{at}: 'regimes' must be a list of tasks")
        for entry in block["regimes"]:
            name, count, parameters = _entry(entry, at)
            column = _column(translate.get(name, name), parameters, labels, all_regimes, at)
            index = plan.column(column)
            if block["type"] == "train":
                plan.blocks.append(Block(index, count))
    if not plan.blocks:
        raise SettingError(f"{where} has no training block")
    plan.info["scenario_type"] = "custom"
    return plan


def _entry(entry: Any, at: str) -> tuple[str, int | None, dict[str, float] | None]:
    """Return task, length and parameters of one regime of a block."""
    if not isinstance(entry, Mapping):
        raise SettingError(f"{at}: a regime is a mapping with a task, got {entry!r}")
    names = {"task": "task", "count": "count", "length": "count", "params": "params"}
    names["args"] = "params"
    values: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in names:
            raise SettingError(f"{at}: unknown key '{key}'; {nearest(str(key), names)}")
        values[names[key]] = value
    task, count, parameters = values.get("task"), values.get("count"), values.get("params")
    if not isinstance(task, str):
        raise SettingError(f"{at}: a regime needs the name of its task, got {task!r}")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise SettingError(f"{at}: count must be a whole number from 1 up, got {count!r}")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise SettingError(f"{at}: params must be a mapping, got {parameters!r}")
    return task, count, None if parameters is None else checked_parameters(parameters, at)


def _column(
    name: str,
    parameters: dict[str, float] | None,
    labels: Sequence[str],
    regimes: list[Regime],
    at: str,
) -> Column:
    """Return task and regime of a name such as ``task0_dark``; add a new regime to the list."""
    label, _, variant = name.partition("_")
    if label not in labels:
        raise UnknownNameError(
            f"{at}: the base stream has no task '{label}'; {nearest(label, labels)}"
        )
    if variant:
        regime = next((r for r in regimes if r.name == variant), None)
        if regime is None and parameters is None:
            raise SettingError(
                f"{at}: no regime is named '{variant}' ('{name}'); define it under 'regimes' or "
                "give params"
            )
        if regime is not None and parameters not in (None, regime.parameters):
            raise SettingError(
                f"{at}: '{name}' has params {parameters}, but '{variant}' was {regime.parameters}"
            )
    else:
        regime = next((r for r in regimes if r.parameters == (parameters or {})), None)
        variant = f"v{len(regimes)}" if parameters else PLAIN
    if regime is None:
        regime = parse_regimes([{"name": variant, **(parameters or {})}], at)[0]
        regimes.append(regime)
    return Column(labels.index(label), regime)
