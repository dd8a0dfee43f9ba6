"""Every public name has a docstring with an example; the suite runs these as doctests."""

from __future__ import annotations

import inspect
import sys
import typing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from docs_site import api_pages, public  # noqa: E402

NAMES = [
    (module, name)
    for module in public.MODULES
    for name, value in public.names(module).items()
    if typing.get_origin(value) is None  # an alias of a type has no docstring
]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_has_an_example(module: str, name: str) -> None:
    value = public.names(module)[name]
    doc = public.documented(value)
    assert doc, f"{module}.{name} has no docstring"
    assert ">>>" in doc, f"{module}.{name} has no example"
    assert inspect.cleandoc(doc).splitlines()[0].strip(), f"{module}.{name}"


def test_the_api_pages_have_every_name() -> None:
    pages = api_pages.pages()
    for module, name in NAMES:
        assert f"\n## {name}\n" in pages[f"api/{module}.md"]
