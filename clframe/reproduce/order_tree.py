"""Several orders of one stream, learned as a tree: what they begin with in common is learned once.

The first order is a run from the untrained model. Each other one is forked from the run that it
shares most with, where they part. So exactly the distinct prefixes are learned, and every order has
a run folder of its own, equal to that of the run made straight.
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
class Part:
    """One order of a tree.

    Args:
        name: Of its run folder.
        order: The experiences.
        parent: The order that it is forked from; None for one that begins untrained.
        at: After how many experiences.
    """

    name: str
    order: Order
    parent: str | None = None
    at: int = 0


@dataclass(frozen=True)
class Learned:
    """What became of a tree.

    Args:
        nodes: Distinct prefixes of the orders.
        learned: Experiences that were learned, by what the runs' events say.
        total: Experiences of all orders.
        text: The tree in lines.
    """

    nodes: int
    learned: int
    total: int
    text: str


def read_orders(text: str) -> list[Order]:
    """Orders as they are typed: numbers or names with commas between, orders with semicolons.

    >>> read_orders("0,1,2; 0,2,1")
    [(0, 1, 2), (0, 2, 1)]
    """
    orders: list[Order] = []
    for part in filter(None, (one.strip() for one in text.split(";"))):
        words = [word.strip() for word in part.strip("[]").split(",")]
        if not all(words):
            raise SettingError(f"--orders: '{part}' has an empty place; write 0,1,2;0,2,1")
        orders.append(tuple(int(word) if word.isdecimal() else word for word in words))
    if not orders:
        raise SettingError("--orders needs at least one order, such as 0,1,2;0,2,1")
    return orders


def plan(orders: Sequence[Order]) -> list[Part]:
    """Each order with the one before it that it shares most with.

    >>> [(part.parent, part.at) for part in plan([(0, 1, 2), (0, 2, 1), (0, 2, 1, 3)[:3][::-1]])]
    [(None, 0), ('order1', 1), (None, 0)]

    Raises:
        SettingError: An order is there twice.
    """
    parts: list[Part] = []
    for number, order in enumerate(orders, 1):
        best = Part("", ())
        at = 0
        for other in parts:
            if other.order == order:
                raise SettingError(f"--orders has {_words(order)} twice; each is learned once")
            common = shared(order, other.order)
            if common > at:
                best, at = other, common
        parts.append(Part(f"order{number}", order, best.name or None, at))
    return parts


def shared(one: Order, other: Order) -> int:
    """How many experiences two orders begin with in common."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def nodes(orders: Sequence[Order]) -> int:
    """How many distinct prefixes orders have.

    >>> nodes([(0, 1, 2), (0, 2, 1)])
    5
    """
    return len({order[:length] for order in orders for length in range(1, len(order) + 1)})


def learn_orders(orders: Sequence[Order], out: Path, words: Sequence[str]) -> Learned:
    """Learn all orders; what is finished stays, what was stopped is continued.

    Args:
        orders: Of the stream's experiences.
        out: The folder of the runs.
        words: Their settings, as on the command line.

    Raises:
        ClframeError: Something given cannot be used.
    """
    for word in words:
        if word.partition("=")[0] in _TAKEN:
            raise SettingError(f"'{word}': --orders gives every run its folder and its order")
    words = ["checkpoint.every_experience=true", *words]
    parts = plan(orders)
    for part in parts:
        folder = RunFolder(out / part.name)
        if folder.config.exists():
            _check_same(folder, part)
        if folder.results.exists():
            warn_user(f"{part.name} is there already")
            continue
        warn_user(f"{part.name}: {_words(part.order)}{_beginning(part)}")
        _learn(part, folder, out, words)
    learned = sum(learned_in(out / part.name) for part in parts)
    total = sum(len(part.order) for part in parts)
    text = f"{nodes(orders)} distinct prefixes of {len(parts)} orders, {learned} experiences "
    text += f"learned instead of {total}; clframe compare {out} shows the tree"
    return Learned(nodes(orders), learned, total, text)


def _learn(part: Part, folder: RunFolder, out: Path, words: Sequence[str]) -> None:
    if folder.config.exists():
        config = compose_resumed(str(folder.path), (), ())
        with launch.command(["fit", f"resume={folder.path}"]):
            fit_config(config)
        return
    own = [f"trainer.experience_order={override_value(list(part.order))}", f"run_dir={folder.path}"]
    own += [word for word in words if word.startswith("progress=")]  # which no config holds
    if part.parent is None:
        with launch.command(["fit", *words, *own]):
            fit_config(compose([*words, *own]))
        return
    parent = out / part.parent
    with launch.command(["fork", str(parent), "--at", str(part.at), *own]):
        fork_words(parent, part.at, own)


def _beginning(part: Part) -> str:
    return "" if part.parent is None else f", from {part.parent} after {part.at}"


def _check_same(folder: RunFolder, part: Part) -> None:
    """Refuse a folder that holds another order."""
    order = read_content(folder.path)["trainer"].get("experience_order")
    if order != list(part.order):
        raise RunFolderError(
            f"'{folder.path}' holds the order {_words(order or ['as it comes'])}, not "
            f"{_words(part.order)}; give another --out"
        )


def learned_in(run: Path) -> int:
    """How many experiences a run has learned itself, by what its events say."""
    count = 0
    for event in _events(run / EVENTS):
        if event.get("event") == "fork":
            count = 0  # those before are the parent's
        count += event.get("event") == "experience"
    return count


def _events(path: Path) -> list[Mapping[str, Any]]:
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _words(order: Sequence[int | str]) -> str:
    return ",".join(map(str, order))
