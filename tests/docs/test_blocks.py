"""Every block of Python in README and docs/ runs, page by page, one after the other.

What a page takes for granted (a folder of images, a scene, a run) is made first. Training is cut
to a few batches; nothing else differs from what is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import clframe
from clframe import api
from tests.helpers.pages import PAGES, ROOT, blocks, name_of

NOT_RUN = {
    "docs/attach.md": {
        "LightningModule": "a Trainer per experience; tests/attached/test_hosts.py",
        "sac.learn": "a minute of SAC; tests/attached/test_hosts.py",
        "train_dataset": "needs transformers",
    },
    "docs/metrics.md": {
        "metrics.l2.evaluate(": "needs the logs of a lifetime and of its experts; tests/metrics/l2",
    },
    "docs/behavior.md": {
        "print(solve(env))": "half a minute of physics; tests/streams/behavior",
    },
    "docs/tabletop.md": {'"values": [[[[null': "abbreviated"},
}
"""By page: what is in a block that is not run, and why."""


def _why_not(block: Any) -> str | None:
    reasons = NOT_RUN.get(block.page, {})
    return next((why for text, why in reasons.items() if text in block.text), None)


# ------------------------------------------------------------ what pages take for granted


def _images(folder: Path) -> None:
    generator = np.random.default_rng(0)
    for number in range(6):
        place = folder / "images" / f"class{number}"
        place.mkdir(parents=True)
        for sample in range(12):
            pixels = generator.integers(0, 60, (16, 16, 3), dtype=np.uint8)
            pixels[2 * number : 2 * number + 4] += 150
            Image.fromarray(pixels).save(place / f"{sample}.png")


def _run(folder: Path) -> None:
    run = folder / "runs" / "split_mnist" / "ewc" / "20250101-120000-s0"
    clframe.fit(
        "split_mnist", max_epochs=1, limit_train_batches=2, run_dir=run, progress=False
    )  # fmt: skip


def _arrays(folder: Path) -> None:
    for name, shape in (("images", (8, 3, 4, 4)), ("rgb", (8, 3, 4, 4)), ("depth", (8, 1, 4, 4))):
        np.save(folder / f"{name}.npy", np.zeros(shape, np.uint8))


def _scene(folder: Path) -> None:
    geoms = "".join(
        f'<geom name="{name}" type="box" size=".1 .1 .1" pos="{x} 0 .3"/>'
        for x, name in enumerate(("table", "a", "b", "c", "d"))
    )
    scene = f'<mujoco><worldbody><geom type="plane" size="2 2 .1"/>{geoms}</worldbody></mujoco>'
    (folder / "scene.xml").write_text(scene)


MADE_FIRST: dict[str, Callable[[Path], None]] = {
    "README.md": _images,
    "docs/start.md": _images,
    "docs/reports.md": _run,
    "docs/speed.md": _arrays,
    "docs/render.md": _scene,
}


def _names_known(page: str) -> dict[str, Any]:
    """Names that a page uses for things of the reader's."""
    labels = torch.zeros(8, dtype=torch.long)
    if page == "docs/speed.md":
        return {"labels": labels, "dataset": [(torch.zeros(3), 0)] * 8}
    if page == "docs/metrics.md":
        return {"c": np.random.default_rng(0).random((3, 3, 4))}
    if page == "docs/gpu.md":
        return {"MyPlugin": clframe.plugins.SI}
    if page == "docs/distributed.md":
        return {"Plugin": clframe.Plugin}
    return {"clframe": clframe}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """``clframe.fit`` as always, on a few batches."""

    def fit(*positional: Any, **values: Any) -> Any:
        values |= {"max_epochs": 1, "limit_train_batches": 3, "progress": False}
        return api.fit_config(clframe.RunConfig.of(*positional, **values))

    monkeypatch.setattr(clframe, "fit", fit, raising=False)


WITH_PYTHON = {
    name_of(path): found
    for path in PAGES
    if (found := [block for block in blocks(path) if block.language in ("python", "pycon")])
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None
) -> None:
    monkeypatch.chdir(tmp_path)
    MADE_FIRST.get(page, lambda folder: None)(tmp_path)
    names = {"__name__": "page", **_names_known(page)}
    for block in WITH_PYTHON[page]:
        if _why_not(block) is None:
            source = "from __future__ import annotations\n" + block.text
            exec(compile(source, str(block), "exec"), names)


def test_blocks_of_data_can_be_read() -> None:
    for path in PAGES:
        for block in blocks(path):
            if _why_not(block) is None and block.language == "yaml":
                assert isinstance(yaml.safe_load(block.text), dict), str(block)
            if _why_not(block) is None and block.language == "json":
                assert json.loads(block.text), str(block)


def test_what_is_not_run_is_there() -> None:
    """A reason whose block has gone is taken off the list."""
    for page, reasons in NOT_RUN.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert all(part in text for part in reasons), page


def test_every_block_has_a_language_that_is_known() -> None:
    known = {"", "bash", "python", "pycon", "yaml", "json", "toml", "text"}
    for path in PAGES:
        for block in blocks(path):
            assert block.language in known, str(block)
