"""Hydra's grammar on the command line: what works, and one sentence for what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clframe import fit
from clframe.config.compose import compose
from clframe.errors import ClframeError, SettingError
from clframe.sweep.expand import expand, expand_ranges


def strategy(*overrides: str) -> Any:
    return compose(overrides).strategy


def test_names_joined_by_plus_are_a_list() -> None:
    assert compose(["strategy=ewc+replay"]) == compose(["strategy=[ewc,replay]"])
    assert compose(["strategy=ewc+replay"]).strategy_name == "ewc+replay"
    with pytest.raises(ClframeError, match="unknown strategy 'repla'"):
        compose(["strategy=ewc+repla"])


def test_names_joined_by_plus_work_in_python() -> None:
    result = fit("split_mnist", "ewc+replay", limit_train_batches=1, max_epochs=1, run_dir=False)
    assert result.strategy == "ewc+replay"


def test_plus_signs_before_a_key_change_nothing() -> None:
    plain = compose(["optimizer.lr=0.1", "trainer.max_epochs=2"])
    assert compose(["+optimizer.lr=0.1", "++trainer.max_epochs=2"]) == plain
    assert compose(["+lr=0.1", "++max_epochs=2"]) == plain
    assert compose(["+experiment=tabletop/goal5_er"]) == compose(["experiment=tabletop/goal5_er"])


EXPERIMENT = ("experiment=three_scenarios/ewc", "scenario=task")


def test_tilde_takes_out_what_an_experiment_sets() -> None:
    out = ["~optimizer.lr", "~trainer.max_steps", "~strategy.ewc.fisher"]
    config: Any = compose([*EXPERIMENT, *out])
    assert "lr" not in config.optimizer
    assert "max_steps" not in config.trainer
    assert config.strategy == {"ewc": {"weight": 1e7}}
    config = compose([*EXPERIMENT, "~lr", "~class_order", "~n_experiences=5"])
    assert "lr" not in config.optimizer
    assert config.stream == {"name": "split_mnist"}
    config = compose(["experiment=three_scenarios/icarl", "max_epochs=3", "~max_epochs"])
    assert config.trainer["max_epochs"] is None  # the experiment's own


def test_tilde_takes_out_a_plugin_and_a_choice() -> None:
    config: Any = compose(["strategy=ewc+replay", "~strategy.ewc"])
    assert (config.strategy, config.strategy_name) == ({"replay": {}}, "replay")
    assert compose(["~logger"]).logger == {}
    assert compose(["logger=null"]).logger == {}
    assert strategy("strategy=null") == {}
    assert compose(["experiment=tabletop/goal5_er", "~strategy"]).strategy == {}
    assert compose(["seed=4", "~seed"]).seed == 0


def test_interpolations_are_resolved() -> None:
    config: Any = compose(["max_epochs=3", "model.hidden=[${trainer.max_epochs},7]", "seed=5"])
    assert config.model["hidden"] == [3, 7]
    # A setting that is not given has its default.
    config = compose(["batch_size=${evaluation.eval_batch_size}", "run_dir=runs/${stream.name}"])
    assert config.trainer["batch_size"] == 512
    assert "eval_batch_size" not in config.evaluation
    assert config.run_dir == "runs/split_mnist"
    assert strategy("strategy=ewc", "weight=${seed}", "seed=3")["ewc"]["weight"] == 3


def test_hydras_values_are_read() -> None:
    config: Any = compose(
        [
            "stream=scenario",
            "base={name:split_mnist,n_experiences:2}",
            "regimes=[{},{name:dark,brightness:0.3}]",
            "trainer.device_memory='8GB'",
            "trainer.max_epochs=int(2.0)",
            "data_dir='with space'",
        ]
    )
    assert config.stream["base"] == {"name": "split_mnist", "n_experiences": 2}
    assert config.stream["regimes"][1]["brightness"] == 0.3
    assert config.trainer["device_memory"] == "8GB"
    assert config.trainer["max_epochs"] == 2
    assert config.data_dir == "with space"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["~stream"], "'~stream': stream cannot be left out; write stream=NAME"),
        (["optimizer=null"], "optimizer cannot be left out"),
        (["~logger=csv"], "write ~logger, or logger=NAME"),
        (["~lr"], "'~lr': lr is not set here"),
        (["~optimizer.lr"], "optimizer.lr is not set here"),
        (["lr=3", "optimizer.lr=2", "~optimizer.lr=7"], "optimizer.lr is 2, not 7"),
        (["~strategy.ewc"], "'ewc' is not part of this strategy"),
        (["~nonsense.x"], "unknown key 'nonsense.x'"),
        (["+strategy=replay"], r"strategy=\[a,replay\]"),
        (["stream@base=split_mnist"], "'@' moves a group elsewhere"),
        (["hydra.run.dir=x"], "is a setting of Hydra's"),
        (["hydra/launcher=x"], "is a setting of Hydra's"),
        (["a/b=x"], "is not a setting"),
        (["--info"], "'--info' is not a setting"),
        (["seed=0..9"], "names several values; put -m after fit"),
        (["seed=range(0,3)"], "names several values"),
        (["stream=split_mnist,permuted_mnist"], "names several values"),
        (["lr=(1"], "cannot be read"),
        (["lr=${nothing.here}"], r"optimizer\.lr: Interpolation key 'nothing.here' not found"),
        (["lr=${unknown_resolver:1}"], "Unsupported interpolation type unknown_resolver"),
        (["stream=${seed}"], r"unknown stream '\$\{seed\}'"),
        (["strategy={ewc:{weight:3}}"], "strategy takes the name of a choice"),
        (["trainer={max_epochs:3}"], "trainer takes the name of a choice"),
        (["trainer=fast"], "unknown trainer 'fast'"),
        (["checkpoint=3"], "write checkpoint.SETTING=value"),
        (["stream.name=split_mnits"], "did you mean 'split_mnist'"),
        (["stream.a.b=1"], "has too many parts"),
        (["scenario=${oc.env:HOME}"], "would write an environment variable into config.yaml"),
        (["data_dir='${oc.decode:${oc.env:HOME}}'"], "would write an environment variable"),
        (
            ["pretrain=env", "data_dir='${oc.${pretrain}:HOME}'"],
            "would write an environment variable",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ClframeError, match=sentence) as caught:
        compose(overrides)
    assert "\n" not in str(caught.value)


def test_the_environment_is_refused_in_files_and_stays_known_elsewhere(tmp_path: Path) -> None:
    from omegaconf import OmegaConf

    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\n# Mine.\ndata_dir: ${oc.env:HOME}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    with pytest.raises(SettingError, match="let the shell insert it"):
        compose([f"config_dir={tmp_path}", "experiment=mine"])
    assert OmegaConf.create({"home": "${oc.env:HOME}"}).home


def test_what_an_experiment_leaves_open_must_be_given(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\n# Mine.\noptimizer:\n  lr: ???\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    overrides = [f"config_dir={tmp_path}", "experiment=mine"]
    with pytest.raises(SettingError, match=r"optimizer\.lr must be given, as optimizer\.lr=value"):
        compose(overrides)
    assert compose([*overrides, "lr=0.1"]).optimizer["lr"] == 0.1  # type: ignore[index,call-overload]


def test_ranges_and_plus_are_swept() -> None:
    plan = expand(["seed=0..2,9", "strategy=ewc+replay,[ewc,replay],si", "~lr"], lambda group: [])
    assert plan.axes == {"seed": ("0", "1", "2", "9"), "strategy": ("[ewc,replay]", "si")}
    assert plan.fixed == ("~lr",)
    assert expand_ranges("optimizer.lr=0.1,0.2") == "optimizer.lr=0.1,0.2"
    with pytest.raises(SettingError, match=r"counts backwards; write seed=0\.\.9"):
        expand_ranges("seed=9..0")
    with pytest.raises(SettingError, match="every run has the same config folders"):
        expand(["config_dir=a,b"], lambda group: [])


def test_lightnings_word_for_logging_is_known() -> None:
    """It was answered with the name of the checkpoints' interval, which costs a lot."""
    config = compose(["log_every_n_steps=5"])
    assert config.logging["log_every_n_steps"] == 5
    assert "every_n_steps" not in config.checkpoint
    with pytest.raises(SettingError, match="did you mean 'log_every_n_steps'"):
        compose(["log_every_n_step=5"])
