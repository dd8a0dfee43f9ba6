"""How to train, to evaluate and to log are groups of their own; names are unique over them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

import clframe
from clframe import RunConfig, SettingError
from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.config.groups import SETTINGS
from clframe.config.setting_groups import GROUPS_OF_SETTINGS
from clframe.testing import toy_stream
from clframe.utils.setting_checks import defaults

QUICK = ["n_experiences=2", "max_steps=1", "hidden=[8]", "logger=none"]


def test_every_name_is_in_one_group() -> None:
    assert tuple(GROUPS_OF_SETTINGS) == SETTINGS
    names = Counter(name for group in GROUPS_OF_SETTINGS.values() for name in defaults(group))
    assert max(names.values()) == 1, names


def test_bare_and_dotted_names_are_the_same() -> None:
    bare = compose(["max_epochs=3", "evaluate_every=2", "log_every_n_steps=5", "videos=gif"])
    groups = ["trainer.max_epochs=3", "evaluation.evaluate_every=2"]
    dotted = compose([*groups, "logging.log_every_n_steps=5", "logging.videos=gif"])
    assert bare == dotted
    assert bare.evaluation == {"evaluate_every": 2}
    assert bare.logging == {"log_every_n_steps": 5, "videos": "gif"}
    called = RunConfig.of(max_epochs=3, evaluate_every=2, log_every_n_steps=5, videos="gif")
    assert (called.evaluation, called.logging) == (bare.evaluation, bare.logging)
    assert called.trainer == {"max_epochs": 3}


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("trainer.evaluate_every=2", "evaluation.evaluate_every"),
        ("trainer.sample_images=0", "logging.sample_images"),
        ("evaluation.max_epochs=2", "trainer.max_epochs"),
        ("logging.every_seconds=2", "checkpoint.every_seconds"),
    ],
)
def test_a_setting_in_the_wrong_group_is_refused_with_the_right_one(
    word: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key, _, value = word.partition("=")
    group, _, name = key.partition(".")
    sentence = f"unknown setting '{name}' for {group}; write {right}"
    assert main(["fit", word]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    with pytest.raises(SettingError, match=sentence):
        clframe.fit(**{group: {name: int(value)}})  # type: ignore[arg-type]


def test_config_yaml_has_the_groups(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["fit", *QUICK, "evaluate_every=2", "sample_images=0", f"run_dir={run}"]) == 0
    content = yaml.safe_load((run / "config.yaml").read_text())
    for group, settings in GROUPS_OF_SETTINGS.items():
        assert set(content[group]) == set(defaults(settings)), group
    assert content["evaluation"]["evaluate_every"] == 2
    assert content["logging"]["sample_images"] == 0


def test_a_config_of_an_older_version_ends_in_one_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["fit", *QUICK, f"run_dir={run}"]) == 0
    content = yaml.safe_load((run / "config.yaml").read_text())
    content["trainer"] |= content.pop("evaluation")
    content["trainer"] |= {"videos": content["logging"].pop("videos"), **content.pop("logging")}
    (run / "config.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    capfd.readouterr()
    for words in (["fit", f"resume={run}"], ["fork", str(run), "--at", "1"], ["verify", str(run)]):
        assert main(words) == 2
        said = capfd.readouterr().err
        assert said.count("clframe: ") == 1, said
        assert "was written by an older version of clframe" in " ".join(said.split())
        assert "Traceback" not in said


def test_evaluation_and_logging_reach_the_run() -> None:
    result = clframe.fit(
        toy_stream(), max_epochs=1, evaluate_tasks="learned", run_dir=False, progress=False
    )
    unknown = np.isnan(result.matrix.values)
    assert unknown[1].tolist() == [False, True, True]
    assert not unknown[-1].any()
