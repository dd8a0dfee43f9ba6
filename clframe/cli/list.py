"""``clframe list [KIND or NAME]``: list registered names, or describe one and its settings."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence

from clframe.cli.parser import Parser
from clframe.config.groups import SETTINGS
from clframe.config.name_catalog import Catalog, Item, Setting
from clframe.config.name_lists import all_names, items_named, kinds_by_plural
from clframe.config.read_overrides import catalog_of
from clframe.errors import SettingError, nearest
from clframe.utils.console import columns, print_lines, print_out, wrap

_APART = ("experiment", *SETTINGS)
"""Kinds that are listed only by their name, or with everything else in full."""
_COLUMN = 21


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "list",
        "List registered names, one line each, or describe a single name in full.",
        [
            ("clframe list strategies", "each with its paper and scenarios"),
            ("clframe list experiments", "published protocols, for clframe fit experiment=NAME"),
            ("clframe list trainer --long", "how to train, and what every setting means"),
            ("clframe list ewc", "one name: settings, types, defaults, meanings, paper"),
            ("clframe list --json", "everything, for programs"),
        ],
    )
    parser.add_argument(
        "what",
        nargs="?",
        metavar="KIND or NAME",
        help="streams, strategies, plugins, models, metrics, loggers, optimizers, experiments, "
        "trainer, evaluation, logging, checkpoint; or one of the names",
    )
    parser.add_config_dir()
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--long", action="store_true", help="with the meaning of every setting")
    form.add_argument("--json", action="store_true", help="for programs")
    return parser


def main(argv: Sequence[str]) -> int:
    """Print one kind, one name, or all."""
    arguments = parser().parse(argv)
    catalog = catalog_of(config_dirs=arguments.config_dir)
    kinds = kinds_by_plural(catalog)
    target = arguments.what
    in_full = arguments.long or arguments.json
    if target is None:
        users = {kind for kind, items in catalog.items.items() if _from_user(items.values())}
        chosen = [k for k in kinds.values() if in_full or k not in _APART or k in users]
    elif target in kinds:
        chosen = [kinds[target]]
    else:
        _show_name(catalog, target, list(kinds), arguments.json)
        return 0
    if arguments.json:
        content = {
            word: {name: _record(item) for name, item in catalog.items[kind].items()}
            for word, kind in kinds.items()
            if kind in chosen
        }
        print_lines(json.dumps(content if target is None else content[target], indent=1))
        return 0
    for word, kind in kinds.items():
        if kind in chosen:
            if target is None:
                print_out()
                print_out(word)
            for line in _listing(catalog, kind, arguments.long):
                print_out(line)
    return 0


def _from_user(items: Iterable[Item]) -> bool:
    """Return whether one of the items does not come with clframe."""
    return any(item.origin != "clframe" for item in items)


def _record(item: Item) -> dict[str, object]:
    """Return an item for programs."""
    content = dataclasses.asdict(item)
    for setting in content["settings"].values():
        del setting["shown"]
    keep = ("kind", "name", "summary", "origin", "settings")
    return {key: value for key, value in content.items() if value or key in keep}


# ------------------------------------------------------------ one kind


def _listing(catalog: Catalog, kind: str, in_full: bool) -> Iterable[str]:
    items = list(catalog.items[kind].values())
    if kind in SETTINGS:
        return _explained(items[0].settings) if in_full else _briefly(items[0].settings, 2)
    if in_full:
        return [line for item in items for line in (*_heading(item), *_details(catalog, item), "")]
    if kind == "strategy":
        return [line for item in items for line in _strategy_lines(item)]
    return _lines(items)


def _strategy_lines(item: Item) -> list[str]:
    facts = [item.paper] if item.paper else []
    facts.append("scenarios: " + ", ".join(item.scenarios))
    but = f" but {', '.join(item.conflicts)}" if item.conflicts else ""
    facts.append(f"composes with all{but}")
    start = f"  {item.name:<18} "
    return [*wrap(item.summary, _COLUMN, start), *wrap(" | ".join(facts), _COLUMN)]


def _lines(items: Sequence[Item]) -> Iterable[str]:
    for _, alike in itertools.groupby(items, key=lambda item: (item.origin, item.summary)):
        item, *others = alike
        origin = "" if item.origin == "clframe" else f"  [{item.origin}]"
        name = item.name
        if others:  # One line for all tasks of a kind.
            name = f"{name} ... {others[-1].name} ({len(others) + 1})"
        yield from wrap(f"{item.summary}{origin}", _COLUMN, f"  {name:<18} ")
        if item.settings and item.kind != "metric" and not item.internal:
            yield from _briefly(item.settings, _COLUMN)


def _briefly(settings: dict[str, Setting], indent: int) -> list[str]:
    shown = ", ".join(f"{name}={setting.shown}" for name, setting in settings.items())
    return wrap(shown, indent)


# ------------------------------------------------------------ one name


def _show_name(catalog: Catalog, name: str, kinds: list[str], as_json: bool) -> None:
    items = items_named(catalog, name)
    if not items:
        near = nearest(name, kinds)
        if near.startswith("known"):
            close = nearest(name, all_names(catalog))
            near = close if not close.startswith("known") else near
        raise SettingError(f"clframe list takes one of its kinds or a name, got '{name}'; {near}")
    if as_json:
        print_lines(json.dumps([_record(item) for item in items], indent=1))
        return
    for number, item in enumerate(items):
        if number:
            print_out()
        for line in (*_heading(item), *_details(catalog, item)):
            print_out(line)


def _heading(item: Item) -> list[str]:
    lines = [f"{item.name} ({item.kind}, from {item.origin})"]
    lines += wrap(item.summary, 2)
    if item.paper:
        lines += wrap(f"paper: {item.paper}", 2)
    if item.scenarios:
        but = f" but {', '.join(item.conflicts)}" if item.conflicts else ""
        lines += wrap(f"scenarios: {', '.join(item.scenarios)}; composes with all{but}", 2)
    if item.model:
        model = ", ".join(f"{key}={value}" for key, value in item.model.items() if key != "name")
        lines += wrap(f"learned by model={item.model.get('name')} {model}".rstrip(), 2)
    return lines


def _details(catalog: Catalog, item: Item) -> list[str]:
    if item.kind == "strategy":
        lines = []
        for plugin, values in item.plugins.items():
            item_of_plugin = catalog.items["plugin"][plugin]
            settings = {
                name: dataclasses.replace(setting, default=values[name], shown=str(values[name]))
                if name in values
                else setting
                for name, setting in item_of_plugin.settings.items()
            }
            lines += [f"  strategy.{plugin}.NAME=VALUE:", *_explained(settings)]
        return lines
    if not item.settings or item.internal or item.kind == "metric":
        return []
    prefixes = {"plugin": f"strategy.{item.name}.", "logger": f"logger.{item.name}."}
    return [f"  {prefixes.get(item.kind, f'{item.kind}.')}NAME=VALUE:", *_explained(item.settings)]


def _explained(settings: dict[str, Setting]) -> list[str]:
    """Return name, default, type and meaning of each setting."""
    lines = []
    for name, setting in settings.items():
        line = f"    {name}={_typed(setting.default)}  ({setting.type})"
        # The part to type stays on one line, however long it is.
        fits = len(line) <= columns()
        lines += [line] if fits else [line.partition("  (")[0], *wrap(f"({setting.type})", 8)]
        lines += wrap(setting.meaning, 8)
    return lines


def _typed(value: object) -> str:
    """Return a default as it is typed on the command line."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)
