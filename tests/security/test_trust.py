"""Code that comes with a run is executed only if the user has named or confirmed it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import clframe
from clframe.cli.main import main
from clframe.utils.trust import confirm, list_path, trusted

PLUGIN = """
import os
if "MARK" in os.environ:
    os.makedirs(os.environ["MARK"], exist_ok=True)
import clframe

class Mine(clframe.Plugin):
    name = "mine"
"""
SHORT = ["max_epochs=1", "limit_train_batches=1", "logger=none", "checkpoint.every_experience=true"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's list of confirmed code, empty; what runs leaves a mark."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    (tmp_path / "work").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.fixture
def run(home: Path) -> Path:
    """A run of the user's own with a plugin file."""
    Path("my.py").write_text(PLUGIN)
    words = ["fit", "plugin_path=my.py", "strategy=mine", "run_dir=run", *SHORT]
    assert main(words) == 0
    return Path("run").resolve()


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def forget(home: Path, marked: Path) -> None:
    """As on the machine of somebody else."""
    shutil.rmtree(home)
    shutil.rmtree(marked, ignore_errors=True)


def commands(run: Path, out: Path) -> list[list[str]]:
    return [
        ["eval", str(run)],
        ["verify", str(run)],
        ["fork", str(run), "--at", "2", f"run_dir={out / 'child'}"],
        ["fit", f"resume={run}"],
    ]


def test_a_run_keeps_its_plugin_files_and_works_from_anywhere(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["plugin_path"] == ["my.py"]
    assert (run / config["plugin_files"][0]["file"]).read_text() == PLUGIN
    assert "plugins/my.py" in (run / "SHA256SUMS").read_text()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path(tmp_path / "work" / "my.py").unlink()
    for command in commands(run, tmp_path):
        assert main(command) == 0, command
    child = yaml.safe_load((tmp_path / "child" / "config.yaml").read_text())
    assert child["plugin_path"] == ["my.py"]
    assert child["fork"]["changed"] == []
    assert (tmp_path / "child" / "plugins" / "my.py").read_text() == PLUGIN
    assert main(["bundle", str(run), "--out", str(tmp_path / "run.zip")]) == 0
    assert main(["verify", str(tmp_path / "run.zip")]) == 0
    assert clframe.load(run) is not None


def test_code_of_a_run_of_somebody_else_is_not_executed(
    run: Path, home: Path, marked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bundle", str(run), "--out", str(tmp_path / "run.zip")]) == 0
    (tmp_path / "work" / "my.py").unlink()
    forget(home, marked)
    capsys.readouterr()
    for command in [*commands(run, tmp_path), ["verify", str(tmp_path / "run.zip")]]:
        assert main(command) == 2, command
        said = capsys.readouterr().err
        name = str(tmp_path / "run.zip") if "run.zip" in command[-1] else str(run)
        assert "plugins/my.py" in said
        assert f"clframe trust {name}" in said
        assert "plugin_path=FILE" in said
    for command in (["report", str(run)], ["compare", str(run)], ["watch", str(run), "--once"]):
        assert main(command) == 0, command
    with pytest.raises(clframe.ClframeError, match="clframe trust"):
        clframe.load(run)
    assert not marked.exists()


def test_plugin_path_on_the_command_line_stands_for_the_file_of_a_run(
    run: Path, home: Path, marked: Path, tmp_path: Path
) -> None:
    (tmp_path / "work" / "my.py").rename(tmp_path / "mine.py")
    forget(home, marked)
    named = f"plugin_path={tmp_path / 'mine.py'}"
    for command in commands(run, tmp_path)[:3]:
        assert main([*command, named]) == 0, command
    assert marked.exists()
    assert clframe.load(run, plugin_path=tmp_path / "mine.py") is not None


def test_trust_shows_the_code_and_confirms_it(
    run: Path, home: Path, marked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget(home, marked)
    capsys.readouterr()
    assert main(["trust", str(run)]) == 2  # there is nobody to ask
    assert "--yes" in capsys.readouterr().err
    assert main(["trust", str(run), "--yes"]) == 0
    said = capsys.readouterr().out
    sha256 = yaml.safe_load((run / "config.yaml").read_text())["plugin_files"][0]["sha256"]
    assert sha256 in said
    assert f"{len(PLUGIN)} bytes" in said
    assert not marked.exists()
    assert main(["eval", str(run)]) == 0
    assert main(["trust", str(run)]) == 0
    assert "nothing to confirm" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("no", 1)])
def test_trust_asks_on_a_terminal(
    answer: str, code: int, run: Path, home: Path, marked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(home, marked)
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert main(["trust", str(run)]) == code
    os.close(ours)
    assert bool(trusted().files) is (code == 0)
    assert not marked.exists()


def test_a_changed_copy_is_not_executed(
    run: Path, marked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work" / "my.py").unlink()
    marked.rmdir()
    with (run / "plugins" / "my.py").open("a") as file:
        file.write("\n# changed\n")
    assert main(["eval", str(run)]) == 2
    assert "is not what the run wrote" in capsys.readouterr().err
    # Also not if config.yaml goes along with it.
    import hashlib

    text = (run / "config.yaml").read_text()
    new = hashlib.sha256((run / "plugins" / "my.py").read_bytes()).hexdigest()
    old = yaml.safe_load(text)["plugin_files"][0]["sha256"]
    (run / "config.yaml").write_text(text.replace(old, new))
    assert main(["eval", str(run)]) == 2
    assert "clframe trust" in capsys.readouterr().err
    assert not marked.exists()


def test_a_compiled_file_next_to_a_copy_is_not_executed(
    run: Path, tmp_path: Path, marked: Path
) -> None:
    import importlib.util
    import py_compile

    source, copy = tmp_path / "work" / "my.py", run / "plugins" / "my.py"
    evil = tmp_path / "evil.py"
    evil.write_text(f"import os\nos.mkdir({str(tmp_path / 'bomb')!r})\n{PLUGIN}")
    stamp = copy.stat()
    compiled = Path(importlib.util.cache_from_source(str(copy)))
    compiled.parent.mkdir()
    py_compile.compile(str(evil), str(compiled))
    content = bytearray(compiled.read_bytes())
    content[8:16] = int(stamp.st_mtime).to_bytes(4, "little") + stamp.st_size.to_bytes(4, "little")
    compiled.write_bytes(content)
    source.unlink()
    assert main(["eval", str(run)]) == 0
    assert not (tmp_path / "bomb").exists()


def test_a_resumed_run_continues_with_its_own_copy_and_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work" / "my.py").write_text(PLUGIN + "\n# edited\n")
    capsys.readouterr()
    assert main(["fit", f"resume={run}"]) == 0
    said = capsys.readouterr().err
    assert "'my.py' has changed since the run began" in said
    assert main(["fit", f"resume={run}", "plugin_path=my.py"]) == 2
    assert "resume.allow=[plugins]" in capsys.readouterr().err


def test_a_python_call_confirms_its_plugin_file(home: Path) -> None:
    Path("my.py").write_text(PLUGIN)
    settings = {"max_epochs": 1, "limit_train_batches": 1, "progress": False}
    clframe.fit("split_mnist", "mine", plugin_path="my.py", run_dir="run", **settings)
    assert len(trusted().files) == 1
    assert list_path().stat().st_mode & 0o777 == 0o600
    os.chdir("..")
    assert clframe.load("work/run") is not None


def test_files_of_one_name_are_both_kept(home: Path) -> None:
    for folder, name in (("a", "one"), ("b", "two")):
        Path(folder).mkdir()
        text = PLUGIN.replace("Mine", name.title()).replace('"mine"', f'"{name}"')
        Path(folder, "my.py").write_text(text)
    words = ["plugin_path=[a/my.py,b/my.py]", "strategy=[one,two]", "run_dir=run", *SHORT]
    assert main(["fit", *words]) == 0
    shutil.rmtree("a")
    shutil.rmtree("b")
    assert main(["eval", "run"]) == 0


def test_a_list_that_cannot_be_written_does_not_stop_a_run(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.write_text("in the way")
    Path("my.py").write_text(PLUGIN)
    words = ["fit", "plugin_path=my.py", "strategy=mine", "run_dir=run", *SHORT]
    assert main(words) == 0
    assert "the list of confirmed code cannot be written" in capsys.readouterr().err


def test_the_list_survives_a_torn_line_and_writers_at_the_same_time(home: Path) -> None:
    confirm({"a" * 64: "one.py"})
    with list_path().open("a") as file:
        file.write('{"sha256": "bb')
    confirm({"c" * 64: "two.py"}, ["json"], ["logs"])
    assert trusted().files == {"a" * 64, "c" * 64}
    assert trusted().has_module("json")
    assert not trusted().has_module("yaml")
    assert trusted().places == {"logs"}


EVIL = "import os\nos.makedirs(os.environ['MARK'], exist_ok=True)\n"


def received(run: Path, **changes: object) -> None:
    """Change the config of a run as somebody else could."""
    content = yaml.safe_load((run / "config.yaml").read_text())
    for name, value in changes.items():
        content[name] = value
    (run / "config.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (run / "SHA256SUMS").unlink(missing_ok=True)


def test_a_module_that_a_run_names_is_not_imported(
    home: Path,
    marked: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fit", "run_dir=run", *SHORT]) == 0
    received(Path("run"), stream={"name": "gym", "envs": ["evilmod:Env"]})
    for place in ("run", "."):
        Path(place, "evilmod.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    for command in commands(Path("run"), tmp_path):
        assert main(command) == 2, command
        assert "names the module 'evilmod'" in capsys.readouterr().err
    received(
        Path("run"),
        stream={"name": "split_mnist"},
        logger={"lightning": {"class_path": "evilmod.Logger"}},
    )
    assert main(["fit", "resume=run"]) == 2
    assert "names the module 'evilmod'" in capsys.readouterr().err
    assert not marked.exists()


def test_python_m_clframe_does_not_import_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evilmod.py").write_text(EVIL)
    code = "import sys; sys.argv = ['clframe', '--version']; import runpy; "
    code += "import contextlib\nwith contextlib.suppress(SystemExit):\n"
    code += "    runpy.run_module('clframe', run_name='__main__')\n"
    code += "import importlib.util; assert importlib.util.find_spec('evilmod') is None"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_logger_of_a_run_does_not_write_outside_of_it(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["logger=lightning.pytorch.loggers.CSVLogger", "logger.lightning.save_dir=own"]
    assert main(["fit", "run_dir=run", *SHORT[:2], *words]) == 0
    assert main(["fit", "resume=run"]) == 0  # the user's own
    shutil.rmtree(home)
    shutil.rmtree("own")
    assert main(["fit", "resume=run"]) == 2
    said = capsys.readouterr().err
    assert "writes to 'own', outside of the run folder" in said
    assert not Path("own").exists()
    assert main(["trust", "run", "--yes"]) == 0
    assert main(["fit", "resume=run"]) == 0
    entries = [json.loads(line) for line in list_path().read_text().splitlines()]
    assert {"place": "own"} in entries
