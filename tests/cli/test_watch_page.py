"""The page of a running fit in a real browser."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from clframe.cli.main import main
from clframe.watch.place import OneRun
from clframe.watch.server import PageServer

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")

# Waits before the second experience, so that the page is there when its row comes.
WAITS = """
import time
from pathlib import Path

from clframe import Plugin, hookimpl


class Waits(Plugin):
    '''Waits for a file.'''

    @hookimpl
    def before_experience(self, experience):
        while experience.index and not Path(f"go{experience.index}").exists():
            time.sleep(0.02)
"""
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


def learn(folder: Path) -> None:
    """What the process that is watched does."""
    os.chdir(folder)
    words = ["stream=split_mnist", "strategy=waits", "plugin_path=waits.py", "model.hidden=[8]"]
    words += ["max_epochs=2", "logger=none", "progress=false", "run_dir=run", "scenario=task"]
    os._exit(main(["fit", *words]))


@pytest.fixture
def fit(tmp_path: Path) -> Iterator[BaseProcess]:
    """A process of its own, forked so that it need not import torch again."""
    (tmp_path / "waits.py").write_text(WAITS)
    process = multiprocessing.get_context("fork").Process(target=learn, args=(tmp_path,))
    process.start()
    yield process
    process.kill()
    process.join()


def test_the_page_of_a_running_fit(fit: BaseProcess, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(300_000)
        errors: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: errors.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        deadline = time.monotonic() + 300
        while not (run / "events.jsonl").exists():
            assert fit.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with PageServer(OneRun(run)) as server:
            port = server.port
            page.goto(server.address)
            page.evaluate("window.same = true")  # lost if the page were loaded again
            cell = page.locator("#matrix tbody tr:nth-child(3) td:nth-of-type(1)")
            page.wait_for_selector("#matrix tbody tr:nth-child(2) td:not(.empty)")
            assert cell.text_content() == "·"
            (tmp_path / "go1").touch()
            page.wait_for_function(
                "() => /^[01][.]/.test(document.querySelector("
                "'#matrix tbody tr:nth-child(3) td').textContent)"
            )
            assert page.evaluate("window.same")
            _check(page, tmp_path)
            assert not errors
            assert {url.partition("/state")[0] for url in asked} == {
                server.address.rstrip("/"),
                server.address,
            }
        page.wait_for_selector("#gone:not([hidden])")
        assert page.locator("#badge").text_content() == "server gone"
        fit.kill()  # without a chance to say anything
        fit.join()
        with PageServer(OneRun(run), port):  # it is found again, without a reload
            page.wait_for_selector("#badge.dead")
            assert page.evaluate("window.same")
            assert page.locator("#gone").is_hidden()
            assert "resume with clframe fit resume=" in str(page.locator("#now").text_content())
        browser.close()


def _check(page: Any, folder: Path) -> None:
    """What has to hold at either width and in either scheme."""
    assert page.locator("#badge").text_content() == "running"
    assert page.locator("h1").text_content() == "waits on split_mnist"
    assert "exp0 measured, mean accuracy" in page.locator("#spoken").text_content() or (
        "exp1 measured" in page.locator("#spoken").text_content()
    )
    assert page.locator("#loss svg[role=img]").count() == 1
    assert page.locator("#matrix th[scope=col]").count() == 5
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(100)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.screenshot(path=folder / f"{scheme}-{width}.png", full_page=True)
            assert (folder / f"{scheme}-{width}.png").stat().st_size > 10_000
