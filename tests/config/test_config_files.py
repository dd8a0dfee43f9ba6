"""Config files: each opens with a command that uses it; a user's own folders add more."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.config.groups import CHOSEN
from clframe.config.read_overrides import catalog_of
from clframe.config.run_config import RunConfig
from clframe.core.registry import discover
from clframe.core.stream import SCENARIOS
from clframe.errors import SettingError, UnknownNameError
from clframe.utils.config_files import built_in_configs, config_files, read_head

ROOT = built_in_configs()
FILES = sorted(ROOT.rglob("*.yaml"))
COMPOSED_ELSEWHERE = {
    *(f"scenario={scenario}" for scenario in SCENARIOS),
    *(
        f"experiment={n}"
        for n in catalog_of().groups["experiment"]
        if not n.startswith(("openloris", "pretrained/"))
    ),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_opens_with_a_command_that_uses_it(path: Path) -> None:
    command, summary = read_head(path.read_text())
    program, fit, *overrides = shlex.split(command)
    assert (program, fit) == ("clframe", "fit")
    assert summary
    group, _, name = path.relative_to(ROOT).with_suffix("").as_posix().partition("/")
    if name and not path.name.startswith("_"):
        assert f"{group}={name}" in overrides
    # tests/core/test_registry.py composes each experiment in all its scenarios, and makes it.
    if not overrides or set(overrides) - COMPOSED_ELSEWHERE:
        compose(overrides)


def test_every_group_has_a_folder() -> None:
    groups = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert groups >= set(CHOSEN)


def test_registered_models_optimizers_and_loggers_can_be_looked_at() -> None:
    registry = discover()
    for group in ("model", "optimizer", "logger"):
        own = {e.name for e in registry.entries(group) if e.origin == "clframe"}  # type: ignore[arg-type]
        assert own <= set(config_files(group))


# ---------------------------------------------------------------- folders of the user's own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "experiment/mine": "# @package _global_\n# clframe fit experiment=mine\n# My runs.\n"
        "defaults:\n  - override /stream: few\n  - override /strategy: both\nseed: 7\n"
        "trainer:\n  max_epochs: 1\n",
        "stream/few": "# Two experiences.\nname: split_mnist\nn_experiences: 2\n",
        "strategy/both": "# A penalty and a memory.\newc:\n  weight: 3.0\nreplay:\n",
        "model/tiny": "# clframe fit model=tiny\n# Few units.\nname: mlp\nhidden: [5]\n",
    }.items():
        path = tmp_path / "configs" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "configs"


def check_mine(config: RunConfig) -> None:
    assert config.stream == {"name": "split_mnist", "n_experiences": 2}
    assert config.strategy == {"ewc": {"weight": 3.0}, "replay": None}
    assert (config.strategy_name, config.seed) == ("both", 7)


def test_a_folder_adds_choices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_mine(compose([f"config_dir={folder}", "experiment=mine"]))
    check_mine(compose(["--config-dir", str(folder), "experiment=mine"]))
    with pytest.raises(UnknownNameError, match="unknown experiment 'mine'"):
        compose(["experiment=mine"])
    monkeypatch.setenv("CLFRAME_CONFIG", str(folder))
    check_mine(compose(["experiment=mine"]))
    model = compose(["experiment=mine", "model=tiny", "strategy=both+si"])
    assert model.model == {"name": "mlp", "hidden": [5]}
    assert model.strategy_name == "both+si"


def test_they_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--config-dir", str(folder)]) == 0
    text = capsys.readouterr().out
    assert f"mine My runs. [{folder / 'experiment/mine.yaml'}]" in " ".join(text.split())
    assert "  few                Two experiences." in text
    assert "  both               A penalty and a memory." in text
    assert "  tiny               Few units." in text
    assert main(["list", "experiments"]) == 0
    assert "  tabletop/goal5_er  Experience replay" in capsys.readouterr().out


def test_a_run_with_them_has_no_need_of_the_folder_later(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["experiment=mine", "run_dir=run", "logger=none", "trainer.limit_train_batches=2"]
    assert main(["fit", "--config-dir", str(folder), *words]) == 0
    content = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert content["stream"]["name"] == "split_mnist"
    assert content["strategy"]["ewc"]["weight"] == 3.0
    assert str(folder) not in (tmp_path / "run" / "config.yaml").read_text()
    assert main(["fit", "resume=run"]) == 0


@pytest.mark.usefixtures("quick_python")
def test_a_sweep_takes_the_folder_along(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["experiment=mine", "strategy=both,naive", "trainer.limit_train_batches=2"]
    words += ["logger=none", "sweep_dir=sweep"]
    assert main(["fit", "-m", "--config-dir", folder.name, *words]) == 0
    runs = sorted((tmp_path / "sweep").glob("*/results.json"))
    assert [run.parent.name for run in runs] == ["strategy-both", "strategy-naive"]


@pytest.mark.parametrize(
    ("name", "text", "overrides", "sentence"),
    [
        ("experiment/openloris/ewc", "{}", ["seed=1"], "has the name of '"),
        (
            "stream/split_mnist",
            "name: split_mnist",
            ["seed=1"],
            "the name of an existing stream",
        ),
        ("strategy/ewc", "ewc:", ["seed=1"], "has the name of a plugin: rename the file"),
        ("stream/nameless", "size: 3", ["stream=nameless"], "must say which stream it is"),
        ("strategy/odd", "ewc: 3", ["seed=1"], "'ewc' has 3"),
        ("strategy/list", "- ewc", ["seed=1"], "must hold settings as key: value"),
        ("strategy/broken", "ewc: [", ["seed=1"], "is not YAML"),
        ("stream/wrong", "name: split_mnits", ["stream=wrong"], "did you mean 'split_mnist'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    name: str, text: str, overrides: list[str], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises((SettingError, UnknownNameError), match=sentence):
        compose([f"config_dir={tmp_path}", *overrides])


def test_a_folder_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="config_dir: there is no folder 'nowhere'"):
        compose(["config_dir=nowhere"])
    with pytest.raises(SettingError, match="--config-dir needs a folder"):
        compose(["--config-dir"])
    monkeypatch.setenv("CLFRAME_CONFIG", "nowhere")
    with pytest.raises(SettingError, match=r"\$CLFRAME_CONFIG: there is no folder 'nowhere'"):
        compose([])


# ---------------------------------------------------------------- --cfg


def test_cfg_prints_what_config_yaml_would_be_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["strategy=ewc+replay", "max_epochs=1", "trainer.limit_train_batches=2", "seed=3"]
    assert main(["fit", "--cfg", *words]) == 0
    text = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert main(["fit", *words, "run_dir=run"]) == 0
    assert text == (tmp_path / "run" / "config.yaml").read_text()


def test_cfg_needs_no_data_and_says_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--cfg", "experiment=openloris/rtf", "stream=openloris_pixel"]) == 0
    content = yaml.safe_load(capsys.readouterr().out)
    assert content["stream"]["source"] == "official"
    assert content["model"]["name"] == "mlp"
    assert main(["fit", "--cfg", "optimizer.lrr=1"]) == 2
    assert "unknown setting 'lrr'" in capsys.readouterr().err
    assert main(["fit", "--cfg", "-m", "seed=0,1"]) == 2
    assert "--cfg shows a single run" in capsys.readouterr().err
