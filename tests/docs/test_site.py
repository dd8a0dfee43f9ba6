"""The site builds without a warning, loads nothing from a network, and has a page for each name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers.browser import chromium, tab

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs", reason="the extra docs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_complete_and_loads_nothing_from_elsewhere(site: Path) -> None:
    from clframe.config.read_overrides import catalog_of

    known = catalog_of()
    for name in known.items["strategy"]:
        assert (site / "strategies" / f"{name}.html").is_file()
    for name in known.items["metric"]:
        assert (site / "metrics" / f"{name}.html").is_file()
    written = " ".join(path.read_text() for path in (site / "streams").glob("*.html"))
    assert all(name in written for name in known.items["stream"])

    loaded = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=\"?(?:https?:)?//")
    for page in site.rglob("*.html"):
        found = loaded.search(page.read_text())
        assert found is None, f"{page.name} loads {found and found[0]}"
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(), sheet.name

    ewc = (site / "strategies" / "ewc.html").read_text()
    for part in ("Kirkpatrick", "strategy.ewc.NAME", "Strength of the penalty", "98.64", "97.25"):
        assert part in ewc, part  # paper, settings with meanings, published and own number


@pytest.mark.slow
def test_search_finds_a_page_when_the_site_is_opened_as_a_file(site: Path, tmp_path: Path) -> None:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium on this machine")
    with tab(program, tmp_path) as page:
        page.open((site / "index.html").as_uri(), 1280)
        page.evaluate("document.querySelector('[data-md-component=search-query]').focus()")
        page.wait_for("document.querySelector('iframe') !== null", 60)
        page.evaluate(
            "(query => { query.value = 'packnet';"
            " query.dispatchEvent(new KeyboardEvent('keyup', {key: 't'})); })"
            "(document.querySelector('[data-md-component=search-query]'))"
        )
        found = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
        page.wait_for(f"{found}.length > 0", 60)
        links = page.evaluate(found)
        assert any("strategies/packnet.html" in link for link in links), links
        assert all(request.startswith(("file:", "data:")) for request in page.requests)


def test_every_page_of_docs_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    yaml.safe_load(text)
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if f" {p.name}\n" not in text]
    assert not missing
