"""Odd command lines, drawn from all settings: a run or one sentence, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clframe.api import fit_config
from clframe.build import build
from clframe.config.compose import compose
from clframe.config.run_config import RunConfig
from clframe.errors import ClframeError, SettingError

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_odd_lines(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "odd_lines.py"), "--count", "30"]
    done = subprocess.run(
        [*command, "--seed", "1", "--json", str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "out.json").read_text())["counts"]
    assert set(counts) == {"ran", "refused"}
    assert sum(counts.values()) == 30
    assert counts["ran"] > 2


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("optimizer.lr=inf", "must be finite, got inf"),
        ("model.dropout=inf", "must be finite, got inf"),
        ("trainer.batch_size=100000000000000000000000", "at most 64 bits"),
        ("pretrain=[]", "pretrain must be the name of a folder, got \\[\\]"),
        ("logger.csv.flush_every_n_steps=0", "flush_every_n_steps must be at least 1, got 0"),
        ("model.dropout=1", "model.dropout must be at least 0 and below 1"),
        ("plugin_path=[null]", "plugin_path must be the names of files, got None in it"),
        ("optimizer.lr=1e308", "must be at most 3e\\+38 in size, got 1e\\+308"),
        ("run_dir={}", "run_dir must be the name of a folder"),
        ("model.hidden=[4000000000]", "model 'mlp' .* needs more memory than there is"),
        ("model.hidden=[9223372036854775807]", "model 'mlp' .* needs more memory than there is"),
    ],
)
def test_values_that_no_setting_can_have(word: str, sentence: str) -> None:
    with pytest.raises(ClframeError, match=sentence):
        build(compose([word]))


@pytest.mark.parametrize("plugin", ["generative_replay", "feedback_replay"])
def test_layers_of_a_generator_have_units_and_fit_into_memory(plugin: str, tmp_path: Path) -> None:
    words = [f"strategy={plugin}", "max_steps=1", f"run_dir={tmp_path / 'run'}"]
    with pytest.raises(SettingError, match=rf"{plugin}\.hidden must be at least 1, got -1"):
        fit_config(compose([*words, f"strategy.{plugin}.hidden=[-1]"]))
    with pytest.raises(ClframeError, match="not enough memory to begin"):
        fit_config(compose([*words, f"strategy.{plugin}.hidden=[4000000000]"]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("plugin", ["lwf", "generative_replay", "feedback_replay"])
def test_a_temperature_has_a_square(plugin: str) -> None:
    with pytest.raises(SettingError, match=rf"{plugin}\.temperature must be at most 1e\+06, got"):
        build(compose([f"strategy={plugin}", f"strategy.{plugin}.temperature=1e30"]))


def test_a_replayed_batch_that_no_memory_holds_is_named(tmp_path: Path) -> None:
    words = ["strategy=replay", "strategy.replay.batch_size=4000000000000000000", "max_steps=1"]
    with pytest.raises(ClframeError, match=r"or less than strategy\.replay\.batch_size=4000000000"):
        fit_config(compose([*words, f"run_dir={tmp_path / 'run'}"]))


def test_a_stream_has_no_billions_of_experiences(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("rotated_mnist", "permuted_mnist"):
        with pytest.raises(SettingError, match="n_experiences must be at most 10,000"):
            build(compose([f"stream={stream}", "n_experiences=4000000000"]))
    with pytest.raises(SettingError, match="pad must be between 0 and 1,000 pixels"):
        build(compose(["stream=permuted_mnist", "stream.pad=9223372036854775807"]))
    monkeypatch.setattr("clframe.streams.images.stream._MOST_PAD", 10**9)
    with pytest.raises(ClframeError, match=r"stream 'permuted_mnist' .* needs more memory than"):
        build(compose(["stream=permuted_mnist", "stream.pad=4000000"]))


@pytest.mark.parametrize("word", ["channels=[0]", "channels=[-1]", "features=-1"])
def test_a_network_has_channels_and_features(word: str) -> None:
    with pytest.raises(SettingError, match=rf"model\.{word.split('=')[0]} must be at least 1, got"):
        build(compose(["model=cnn", f"model.{word}"]))


def test_what_needs_robots_is_refused_for_images() -> None:
    with pytest.raises(SettingError, match=r"model\.head=gmm needs a stream of robot tasks"):
        build(compose(["model=policy", "model.head=gmm"]))


def test_replayed_features_that_change_are_refused_before_anything_is_learned(
    tmp_path: Path,
) -> None:
    words = ["strategy=generative_replay", "strategy.generative_replay.replay=features"]
    with pytest.raises(ClframeError, match="needs features that do not change"):
        fit_config(compose([*words, "max_steps=1", f"run_dir={tmp_path / 'run'}"]))
    assert not (tmp_path / "run").exists()


def test_a_folder_may_be_called_by_a_number() -> None:
    assert RunConfig(run_dir=1).run_dir == "1"  # type: ignore[arg-type]
