"""Documentation that cannot rot: hooks, README commands and code blocks are checked."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from PIL import Image

import clframe
from clframe.cli.main import main
from clframe.core.results import Result
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
    result = clframe.fit(
        "split_mnist",
        "shrink",
        plugin_path=file,
        max_epochs=1,
        run_dir=False,
        progress=False,
    )
    plain = clframe.fit("split_mnist", max_epochs=1, run_dir=False, progress=False)
    assert (result.matrix.values != plain.matrix.values).any()


def test_the_python_example_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "clframe.fit" in b)
    exec(compile(block, "README.md", "exec"), {})


def test_a_folder_of_pictures_becomes_a_matrix_as_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    for number in range(6):
        folder = tmp_path / "pictures" / f"class{number}"
        folder.mkdir(parents=True)
        for sample in range(12):
            pixels = torch.randint(0, 60, (16, 16, 3), generator=generator)
            pixels[2 * number : 2 * number + 4] += 150
            image = Image.fromarray(pixels.to(torch.uint8).numpy())
            image.save(folder / f"{sample}.png")
    text = (ROOT / "README.md").read_text()
    command = "clframe fit stream=folder stream.path=DIR strategy=er"
    assert f"`{command}`" in text
    words = command.replace("DIR", "pictures").split()[1:]
    assert main([*words, "run_dir=run", "max_epochs=1"]) == 0
    assert len(Result.load(tmp_path / "run").matrix.columns) == 5
    (block,) = re.findall(r"^```\n(dataset = .*\nstream = .*\nresult = .*\n)```", text, re.M)
    names: dict[str, Any] = {"clframe": clframe, "torchvision": torchvision}
    exec(compile(block.replace("max_epochs=10", "max_epochs=2"), "README.md", "exec"), names)
    assert names["result"].matrix.columns == ["class0-class1", "class2-class3", "class4-class5"]


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
    tree = page.partition("## The tree")[2].partition("## ")[0]
    for folder in (path.name for path in (ROOT / "clframe").iterdir() if path.is_dir()):
        assert f"{folder}/" in tree or folder == "__pycache__", f"{folder}/ is not in the tree"
