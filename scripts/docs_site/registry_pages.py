"""A page for each stream, strategy and metric, and one for each other kind of name."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from clframe.config.groups import SETTINGS
from clframe.config.make_catalog import make
from clframe.config.name_catalog import Catalog, Item, Setting
from clframe.config.name_lists import plural
from clframe.core.registry import Kind, Registry
from clframe.metrics.catalog import CATALOG, FAMILIES
from docs_site import results, text

SINGLE_PAGES = (
    "model", "learner", "optimizer", "scheduler", "logger", *SETTINGS, "experiment",
)  # fmt: skip
"""Kinds of which all names share a page."""
_OWN_DATA = {"folder": "DIR", "file_list": "images.csv", "hf": "DIR", "lerobot": "DIR"}
_SCENARIOS = ("task", "domain", "class")


def pages(registry: Registry) -> dict[str, str]:
    """All pages by their path below docs/."""
    catalog = make(registry)
    made = (
        _streams(catalog, registry) | _strategies(catalog, registry) | _metrics(catalog, registry)
    )
    for kind in SINGLE_PAGES:
        made[f"reference/{plural(kind)}.md"] = _kind_page(catalog, registry, kind)
    return made


def _settings(prefix: str, settings: Mapping[str, Setting], given: Mapping[str, Any]) -> str:
    """The settings as a table; the values that a composition gives stand in for the defaults."""
    if not settings:
        return "None."
    rows = [
        [
            text.code(name),
            "required" if one.shown == "???" else text.code(_typed(given.get(name, one.default))),
            text.cell(", ".join(f"`{choice}`" for choice in one.choices) or one.type),
            text.cell(one.meaning),
        ]
        for name, one in settings.items()
    ]
    shown = text.table(["setting", "default", "type", "meaning"], rows)
    return f"Given as `{prefix}NAME=VALUE`:\n\n{shown}"


def _typed(value: Any) -> str:
    """A value as it is typed on the command line.

    >>> [_typed(value) for value in (None, True, 0.5, "auto", [1, 2])]
    ['null', 'true', '0.5', 'auto', '[1, 2]']
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _body(factory: Callable[..., Any]) -> str:
    """Return the docstring without its first line and its arguments."""
    target = factory.func if isinstance(factory, functools.partial) else factory
    doc = inspect.getdoc(target) or ""
    if not inspect.isclass(target) and not inspect.isfunction(target):
        return ""
    return text.markdown(doc.partition("\n")[2], without=("Args", "Returns", "Raises"))


def _page(title: str, *parts: str) -> str:
    return f"# {title}\n\n" + "\n\n".join(part for part in parts if part) + "\n"


# ------------------------------------------------------------ streams


def _streams(catalog: Catalog, registry: Registry) -> dict[str, str]:
    made: dict[str, str] = {}
    index: list[list[str]] = []
    items = catalog.items["stream"].values()
    for _, alike in itertools.groupby(items, key=lambda item: (item.origin, item.summary)):
        item, *others = alike
        title = f"{item.name} ... {others[-1].name}" if others else item.name
        index.append([f"[{title}]({item.name}.md)", text.cell(item.summary)])
        made[f"streams/{item.name}.md"] = _stream_page(item, [i.name for i in others], registry)
    listed = text.table(["stream", ""], index)
    made["streams/index.md"] = _page(
        "Streams",
        "What can be learned. A name is chosen with `stream=NAME`, its settings are "
        "`stream.SETTING=VALUE`, and `clframe list NAME` prints the same as these pages. "
        "For data of your own see [own data](../own_data.md).",
        listed,
    )
    return made


def _stream_page(item: Item, others: list[str], registry: Registry) -> str:
    factory = registry.get("stream", item.name).factory if _known(registry, item) else None
    needed = [f"stream.{n}={_OWN_DATA.get(item.name, 'VALUE')}"
              for n, s in item.settings.items() if s.shown == "???"]  # fmt: skip
    command = " ".join(["clframe fit", f"stream={item.name}", *needed, "strategy=er"])
    facts = []
    scenario = item.settings.get("scenario")
    if scenario is not None:
        facts.append(f"Scenarios: {', '.join(scenario.choices or _SCENARIOS)}.")
    if item.model:
        settings = ", ".join(f"{k}={v}" for k, v in item.model.items() if k != "name")
        model = f"`{item.model['name']}`" + (f" ({settings})" if settings else "")
        facts.append(f"Learned by the model {model} unless another is named.")
    also = f"In the same way: {', '.join(f'`{name}`' for name in others)}." if others else ""
    return _page(
        item.name,
        text.cell(item.summary) + ("" if item.summary.endswith(".") else "."),
        f"```bash\n{command}\n```",
        " ".join(facts),
        also,
        _body(factory) if factory is not None else "",
        "## Settings\n\n" + _settings("stream.", item.settings, {}),
    )


def _known(registry: Registry, item: Item) -> bool:
    return item.name in registry.names(item.kind)  # type: ignore[arg-type]


# ------------------------------------------------------------ strategies


def _strategies(catalog: Catalog, registry: Registry) -> dict[str, str]:
    names = catalog.items["strategy"]
    measured = results.by_strategy({name: name for name in names})
    made = {}
    index = []
    for item in names.values():
        made[f"strategies/{item.name}.md"] = _strategy_page(
            item, catalog, registry, measured.get(item.name, [])
        )
        index.append([f"[{item.name}]({item.name}.md)", text.cell(item.summary),
                      ", ".join(item.scenarios)])  # fmt: skip
    made["strategies/index.md"] = _page(
        "Strategies",
        "Methods, baselines and evaluators. Any composition (`strategy=ewc+replay`) works unless "
        "two of them truly conflict; the error is raised before anything runs.",
        text.table(["strategy", "", "scenarios"], index),
    )
    return made


def _strategy_page(
    item: Item, catalog: Catalog, registry: Registry, measured: Iterable[results.Rows]
) -> str:
    scenario = "class" if "class" in item.scenarios else item.scenarios[0]
    command = f"clframe fit strategy={item.name} stream=split_mnist scenario={scenario}"
    classes = registry.plugin_classes()
    if any("tuning" in classes[name].roles for name in item.plugins):
        command += " model=vit_tiny model.weights=fashion"
    but = ", ".join(f"[{n}]({n}.md)" if n in catalog.items["strategy"] else f"`{n}`"
                    for n in item.conflicts)  # fmt: skip
    facts = [
        f"- **Paper**: {text.cell(item.paper)}" if item.paper else "",
        f"- **Scenarios**: {', '.join(item.scenarios)}",
        "- **Composes with** all strategies" + (f" but {but}" if but else ""),
        f"- **From** `{item.origin}`" if item.origin != "clframe" else "",
    ]
    parts = [text.cell(item.summary), "\n".join(fact for fact in facts if fact),
             f"```bash\n{command}\n```"]  # fmt: skip
    for plugin, given in item.plugins.items():
        part = catalog.items["plugin"][plugin]
        entry = registry.get("plugin", plugin)
        if len(item.plugins) > 1 or plugin != item.name:
            parts.append(f"## {plugin}\n\n{text.cell(part.summary)}")
        parts.append(_body(entry.factory))
        level = "##" if plugin == item.name and len(item.plugins) == 1 else "###"
        table = _settings(f"strategy.{plugin}.", part.settings, given or {})
        parts.append(f"{level} Settings\n\n{table}")
    rows = [row.as_markdown() for row in measured]
    if rows:
        parts.append("## Measured\n\n" + "\n".join(rows))
    return _page(item.name, *parts)


# ------------------------------------------------------------ metrics


def _metrics(catalog: Catalog, registry: Registry) -> dict[str, str]:
    families = {name.partition(".")[0] for name in CATALOG} | set(catalog.items["metric"])
    functions = {family.name: family for family in FAMILIES}
    made = {}
    index = []
    for name in sorted(families):
        facts = {key: info for key, info in CATALOG.items() if key.partition(".")[0] == name}
        item = catalog.items["metric"].get(name)
        summary = item.summary if item else "Besides the matrix; see [metrics](../metrics.md)."
        index.append([f"[{name}]({name}.md)", text.cell(summary) if item else summary])
        papers = dict.fromkeys(info.paper for info in facts.values() if info.paper)
        rows = [[text.code(key), text.code(i.formula) if i.formula else "", i.direction, i.range,
                 text.cell(i.meaning or i.words)] for key, i in facts.items()]  # fmt: skip
        function = functions.get(name)
        body = _body(function.function) if function is not None else ""
        made[f"metrics/{name}.md"] = _page(
            name,
            text.cell(summary) if item else summary,
            "\n".join(f"- **Paper**: {text.cell(paper)}" for paper in papers),
            text.table(["metric", "formula", "better", "range", "meaning"], rows) if rows else "",
            body,
            _metric_use(name),
            "The symbols are explained on the page [metrics](../metrics.md).",
        )
    made["metrics/index.md"] = _page(
        "Metrics",
        "Every run computes all of them that its matrix allows; see [metrics](../metrics.md) for "
        "the symbols, and for metrics of your own.",
        text.table(["family", ""], index),
    )
    return made


def _metric_use(name: str) -> str:
    if name in ("cost", "online", "plasticity", "predictions", "continual_world"):
        return f"```bash\nclframe fit strategy=er+{name} stream=split_mnist\n```"
    if name == "continual":
        return "```bash\nclframe fit strategy=er evaluation.evaluate_every_n_steps=10\n```"
    if name == "l2":
        return "```bash\nclframe l2 RUN/log\n```"
    return "```bash\nclframe compare runs\n```"


# ------------------------------------------------------------ the other kinds


def _kind_page(catalog: Catalog, registry: Registry, kind: str) -> str:
    items = catalog.items[kind].values()
    parts = [f"Chosen with `{kind}=NAME`; `clframe list NAME` prints the same."]
    if kind in SETTINGS:
        parts = [f"Settings are `{kind}.SETTING=VALUE`; `clframe list {kind} --long` prints them."]
    if kind == "experiment":
        rows = [[text.code(item.name), text.cell(item.summary)] for item in items]
        parts = ["Protocols that are shipped: `clframe fit experiment=NAME`."]
        return _page("Experiments", *parts, text.table(["experiment", ""], rows))
    for item in items:
        body = ""
        if _plain(registry, item):
            body = _body(registry.get(cast(Kind, item.kind), item.name).factory)
        if kind == "scheduler" and item.summary.startswith("torch's"):
            body = ""
        heading = "" if kind in SETTINGS else f"## {item.name}\n\n"
        parts.append(heading + text.cell(item.summary))
        parts.append(body)
        if item.settings:
            parts.append(_settings(f"{kind}.", item.settings, {}))
    title = plural(kind).capitalize()
    return _page(title, *parts)


def _plain(registry: Registry, item: Item) -> bool:
    return item.kind not in (*SETTINGS, "experiment") and _known(registry, item)
