"""The page of a running fit in a real browser."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from clframe.cli.main import main
from clframe.watch.resolve import OneRun
from clframe.watch.server import PageServer
from tests.helpers import browser

CHROMIUM = browser.chromium()
pytestmark = [
    pytest.mark.slow,  # starts Chromium; test_watch.py covers what the server answers
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
]

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


def test_the_page_of_a_running_fit(
    fit: BaseProcess, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = tmp_path / "run"
    with browser.tab(CHROMIUM, tmp_path_factory.mktemp("browser")) as page:
        deadline = time.monotonic() + 300
        while not (run / "events.jsonl").exists():
            assert fit.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with PageServer(OneRun(run)) as server:
            port = server.port
            page.open(server.address, 1280)
            page.evaluate("window.same = true")  # lost if the page were loaded again
            page.wait_for(
                "!!document.querySelector('#matrix tbody tr:nth-child(2) td:not(.empty)')"
            )
            cell = "document.querySelector('#matrix tbody tr:nth-child(3) td').textContent"
            assert page.evaluate(cell) == "·"
            (tmp_path / "go1").touch()
            page.wait_for(f"/^[01][.]/.test({cell})")
            assert page.evaluate("window.same")
            _check(page, tmp_path)
            assert not page.logged
            asked = {url.partition("/state")[0] for url in page.requests}
            assert asked == {server.address.rstrip("/"), server.address}
        page.wait_for("!document.querySelector('#gone').hidden")
        assert _text(page, "#badge") == "server gone"
        fit.kill()  # without a chance to say anything
        fit.join()
        with PageServer(OneRun(run), port):  # it is found again, without a reload
            page.wait_for("!!document.querySelector('#badge.dead')")
            assert page.evaluate("window.same")
            assert page.evaluate("document.querySelector('#gone').hidden")
            assert "resume with clframe fit resume=" in _text(page, "#now")


def _text(page: Any, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector('{selector}').textContent"))


def _check(page: Any, folder: Path) -> None:
    """What has to hold at either width and in either scheme."""
    assert _text(page, "#badge") == "running"
    assert _text(page, "h1") == "waits on split_mnist"
    assert "measured" in _text(page, "#spoken")
    assert page.evaluate("document.querySelectorAll('#loss svg[role=img]').length") == 1
    assert page.evaluate("document.querySelectorAll('#matrix th[scope=col]').length") == 5
    for dark in (False, True):
        for width in (1280, 390):
            page.resize(width, dark=dark)
            page.wait_for(f"document.documentElement.scrollWidth <= {width}", 10)
            path = folder / f"{'dark' if dark else 'light'}-{width}.png"
            page.screenshot(path)
            assert path.stat().st_size > 10_000
