"""The named OpenLORIS experiments: all compose, and say what the paper says."""

from __future__ import annotations

from pathlib import Path

import pytest

from clframe.config.compose import compose
from clframe.config.read_overrides import catalog_of
from clframe.core.factory import make_stream
from clframe.core.registry import discover
from clframe.errors import DataError
from clframe.utils import setting_checks

REGISTRY = discover()
GROUPS = ("openloris", "openloris_small")

METHODS = ("naive", "cumulative", "lwf", "ewc", "online_ewc", "si", "dgr", "dgr_distill", "rtf")
FACTORS = ("illumination", "occlusion", "pixel", "clutter", "sequence")


@pytest.mark.parametrize("group", GROUPS)
def test_every_method_has_an_experiment(group: str) -> None:
    own = {name for name in catalog_of().groups["experiment"] if name.startswith(f"{group}/")}
    assert own == {f"{group}/{method}" for method in METHODS}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("method", METHODS)
def test_they_compose_into_settings_that_exist(group: str, method: str, tmp_path: Path) -> None:
    config = compose([f"experiment={group}/{method}", "stream=openloris_pixel", "seed=4"])
    assert config.strategy_name == method
    assert config.seed == 4
    assert config.stream["name"] == "openloris_pixel"
    for kind in ("stream", "model", "optimizer"):
        named = getattr(config, kind)
        values = {key: value for key, value in named.items() if key != "name"}
        given = ("input_shape", "n_outputs", "data_dir")
        setting_checks.check(REGISTRY.get(kind, named["name"]).factory, values, kind, given)
    if group == "openloris":
        with pytest.raises(DataError, match="there is no OpenLORIS-Object in"):
            make_stream(REGISTRY, config.stream, None, 0, tmp_path, False)
    else:
        stream = make_stream(REGISTRY, config.stream, None, 0, tmp_path, False)
        assert (len(stream), stream.n_outputs) == (9, 121)


@pytest.mark.parametrize("group", GROUPS)
def test_factors_differ_in_the_stream_alone(group: str) -> None:
    runs = [compose([f"experiment={group}/ewc", f"stream=openloris_{f}"]) for f in FACTORS]
    for factor, config in zip(FACTORS, runs, strict=True):
        assert config.stream["name"] == f"openloris_{factor}"
        stream = {**config.stream, "name": "openloris_illumination"}
        assert config.replace(stream=stream) == runs[0]


def test_a_model_of_the_command_line_takes_the_place_of_the_experiments() -> None:
    config = compose(["experiment=openloris_small/ewc", "model=mlp"])
    assert config.model == {"name": "mlp"}


def test_the_official_ones_have_the_settings_of_the_paper() -> None:
    found = {m: compose([f"experiment=openloris/{m}", "stream=openloris_clutter"]) for m in METHODS}
    for method, config in found.items():
        stream, trainer = config.stream, config.trainer
        assert (stream["source"], stream["target"], stream["size"]) == ("official", "instance", 50)
        assert (trainer["max_steps"], trainer["batch_size"]) == (3000, 32)
        assert trainer["max_epochs"] is None
        assert config.optimizer["lr"] == 1e-4
        assert config.model["name"] == ("mlp" if method == "rtf" else "vgg")
    for method in ("ewc", "online_ewc"):
        ewc = found[method].strategy["ewc"]
        assert (ewc["weight"], ewc["fisher"]) == (5240, "predicted")
    assert found["online_ewc"].strategy["ewc"]["gamma"] == 1
    assert found["si"].strategy["si"] == {"c": 0.3, "damping": 0.2}
    assert found["lwf"].strategy["lwf"]["temperature"] == 2
    assert not found["dgr"].strategy["generative_replay"]["distill"]
    assert found["dgr_distill"].strategy["generative_replay"]["distill"]
    assert found["rtf"].strategy["feedback_replay"]["hidden"] == [400, 400]
