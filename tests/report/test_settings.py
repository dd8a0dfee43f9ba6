from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clframe.errors import RunFolderError
from clframe.report.run_settings import complete_command, differing, setting
from clframe.runs.reader import read_run
from clframe.utils.hydra_quote import override_value

MakeRun = Callable[..., Path]


def _command(folder: Path, config: Any) -> list[str]:
    (folder / "config.yaml").write_text(config if isinstance(config, str) else yaml.dump(config))
    return shlex.split(complete_command(read_run(folder)))


def test_command_chooses_groups_and_sets_the_rest(make_run: MakeRun) -> None:
    config = {
        "stream": {"name": "split_mnist", "parts": 5},
        "model": {"name": "mlp", "hidden": [400, 400]},
        "strategy": {"ewc": {"importance": 10.0}, "replay": None},
        "scenario": "class",
        "seed": 3,
        "run_dir": "runs/x",
        "data_dir": None,
        "plugin_path": None,
        "strategy_name": "ewc+replay",
        "logger": {"csv": {}},
        "trainer": {"max_steps": None},
        "note": "it's $HOME; rm",
    }
    words = _command(make_run(strategy="ewc+replay", seed=3), config)
    assert words[:2] == ["clframe", "fit"]
    assert sorted(words[2:]) == sorted(
        [
            "stream=split_mnist",
            "stream.parts=5",
            "model=mlp",
            "model.hidden=[400,400]",
            "strategy=[ewc,replay]",
            "strategy.ewc.importance=10.0",
            "logger=csv",
            "trainer.max_steps=null",
            "scenario=class",
            "seed=3",
            r"note='it\'s $HOME; rm'",
        ]
    )


def test_command_of_an_empty_strategy_and_of_a_missing_config(make_run: MakeRun) -> None:
    folder = make_run()
    assert _command(folder, {"strategy": {}, "seed": 0}) == [
        *("clframe", "fit", "strategy=naive", "seed=0"),
    ]
    (folder / "config.yaml").unlink()
    assert complete_command(read_run(folder)) == (
        "clframe fit stream=split_mnist scenario=class strategy=naive seed=0"
    )


def test_overrides_are_read_back_by_hydra() -> None:
    parser = pytest.importorskip("hydra.core.override_parser.overrides_parser")
    values = [
        *(None, True, 0, -1.5, 1e-05, "mlp", "a b", "it's", "a,b", "null", "1e3", "", "x=y", "\\"),
        *([1, "two", [3.0]], {"k": "v w"}, "50%", "a\\", "C:\\x", "${seed}", "tab\t!"),
    ]
    for value in values:
        override = parser.OverridesParser.create().parse_override(f"key={override_value(value)}")
        assert override.value() == value, value


@pytest.mark.parametrize(
    ("config", "expected"), [("a: [1", "not valid YAML"), ("- 1\n- 2\n", "must be a mapping")]
)
def test_unreadable_config_is_one_sentence(make_run: MakeRun, config: str, expected: str) -> None:
    folder = make_run()
    (folder / "config.yaml").write_text(config)
    with pytest.raises(RunFolderError, match=expected) as caught:
        _ = read_run(folder).settings
    assert "\n" not in str(caught.value)
    assert str(folder / "config.yaml") in str(caught.value)


def test_differing_settings_are_named(make_run: MakeRun) -> None:
    folders = [make_run(seed=seed) for seed in range(2)]
    runs = [read_run(folder) for folder in folders]
    assert differing(runs) == []
    path = folders[1] / "config.yaml"
    path.write_text(path.read_text().replace("max_epochs: 2", "max_epochs: 9"))
    runs = [read_run(folder) for folder in folders]
    assert differing(runs) == ["trainer.max_epochs"]
    assert setting(runs[1], "trainer.max_epochs") == "9"
    assert setting(runs[1], "trainer.precision") == "unset"
