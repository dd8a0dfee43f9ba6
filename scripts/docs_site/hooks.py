"""What MkDocs calls while it builds the site (``hooks:`` in mkdocs.yml).

Adds the pages made from the registry, the docstrings and the README, puts them into the
navigation, and turns links to files outside of docs/ into their names: the site has no copy of
the source tree.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from mkdocs.structure.files import File, Files  # noqa: E402

from docs_site import api_pages, registry_pages  # noqa: E402

_made: dict[str, str] = {}


def home(readme: str) -> str:
    """The README as the first page: its links lead into docs/ or name a file."""
    text = re.sub(r"\]\(docs/([^)]*)\)", r"](\1)", readme)
    text = re.sub(r"\]\(results\)", "](results/README.md)", text)
    text = re.sub(r"\[([^\]]+)\]\(CONTRIBUTING\.md\)", r"[\1](contributing.md)", text)
    return re.sub(
        r"\[([^\]]+)\]\((?:CHANGELOG\.md|LICENSE|(?:clframe|examples|tests)[^)]*)\)", r"\1", text
    )


def on_config(config: Any) -> Any:
    """Make the pages and give them their places in the navigation."""
    from clframe.core.registry import discover

    _made.clear()
    _made.update(registry_pages.pages(discover()))
    _made.update(api_pages.pages())
    _made["index.md"] = home((ROOT / "README.md").read_text(encoding="utf-8"))
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _made["contributing.md"] = home(contributing)
    config["nav"] = [_filled(entry) for entry in config["nav"]]
    _add_new_pages(config["nav"], Path(config["docs_dir"]))
    return config


def _filled(entry: Any) -> Any:
    """A place of the navigation; ``streams/*`` stands for all pages that were made there."""
    if isinstance(entry, dict):
        return {title: _filled(value) for title, value in entry.items()}
    if isinstance(entry, list):
        filled = []
        for one in entry:
            value = _filled(one)
            filled += value if isinstance(value, list) and isinstance(one, str) else [value]
        return filled
    if isinstance(entry, str) and entry.endswith("/*"):
        folder = entry[:-1]
        written = (ROOT / "docs" / folder).glob("*.md")
        names = {path for path in _made if path.startswith(folder)}
        names |= {folder + path.name for path in written}
        mine = sorted(names, key=lambda path: path.removesuffix(".md"))
        first = [path for path in mine if path.endswith(("/index.md", "/README.md"))]
        return [*first, *(path for path in mine if path not in first)]
    return entry


def _add_new_pages(nav: list[Any], docs: Path) -> None:
    """Pages of docs/ that mkdocs.yml does not name follow at the end of the how-to pages."""
    named = set(_paths(nav))
    new = sorted(path.name for path in docs.glob("*.md") if path.name not in named)
    for section in nav:
        if isinstance(section, dict) and "Get started" in section:
            section["Get started"] += new


def _paths(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    values = entry.values() if isinstance(entry, dict) else entry
    return [path for value in values for path in _paths(value)]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that were made."""
    for path, content in _made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to what is not in the site become the names of the files."""
    del config
    here = Path(page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = link[2].partition("#")[0]
        if "://" in target or not target or files.get_file_from_path(_joined(here, target)):
            return link[0]
        return f"`{target.replace('../', '')}`" if link[1].strip("`") in target else link[1]

    return re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)", shown, markdown)


def _joined(here: Path, target: str) -> str:
    parts: list[str] = []
    for part in [*here.parts, *target.split("/")]:
        if part == "..":
            if not parts:
                return "outside"
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
