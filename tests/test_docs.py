"""Documentation that cannot rot: hooks, README commands and code blocks are checked."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import clframe
from clframe.hookspecs import HOOKS, HookSpecs

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_with_its_arguments(hook: str) -> None:
    text = (ROOT / "docs" / "hooks.md").read_text()
    arguments = ", ".join(
        n for n in inspect.signature(getattr(HookSpecs, hook)).parameters if n != "self"
    )
    assert f"### `{hook}({arguments})`" in text
    assert inspect.getdoc(getattr(HookSpecs, hook))


def test_no_hook_is_documented_that_does_not_exist() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text()
    assert set(re.findall(r"^### `(\w+)\(", text, re.M)) == set(HOOKS)


def test_the_plugin_of_the_readme_works(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "class " in b)
    assert len([line for line in block.splitlines() if line.strip()]) <= 16
    file = tmp_path / "shrink.py"
    file.write_text(block)
    short = {"max_epochs": 1, "run_dir": False, "progress": False}
    result = clframe.fit("split_mnist", "shrink", plugin_path=file, **short)
    plain = clframe.fit("split_mnist", **short)
    assert (result.matrix.values != plain.matrix.values).any()


def test_the_readme_is_one_screen_with_an_image() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 85
    (image,) = re.findall(r"!\[.+\]\((.+)\)", text)
    assert (ROOT / image).stat().st_size > 10_000
    for link in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / link).exists(), link


def test_the_makefile_has_the_two_commands() -> None:
    text = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text()
    for target in ("demo", "test"):
        assert re.search(rf"^{target}:", text, re.M)
        assert f"make {target}" in readme


def test_the_architecture_page_describes_what_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    answers = re.findall(r"^\| .+\? \| `(.+?)` \| (\S+) \|$", page, re.M)
    assert len(answers) >= 40
    for word, path in answers:
        assert word in (ROOT / path).read_text(), f"'{word}' is not in {path}"
    glossary = page.partition("## Words")[2].partition("## ")[0]
    assert len(re.findall(r"^\| ", glossary, re.M)) <= 25 + 2  # and its heading


def test_the_architecture_page_names_every_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    script = importlib.import_module("make_architecture_tree")
    assert script.page() == script.PAGE.read_text(), "run python scripts/make_architecture_tree.py"


def test_the_citation_has_what_a_citation_needs() -> None:
    content = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(content)
    assert content["cff-version"] == "1.2.0"
    assert content["version"] == clframe.__version__
    assert all({"name"} <= set(a) or {"family-names"} <= set(a) for a in content["authors"])


def test_the_lock_is_of_the_public_registry_and_has_what_is_asked_for() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    packages = {package["name"]: package for package in lock["package"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [re.split(r"[\[<>=!~ ]", name)[0] for name in project["dependencies"]]
    assert {name.lower() for name in asked} <= set(packages)
    assert set(project["optional-dependencies"]) == set(
        packages["clframe"]["optional-dependencies"]
    )
    sources = {package["source"].get("registry") for package in lock["package"]} - {None}
    assert sources == {"https://pypi.org/simple"}


def test_the_image_installs_what_the_package_needs() -> None:
    text = (ROOT / "Dockerfile").read_text()
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    for folder in {home.split("/")[0] for home in folders["package-dir"].values()}:
        assert f"COPY {folder} {folder}" in text
    assert text.index("USER user") < text.index("ENTRYPOINT")
    assert 'CMD ["doctor"]' in text
