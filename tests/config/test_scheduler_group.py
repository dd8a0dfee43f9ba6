"""The config group ``scheduler``: composition, files, records, and the listing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.config.run_config import RunConfig
from clframe.core.registry import discover
from clframe.errors import SettingError, UnknownNameError

FILES = sorted((Path(__file__).parents[2] / "configs" / "scheduler").glob("*.yaml"))
REGISTRY = discover()


@pytest.mark.parametrize("name", REGISTRY.names("scheduler"))
def test_every_scheduler_composes(name: str) -> None:
    named = compose([f"scheduler={name}"]).scheduler
    assert isinstance(named, dict)
    assert named["name"] == name


def test_there_is_none_unless_one_is_named() -> None:
    assert compose([]).scheduler == {"name": "none"}
    assert RunConfig().scheduler == "none"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_shows_the_defaults_and_begins_with_its_command(file: Path) -> None:
    content = yaml.safe_load(file.read_text())
    settings = REGISTRY.settings_of("scheduler", file.stem)
    assert content == {"name": file.stem, **settings}
    first = file.read_text().splitlines()[0]
    assert first.startswith(f"# clframe fit scheduler={file.stem}")
    compose(first.removeprefix("# clframe fit ").split())


def test_settings_by_full_and_by_bare_name() -> None:
    full = compose(["scheduler=ExponentialLR", "scheduler.gamma=0.9"]).scheduler
    assert full == {"name": "ExponentialLR", "gamma": 0.9}
    bare = compose(["scheduler=cosine", "min_lr=0.1", "span=stream"]).scheduler
    assert isinstance(bare, dict)
    assert (bare["min_lr"], bare["span"]) == (0.1, "stream")
    with pytest.raises(SettingError, match=r"scheduler\.gamma or strategy\.ewc\.gamma"):
        compose(["scheduler=ExponentialLR", "strategy=ewc", "gamma=0.9"])


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown scheduler 'cosin'; did you mean 'cosine'"):
        compose(["scheduler=cosin"])


def test_composing_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    compose(["scheduler=cosine"])
    assert not [warning for warning in recwarn if "schema" in str(warning.message)]


def test_it_is_recorded_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["scheduler=step", "scheduler.gamma=0.5", "max_steps=2", "logger=none", "run_dir=run"]
    assert main(["fit", *words]) == 0
    record = yaml.safe_load(Path("run/config.yaml").read_text())["scheduler"]
    assert record == {**REGISTRY.settings_of("scheduler", "step"), "name": "step", "gamma": 0.5}
    assert RunConfig.from_folder("run").scheduler == record
    assert compose(["resume=run", "scheduler.gamma=0.2"]).scheduler == {**record, "gamma": 0.2}
    assert compose(["resume=run", "scheduler=none"]).scheduler == {"name": "none"}


def test_a_sweep_over_schedulers_checks_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-m", "scheduler=cosine,StepLR"]) == 2
    assert "scheduler 'StepLR' needs a value for 'step_size'" in capsys.readouterr().err


def test_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "schedulers"]) == 0
    shown = capsys.readouterr().out
    for name in REGISTRY.names("scheduler"):
        assert f"  {name} " in shown
    assert main(["list", "optimizers"]) == 0
    assert "cosine" not in capsys.readouterr().out
