"""The settings that overrides can change, for suggestions and the Tab key."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clframe.config.groups import SETTINGS
from clframe.config.name_catalog import Catalog

_BETWEEN_NAMES = re.compile(r"[,+\[\] ]+")


def chosen_settings(catalog: Catalog, overrides: Sequence[str]) -> dict[str, list[str]]:
    """Return the settings of the names that overrides choose, or of the defaults, by place."""
    values = {key: value for key, _, value in (override.partition("=") for override in overrides)}
    settings = {group: list(catalog.items[group][group].settings) for group in SETTINGS}
    for group in catalog.groups:
        value = values.get(group, catalog.defaults.get(group, ""))
        names = [name for name in _BETWEEN_NAMES.split(value) if name]
        if group == "model" and not names:
            stream = catalog.items["stream"].get(values.get("stream", catalog.defaults["stream"]))
            names = [stream.model.get("name", "mlp") if stream is not None else "mlp"]
        for name in names:
            item = catalog.items.get(group, {}).get(name)
            if item is None:
                continue
            if group == "strategy":
                for plugin in item.plugins:
                    plugin_item = catalog.items["plugin"][plugin]
                    settings[f"strategy.{plugin}"] = list(plugin_item.settings)
            elif group == "logger":
                settings[f"logger.{name}"] = list(item.settings)
            elif item.settings:
                settings[group] = list(item.settings)
    return settings
