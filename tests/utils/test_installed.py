"""Entry points are read once, and again when a package has come or gone."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

import pytest

from clframe.utils import entry_points
from clframe.utils.entry_points import entry_points_of


def install(folder: Path, name: str) -> Path:
    """What pip leaves of a package with an entry point."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[clframe.testing]\n{name} = {name}:main\n")
    return info


def names() -> list[str]:
    return [point.name for point in entry_points_of("clframe.testing")]


def test_a_package_that_comes_or_goes_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names() == []
    monkeypatch.syspath_prepend(tmp_path)
    last = install(tmp_path, "tuna")
    assert names() == ["tuna"]
    install(tmp_path, "eel")
    assert names() == ["eel", "tuna"]
    shutil.rmtree(last)
    assert names() == ["eel"]


def test_they_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def counted(**given: Any) -> Any:
        reads.append(given["group"])
        return importlib.metadata.entry_points(**given)

    monkeypatch.setattr(entry_points, "entry_points", counted)
    first = entry_points_of("clframe.testing.once")
    first.append(importlib.metadata.EntryPoint("mine", "mine:main", "clframe.testing.once"))
    assert entry_points_of("clframe.testing.once") == []
    assert reads == ["clframe.testing.once"]
