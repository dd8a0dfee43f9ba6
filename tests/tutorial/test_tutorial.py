"""In a clean environment: the README's plugin in a run, a report and W&B; a package by its name.

The environment has clframe from a wheel and nothing of this tree; the packages that clframe needs
are those of the environment that runs the tests, so that nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.wandb_runs import records

ROOT = Path(__file__).parents[2]
# Builds wheels and an environment; tests/docs and tests/cli/test_new.py have the parts in process.
pytestmark = pytest.mark.slow(minutes=1)


@dataclass(frozen=True)
class Clean:
    """An environment in which a reader of the README types.

    Args:
        folder: Of the environment.
        home: Where commands run, without anybody's settings.
    """

    folder: Path
    home: Path

    def shell(self, line: str, **variables: str) -> str:
        """Run a line as a shell does, and return what it prints."""
        kept = {k: os.environ[k] for k in ("LANG", "TMPDIR") if k in os.environ}
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.home,
            env={
                **kept,
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self.home),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                **variables,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def build_and_install(self, source: Path) -> None:
        """Build the wheel of a project and install it."""
        wheels = self.home.parent / f"wheels-{source.name}"
        build = (
            "import sys, setuptools.build_meta as backend; print(backend.build_wheel(sys.argv[1]))"
        )
        self.shell(
            f"mkdir {shlex.quote(str(wheels))} && cd {shlex.quote(str(source))} && "
            f"python -c {shlex.quote(build)} {shlex.quote(str(wheels))}"
        )
        (wheel,) = wheels.glob("*.whl")
        self.shell(
            "python -m pip install --no-deps --no-index --no-compile --quiet "
            f"--disable-pip-version-check --root-user-action=ignore {shlex.quote(str(wheel))}"
        )


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Clean:
    folder = tmp_path_factory.mktemp("clean")
    environment, source, home = folder / "env", folder / "clframe", folder / "home"
    home.mkdir()
    venv.create(environment, with_pip=False, symlinks=True)
    (own,) = (environment / "lib").glob("python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    # A path in a .pth file is searched, but what is installed there as editable is not found.
    (own / "others.pth").write_text("\n".join(others) + "\n")
    source.mkdir()
    for name in ("clframe", "configs", "plugins_contrib"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    made = Clean(environment, home)
    made.build_and_install(source)
    place = made.shell("python -c 'import clframe; print(clframe.__file__)'").strip()
    assert Path(place).is_relative_to(own)
    return made


def test_the_plugin_of_the_readme_gets_into_a_run_a_report_and_wandb(clean: Clean) -> None:
    text = (ROOT / "README.md").read_text()
    section = re.split(r"^## ", text.partition("\n## Write a plugin\n")[2], flags=re.M)[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.S | re.M)
    lines = re.findall(r"^clframe fit plugin_path=.*", section, re.M)
    assert lines
    (file,) = {re.findall(r"plugin_path=(\S+)", line)[0] for line in lines}
    (name,) = {re.findall(r"strategy=(\w+)", line)[0] for line in lines}
    (clean.home / file).write_text(code)

    output = clean.shell(lines[0])
    (run,) = clean.home.glob("runs/*/*/*/results.json")
    result = json.loads(run.read_text())
    assert result["strategy"] == name
    assert f"{name} on {result['stream']}" in output
    given = dict(re.findall(rf"strategy\.{name}\.(\w+)=(\S+)", lines[0]))
    for setting, value in given.items():
        assert re.search(rf"\b{setting}: {value}$", (run.parent / "config.yaml").read_text(), re.M)

    line = f"{lines[-1]} logger=wandb max_epochs=1 run_dir=logged"
    clean.shell(line, WANDB_MODE="offline")
    (logged,) = (clean.home / "logged").glob("wandb/offline-run-*/*.wandb")
    kinds = [record.WhichOneof("record_type") for record in records(logged)]
    assert kinds.count("history") >= 5
    assert "exit" in kinds
    composed = json.loads((clean.home / "logged" / "results.json").read_text())
    assert composed["strategy"].startswith(name)

    clean.shell(f"clframe report {run.parent} logged --out both.html")
    page = (clean.home / "both.html").read_text()
    assert name in page
    assert composed["strategy"] in page


def test_a_package_is_made_built_installed_and_used_by_name(clean: Clean) -> None:
    assert "clframe-my-own/" in clean.shell("clframe new package my_own")
    clean.build_and_install(clean.home / "clframe-my-own")
    line = "clframe fit strategy=my_own+replay strategy.my_own.weight=0.01"
    clean.shell(f"{line} max_epochs=1 run_dir=packaged")
    content = (clean.home / "packaged" / "config.yaml").read_text()
    assert re.search(r"\bweight: 0.01$", content, re.M)
    assert json.loads((clean.home / "packaged" / "results.json").read_text())["strategy"] == (
        "my_own+replay"
    )
