"""Reports of real runs in a real browser: nothing logged, nothing asked for, nothing cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe.cli.main import main
from clframe.runs.reader import read_run
from tests.helpers.browser import Tab, chromium, tab

PROGRAM = chromium()
pytestmark = [
    pytest.mark.slow,  # tests/report/test_html.py reads the same pages without a browser
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine"),
]

# What a reader with a keyboard or a screen reader, or on a phone, would stumble over.
FAULTS = """(() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) faults.push(`page is ${root.scrollWidth} wide`);
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  if (new Set(ids).size != ids.length) faults.push("an id is there twice");
  let level = 0;
  for (const e of document.querySelectorAll("h1, h2, h3")) {
    const next = Number(e.tagName[1]);
    if (next > level + 1) faults.push(`heading ${e.textContent} skips a level`);
    level = next;
  }
  for (const name of ["header", "nav", "main", "footer"])
    if (document.querySelectorAll(name).length != 1) faults.push(`not one ${name}`);
  for (const e of document.querySelectorAll("figure svg"))
    if (e.getAttribute("role") != "img" || !e.ariaLabel) faults.push("svg unnamed");
  for (const e of document.querySelectorAll("img")) if (!e.alt) faults.push("img unnamed");
  for (const e of document.querySelectorAll("th")) if (!e.scope) faults.push("th without scope");
  const scrolls = [...document.querySelectorAll("*")].filter(e =>
    ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth);
  for (const e of scrolls)
    if (e.tabIndex != 0 || !e.getAttribute("aria-label")) faults.push("a place scrolls unnamed");
  for (const e of document.querySelectorAll("p, h1, h2, h3, figcaption, dd, .card, summary"))
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 && !e.closest(".scroll"))
      faults.push(`cut: ${e.textContent.slice(0, 40)}`);
  // No text of a figure is smaller than one can read, or leaves its figure.
  for (const e of document.querySelectorAll("figure svg")) {
    const frame = e.getBoundingClientRect();
    for (const text of e.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (!box.width) continue;
      if (box.left < frame.left - 2 || box.right > frame.right + 2)
        faults.push(`${e.getAttribute("aria-label")}: ${text.textContent} leaves the figure`);
      const size = parseFloat(getComputedStyle(text).fontSize) * frame.width
        / e.viewBox.baseVal.width;
      if (size < 6.5) faults.push(`${text.textContent}: ${size} pixels`);
    }
  }
  return faults;
})()"""
# Contrast of texts against what is behind them, after WCAG 2: at least 4.5 to 1.
CONTRAST = """(() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length == 3 || c[3] == 1) return c.slice(0, 3); } return [255, 255, 255]; };
  const bad = new Set();
  for (const e of document.querySelectorAll("p, h1, h2, a, dt, dd, th, td, .note, .mark, .name,"
      + " .tip, .label, figcaption, summary, pre, code")) {
    if (!e.textContent.trim()) continue;
    const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.add(`${e.tagName}.${e.className} ${ratio}`);
  }
  return [...bad];
})()"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a comparison, of a run, of a robot and of a lifetime."""
    top = tmp_path_factory.mktemp("reports")
    quiet: dict[str, Any] = {"progress": False, "logger": None}
    stream = {"name": "split_mnist", "n_experiences": 2}
    for strategy, seed in (("ewc", 0), ("ewc", 1), ("naive", 0)):
        place = top / "sweep" / f"{strategy}{seed}"
        clframe.fit(stream, strategy, max_steps=3, seed=seed, run_dir=place, **quiet)
    robot = {"name": "point_robot", "n_tasks": 2, "num_demos": 3, "eval_episodes": 2}
    clframe.fit(
        {**robot, "horizon": 12, "num_workers": 0}, "er", max_epochs=2, videos="gif",
        check_val_every_n_epoch=1, run_dir=top / "robot", data_dir=top / "data", **quiet,
    )  # fmt: skip
    lifetime = {"name": "scenario", "base": stream, "block_length": 3, "samples_per_lx": 16}
    clframe.fit(
        lifetime, "naive", scenario="domain", batch_size=16, max_epochs=1,
        run_dir=top / "lifetime", **quiet,
    )  # fmt: skip
    pages = {
        "sweep": top / "sweep" / "report.html",
        "run": top / "sweep" / "ewc0" / "report.html",
        "robot": top / "robot" / "report.html",
        "lifetime": top / "lifetime" / "report.html",
    }
    assert main(["report", *(str(page.parent) for page in pages.values())]) == 0
    return pages


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    assert PROGRAM is not None
    with tab(PROGRAM, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize("name", ["sweep", "run", "robot", "lifetime"])
def test_a_report_opens_without_a_fault(
    name: str, reports: dict[str, Path], browser: Tab, tmp_path: Path
) -> None:
    address = reports[name].as_uri()
    for width, dark in ((1280, False), (390, True)):
        browser.logged.clear()
        browser.requests.clear()
        browser.open(address, width, dark=dark)
        assert browser.evaluate(FAULTS) == []
        assert browser.evaluate(CONTRAST) == []
        image = tmp_path / f"{name}_{width}.png"
        browser.screenshot(image)
        assert image.stat().st_size > 20_000
        assert browser.logged == []
        others = [asked for asked in browser.requests if not asked.startswith("data:")]
        assert others == [address]


def test_formulas_come_up_by_keyboard(reports: dict[str, Path], browser: Tab) -> None:
    browser.open(reports["run"].as_uri(), 390)
    shown = (
        "[...document.querySelectorAll('.tip')].filter(e => e.offsetHeight).map(e => e.innerText)"
    )
    assert browser.evaluate(shown) == []
    for _ in range(40):
        browser.press("Tab", 9)
        if browser.evaluate("document.activeElement.className") == "card":
            break
    (tip,) = browser.evaluate(shown)
    assert "gem.acc: mean over j of R[T, j]; higher is better." in tip
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    described = "document.getElementById(document.activeElement.getAttribute('aria-describedby'))"
    assert browser.evaluate(f"{described}.innerText") == tip


def test_what_the_runs_kept_is_on_their_pages(reports: dict[str, Path]) -> None:
    page = reports["run"].read_text()
    assert page.count('alt="samples of experience') == 2
    assert "95 % of 1000 samples: [0." in page, "Wilson's interval"
    assert "clframe fit stream=split_mnist stream.n_experiences=2 strategy=ewc" in page
    assert "trainer.max_steps=3 seed=0</pre>" in page
    page = reports["robot"].read_text()
    assert page.count("data:image/gif") == 2
    assert "Success curves" in page
    assert "shaded" in reports["lifetime"].read_text()
    run = read_run(reports["run"].parent)
    assert len(run.result.measured["evaluation"]["samples"]) == 2
