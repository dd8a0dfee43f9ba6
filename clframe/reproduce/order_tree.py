"""Learn several orders of one stream as a tree: common prefixes are learned once.

The first order is a run from the untrained model. Each other order is forked from the run with the
longest common prefix, where the two diverge. So each distinct prefix is learned exactly once, and
every order has its own run folder, identical to that of a direct run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clframe.api import fit_config
from clframe.config.compose import compose
from clframe.config.compose_over import compose_resumed
from clframe.config.read_config import read_content
from clframe.distributed import launch
from clframe.errors import RunFolderError, SettingError
from clframe.reproduce.fork import fork_words
from clframe.runs.folder import RunFolder
from clframe.runs.reader import EVENTS
from clframe.utils.console import warn_user
from clframe.utils.hydra_quote import override_value

Order = tuple[int | str, ...]
_TAKEN = ("run_dir", "sweep_dir", "resume", "trainer.experience_order", "experience_order", "seeds")


@dataclass(frozen=True)
class Branch:
    """One order of a tree.

    Args:
        name: Name of its run folder.
        order: The experiences.
        parent: The order that it is forked from; None if it starts untrained.
        at: Number of experiences before the fork.
    """

    name: str
    order: Order
    parent: str | None = None
    at: int = 0


@dataclass(frozen=True)
class Learned:
    """The outcome of a tree.

    Args:
        nodes: Distinct prefixes of the orders.
        learned: Experiences that were learned, according to the runs' events.
        total: Experiences of all orders.
        text: The tree as text.
    """

    nodes: int
    learned: int
    total: int
    text: str


def read_orders(text: str) -> list[Order]:
    """Parse orders: numbers or names separated by commas, orders separated by semicolons.

    >>> read_orders("0,1,2; 0,2,1")
    [(0, 1, 2), (0, 2, 1)]
    """
    orders: list[Order] = []
    for order in filter(None, (item.strip() for item in text.split(";"))):
        items = [item.strip() for item in order.strip("[]").split(",")]
        if not all(items):
            raise SettingError(f"--orders: '{order}' has an empty place; write 0,1,2;0,2,1")
        orders.append(tuple(int(item) if item.isdecimal() else item for item in items))
    if not orders:
        raise SettingError("--orders needs at least one order, such as 0,1,2;0,2,1")
    return orders


def plan(orders: Sequence[Order]) -> list[Branch]:
    """Return each order with the earlier order of the longest common prefix.

    >>> [(part.parent, part.at) for part in plan([(0, 1, 2), (0, 2, 1), (0, 2, 1, 3)[:3][::-1]])]
    [(None, 0), ('order1', 1), (None, 0)]

    Raises:
        SettingError: An order is listed twice.
    """
    branches: list[Branch] = []
    for number, order in enumerate(orders, 1):
        best = Branch("", ())
        at = 0
        for other in branches:
            if other.order == order:
                raise SettingError(f"--orders has {_order_text(order)} twice; list each order once")
            common = shared(order, other.order)
            if common > at:
                best, at = other, common
        branches.append(Branch(f"order{number}", order, best.name or None, at))
    return branches


def shared(first: Order, second: Order) -> int:
    """Return the length of the common prefix of two orders."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count


def nodes(orders: Sequence[Order]) -> int:
    """Return the number of distinct prefixes of orders.

    >>> nodes([(0, 1, 2), (0, 2, 1)])
    5
    """
    return len({order[:length] for order in orders for length in range(1, len(order) + 1)})


def learn_orders(orders: Sequence[Order], out: Path, overrides: Sequence[str]) -> Learned:
    """Learn all orders; keep finished runs, and continue stopped ones.

    Args:
        orders: Orders of the stream's experiences.
        out: The folder of the runs.
        overrides: Settings of all runs, as on the command line.

    Raises:
        ClframeError: A setting is invalid.
    """
    for override in overrides:
        if override.partition("=")[0] in _TAKEN:
            raise SettingError(f"'{override}': --orders sets the folder and the order of every run")
    overrides = ["checkpoint.every_experience=true", *overrides]
    branches = plan(orders)
    for branch in branches:
        folder = RunFolder(out / branch.name)
        if folder.config.exists():
            _check_same(folder, branch)
        if folder.results.exists():
            warn_user(f"{branch.name} already exists")
            continue
        warn_user(f"{branch.name}: {_order_text(branch.order)}{_beginning(branch)}")
        _learn(branch, folder, out, overrides)
    learned = sum(learned_in(out / branch.name) for branch in branches)
    total = sum(len(branch.order) for branch in branches)
    text = f"{nodes(orders)} distinct prefixes of {len(branches)} orders, {learned} experiences "
    text += f"learned instead of {total}; clframe compare {out} shows the tree"
    return Learned(nodes(orders), learned, total, text)


def _learn(branch: Branch, folder: RunFolder, out: Path, overrides: Sequence[str]) -> None:
    if folder.config.exists():
        config = compose_resumed(str(folder.path), (), ())
        with launch.command(["fit", f"resume={folder.path}"]):
            fit_config(config)
        return
    own = [
        f"trainer.experience_order={override_value(list(branch.order))}",
        f"run_dir={folder.path}",
    ]
    own += [
        override for override in overrides if override.startswith("progress=")
    ]  # not part of a config
    if branch.parent is None:
        with launch.command(["fit", *overrides, *own]):
            fit_config(compose([*overrides, *own]))
        return
    parent = out / branch.parent
    with launch.command(["fork", str(parent), "--at", str(branch.at), *own]):
        fork_words(parent, branch.at, own)


def _beginning(branch: Branch) -> str:
    return "" if branch.parent is None else f", from {branch.parent} after {branch.at}"


def _check_same(folder: RunFolder, branch: Branch) -> None:
    """Refuse a folder that holds another order."""
    order = read_content(folder.path)["trainer"].get("experience_order")
    if order != list(branch.order):
        raise RunFolderError(
            f"'{folder.path}' holds the order {_order_text(order or ['as it comes'])}, not "
            f"{_order_text(branch.order)}; give another --out"
        )


def learned_in(run: Path) -> int:
    """Return how many experiences a run has learned itself, according to its events."""
    count = 0
    for event in _events(run / EVENTS):
        if event.get("event") == "fork":
            count = 0  # Earlier ones are the parent's.
        count += event.get("event") == "experience"
    return count


def _events(path: Path) -> list[Mapping[str, Any]]:
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _order_text(order: Sequence[int | str]) -> str:
    return ",".join(map(str, order))
