"""Every command and script of README and docs/start.md runs in the base install, without extras.

The environment ``.venv-base`` is made by ``make test``. Commands are run as they are written, with
settings appended that make them small.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers import pages
from tests.helpers.pages import ROOT

PYTHON = ROOT / ".venv-base" / "bin" / "python"
PAGES = [ROOT / "README.md", ROOT / "docs" / "start.md"]
SMALL = {
    "stream=openloris_illumination": [
        "stream.size=16", "stream.frames=2", "stream.n_instances=3", "stream.present_only=true",
    ],
    "stream=tabletop_spatial": [
        "stream.num_demos=1", "stream.eval_episodes=1", "stream.tasks=[0,1]", "stream.num_envs=1",
    ],
    "learner=sac": [
        "learner.steps=30", "learner.start_steps=10", "learner.critic_hidden=[8]",
        "stream.eval_episodes=1", "stream.horizon=5",
    ],
    "stream=folder": ["model=cnn"],
}  # fmt: skip
"""What is appended to commands that would take long, by what they contain."""
PLACEHOLDERS = {
    "RUN": "run",
    "DIR": "images",
    "plugin NAME": "plugin Mine",
    "list NAME": "list er",
    "seed=0..9": "seed=0..1",
    "seed=0..2": "seed=0..1",
}
"""What stands for the reader's own names, and fewer seeds."""


def _small(command: str) -> list[str]:
    words = shlex.split(command)[1:]
    if words[0] != "fit" or "resume=" in command:
        return words
    for part, more in SMALL.items():
        if part in command:
            words += more
    if "learner=" not in command:
        words.append("max_steps=2" if "strategy=shrink" in command else "max_steps=1")
    return words


def _jobs() -> list[tuple[str, list[str], str]]:
    """List what is run, in the order of the pages, with the page's own text as its name."""
    jobs: list[tuple[str, list[str], str]] = []
    for page in PAGES:
        for command in pages.commands(page):
            for name, own in PLACEHOLDERS.items():
                command = command.replace(name, own)
            if command in [name for _, _, name in jobs] or command.startswith("python "):
                continue  # scripts of examples/ are run by test_examples.py
            if "resume=run" in command:
                stopped = command.replace("resume=run", "resume=stopped")
                jobs.append(("clframe", shlex.split(stopped)[1:], command))
            else:
                jobs.append(("clframe", _small(command), command))
        for block in pages.blocks(page):
            if block.language == "python" and "class " not in block.text:
                text = block.text.replace("max_epochs=10", "max_epochs=1")
                name = f"{block.page}:{block.line}"
                if "stream_from" in text and "import clframe" not in text:
                    text = f"import clframe\n{text}"
                jobs.append(("python", [text], name))
    return jobs


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Run everything in one folder, as somebody who reads the pages would."""
    if not PYTHON.exists():
        pytest.skip("there is no .venv-base; make test installs it")
    place = tmp_path_factory.mktemp("first")
    noise = np.random.default_rng(0)
    for label in ("apple", "bolt", "cup", "drill", "egg", "fork"):
        (place / "images" / label).mkdir(parents=True)
        for number in range(10):
            pixels = noise.integers(0, 255, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / "images" / label / f"{number}.png")
    for block in pages.blocks(PAGES[0]):
        if "class Shrink(Plugin)" in block.text:
            (place / "shrink.py").write_text(block.text)
    jobs = _jobs()
    quick = ["strategy=ewc+replay", "max_steps=2"]
    first = ["clframe", ["fit", *quick, "run_dir=run"]]
    stopped = [
        "clframe",
        ["fit", "max_epochs=200", "checkpoint.every_n_steps=5", "run_dir=stopped"],
        "stopped/checkpoints/*.pt",
    ]
    sent = [first, stopped, *([kind, words] for kind, words, _ in jobs)]
    environment = {**os.environ, "CLFRAME_DATA": str(place / "data"), "HOME": str(place)}
    done = subprocess.run(
        [str(PYTHON), str(Path(__file__).with_name("base_commands.py"))],
        input=json.dumps(sent),
        capture_output=True,
        text=True,
        cwd=place,
        env=environment,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(sent), done.stderr
    assert lines[0][0] == 0, lines[0][1]
    assert lines[1][0] == 130, lines[1][1]
    return {name: tuple(line) for (_, _, name), line in zip(jobs, lines[2:], strict=True)}


@pytest.mark.slow(minutes=4)
@pytest.mark.parametrize("name", [name for _, _, name in _jobs()])
def test_it_runs_in_the_base_install(name: str, outcomes: dict[str, tuple[int, str]]) -> None:
    code, output = outcomes[name]
    assert code == 0, output
    assert "Traceback" not in output


def test_the_pages_have_commands() -> None:
    names = {name for _, _, name in _jobs()}
    assert {"clframe verify run", "clframe fork run --at 3 strategy=er"} <= names
    assert len(names) >= 18
