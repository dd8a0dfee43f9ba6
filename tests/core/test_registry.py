"""Everything that is registered composes and can be made."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from clframe.build import build_model
from clframe.cli import doctor
from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.config.read_overrides import catalog_of
from clframe.config.run_config import RunConfig
from clframe.config.setting_groups import GROUPS_OF_SETTINGS
from clframe.core.factory import make_stream
from clframe.core.registry import Registry, discover
from clframe.core.stream import Experience, Stream, Task
from clframe.errors import DataError, PluginError, SettingError
from clframe.strategies import DEFAULT_PLUGINS, known_strategies, measuring_plugins
from clframe.strategies import compose as compose_strategy
from clframe.testing import toy_stream
from clframe.utils import setting_checks
from clframe.utils.setting_checks import check

REGISTRY = discover()
NEED_DATA = {name for name in REGISTRY.names("stream") if "fashion" in name or "cifar" in name}
NEED_DATA |= {"tabletop_files", "behavior_files"}
NEED_DATA |= {"clear10", "core50", "cub200", "domainnet", "imagenet_r", "tiny_imagenet"}
NEED_PATH = {"folder", "file_list", "hf", "lerobot"}


@pytest.mark.parametrize("name", REGISTRY.names("stream"))
def test_every_stream_composes_and_is_made_or_says_what_it_needs(name: str) -> None:
    config = compose([f"stream={name}"])
    if name in NEED_PATH:
        with pytest.raises(SettingError, match="needs a value for 'path'"):
            make_stream(REGISTRY, config.stream, None, 0, None, False)
    elif name in NEED_DATA:
        with pytest.raises(DataError, match="put"):
            make_stream(REGISTRY, config.stream, None, 0, None, False)
    else:
        assert len(make_stream(REGISTRY, config.stream, None, 0, None, False)) >= 1


@pytest.mark.parametrize("name", sorted(known_strategies(REGISTRY)))
def test_every_strategy_composes_and_is_made(name: str) -> None:
    config = compose([f"strategy={name}"])
    # What only measures is no part of a strategy's name.
    assert config.strategy_name == ("naive" if name in measuring_plugins(REGISTRY) else name)
    _, plugins = compose_strategy(config.strategy, REGISTRY)
    assert {plugin.name for plugin in plugins} == set(config.strategy)


@pytest.mark.parametrize("name", REGISTRY.names("model"))
def test_every_model_composes_and_is_made_or_says_what_it_needs(name: str) -> None:
    # These two take color images of some size; the weights of the one are a package apart.
    others = {"frozen": ["model.pretrained=false"], "vgg": []}
    stream_name = "split_cifar10" if name in others else "split_mnist"
    config = compose([f"model={name}", f"stream={stream_name}", *others.get(name, [])])
    shape = (3, 32, 32) if name in others else (1, 28, 28)
    robots = dict.fromkeys(("resnet_rnn", "resnet_t", "vit_t"), "choose a robot stream")
    for policy in ("actor", "categorical"):
        robots[policy] = f"model={policy} needs a stream of robot tasks"
    if name in robots:
        with pytest.raises(SettingError, match=robots[name]):
            build_model(config, REGISTRY, _shaped(shape))
        return
    model = build_model(config, REGISTRY, _shaped(shape)).eval()
    assert model(torch.zeros(2, *shape)).shape == (2, 10)


def _shaped(shape: tuple[int, ...]) -> Stream:
    """A stream of ten classes with inputs of this shape."""
    task = Task(0, "task0", tuple(range(10)))
    experience = Experience(0, "exp0", (task,), lambda: pytest.fail("no data is needed"))
    return Stream("shaped", "domain", [experience], [task], shape, 10)


@pytest.mark.parametrize("name", REGISTRY.names("optimizer"))
def test_every_optimizer_composes_and_is_made(name: str) -> None:
    config = compose([f"optimizer={name}"])
    factory = REGISTRY.build("optimizer", config.optimizer["name"], {})
    assert factory([torch.nn.Parameter(torch.zeros(1))]).param_groups


@pytest.mark.parametrize("name", [*REGISTRY.names("logger"), "none"])
def test_every_logger_composes(name: str, tmp_path: Path) -> None:
    config = compose([f"logger={name}"])
    assert list(config.logger) == ([] if name == "none" else [name])
    if name not in ("none", "wandb"):
        path = {"class_path": "lightning.pytorch.loggers.CSVLogger"}
        values = path if name == "lightning" else {}
        assert REGISTRY.build("logger", name, values, run_dir=tmp_path, run_config={})


# Those of OpenLORIS and of pretrained networks have tests of their own, since they need data.
OTHERS = [
    (name, scenario)
    for name in catalog_of().groups["experiment"]
    if not name.startswith(("openloris", "pretrained/"))
    for scenario in (
        ("task", "domain", "class")
        if name.startswith(("three_", "permuted_"))
        else ("domain",)
        if name.startswith(("der_", "gem_"))
        else (None,)
    )
    if not (name.endswith("icarl") and scenario != "class")
    if not (name.endswith("xdg") and scenario != "task")
]


def _pairwise() -> Iterator[Any]:
    """Mark all as slow but a cover: every study, stream, method and scenario at least once."""
    scenarios = itertools.cycle(("task", "domain", "class"))
    covered: set[str] = set()
    for name, choices in itertools.groupby(OTHERS, key=lambda one: one[0]):
        offered = [scenario for _, scenario in choices]
        parts = {*name.replace("/", "_").split("_"), name.split("/")[0]}
        wanted = next(scenarios) if len(offered) > 1 else offered[0]
        chosen = wanted if wanted in offered else offered[0]
        quick = not parts <= covered or chosen not in (*covered, None)
        if quick:
            covered |= {*parts, str(chosen)}
        for scenario in offered:
            marks = () if quick and scenario == chosen else pytest.mark.slow
            yield pytest.param(name, scenario, marks=marks)


@pytest.mark.parametrize(("name", "scenario"), list(_pairwise()))
def test_every_experiment_composes_and_is_made(name: str, scenario: str | None) -> None:
    config = compose([f"experiment={name}", *([f"scenario={scenario}"] if scenario else [])])
    assert config.scenario == scenario
    compose_strategy(config.strategy, REGISTRY)
    for group, settings in GROUPS_OF_SETTINGS.items():
        check(settings, getattr(config, group), group)
    make_stream(REGISTRY, config.stream, config.scenario, 0, None, False)
    assert set(str(config.strategy_name).split("+")) <= set(known_strategies(REGISTRY))


def test_core_plugins_are_not_offered_as_strategies() -> None:
    assert set(REGISTRY.names("plugin")) >= set(DEFAULT_PLUGINS) - {"lifetime_log"}
    assert not set(DEFAULT_PLUGINS) & set(known_strategies(REGISTRY))


def test_a_name_cannot_be_registered_twice() -> None:
    registry = Registry()
    registry.add("model", "mine", lambda: None)
    with pytest.raises(PluginError, match="model 'mine' of clframe is already registered"):
        registry.add("model", "mine", lambda: None)


def test_a_plugin_gets_the_settings_of_its_signature() -> None:
    with pytest.raises(SettingError, match="unknown setting 'weigth' for plugin"):
        compose_strategy({"cumulative": {"weigth": 1}}, REGISTRY)


def test_bare_settings_that_two_groups_have_must_be_named_in_full(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        "from clframe import Plugin\n"
        "class Two(Plugin):\n"
        "    '''Has a setting that the model has too.'''\n"
        "    def __init__(self, dropout: float = 0.0) -> None: self.dropout = dropout\n"
    )
    overrides = [f"plugin_path={file}", "strategy=two"]
    with pytest.raises(SettingError, match=r"model\.dropout or strategy\.two\.dropout"):
        compose([*overrides, "dropout=0.5"])
    config = compose([*overrides, "strategy.two.dropout=0.5"])
    assert config.strategy["two"]["dropout"] == 0.5


def test_timm_backbones_are_models_by_their_own_name() -> None:
    config = compose(["model=resnet18"])
    assert config.model == {"name": "timm", "backbone": "resnet18"}
    model = build_model(
        config, REGISTRY, make_stream(REGISTRY, "split_mnist", None, 0, None, False)
    )
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_models_say_what_they_cannot_take() -> None:
    with pytest.raises(SettingError, match="needs images"):
        build_model(RunConfig(model="cnn"), REGISTRY, toy_stream())
    backbone = {"name": "timm", "backbone": "resnet19"}
    with pytest.raises(SettingError, match="timm has no model 'resnet19'; did you mean 'resnet1"):
        build_model(RunConfig(model=backbone), REGISTRY, toy_stream())


@pytest.mark.parametrize("kind", ["stream", "model", "optimizer"])
def test_settings_of_the_wrong_type_are_refused_everywhere(kind: Any) -> None:
    """A name that only the type checker knows must not switch the check off."""
    for entry in REGISTRY.entries(kind):
        for name, parameter in setting_checks._parameters(entry.factory).items():
            assert parameter.annotation is not Any, f"{kind} {entry.name}: {name}"
    with pytest.raises(SettingError, match="'window' must be a whole number, got 'wide'"):
        REGISTRY.build("stream", "point_robot", {"window": "wide"}, data_dir=Path())


def install(folder: Path, entry: str, **modules: str) -> None:
    """What pip leaves of a package with an entry point."""
    info = folder / "clframe_tuna-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clframe-tuna\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[clframe.plugins]\ntuna = {entry}\n")
    (folder / "clframe_tuna").mkdir()
    (folder / "clframe_tuna" / "__init__.py").write_text("")
    for name, text in modules.items():
        (folder / "clframe_tuna" / f"{name}.py").write_text(text)


@pytest.fixture
def forget_modules() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("clframe_tuna")]:
        del sys.modules[name]


TUNA = "from clframe import Plugin\nclass Tuna(Plugin):\n    'A method of its own.'\n"


@pytest.mark.usefixtures("forget_modules")
def test_an_entry_point_in_which_nothing_is_found_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "clframe_tuna", tuna=TUNA)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="'tuna'") as said:
        registry = discover()
    (problem,) = [line for line in registry.problems if "'tuna'" in line]
    assert str(said[0].message) == problem
    assert "clframe_tuna defines no subclass of clframe.Plugin" in problem
    assert 'such as "clframe_tuna.tuna"' in problem
    assert (False, problem) in list(doctor._plugins())


@pytest.mark.usefixtures("forget_modules")
def test_a_package_that_cannot_be_imported_is_passed_over_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "clframe_tuna.tuna", tuna="raise RuntimeError('half installed')\n")
    monkeypatch.syspath_prepend(tmp_path)
    sentence = r"skipping installed plugin 'tuna' \(clframe_tuna\S*\): half installed"
    with pytest.warns(UserWarning, match=sentence):
        registry = discover()
    assert registry.problems
    assert "cumulative" in registry.names("plugin")


SEVERAL = """
from clframe import Plugin, Registry, hookimpl
from clframe.testing import toy_stream


class Halve(Plugin):
    'Halves every gradient.'

    def __init__(self, factor: float = 0.5) -> None:
        self.factor = factor

    @hookimpl
    def after_backward(self, learner):
        for parameter in learner.parameters():
            parameter.grad.mul_(self.factor)


def blobs(seed: int = 0, n_experiences: int = 2):
    'Gaussian blobs.'
    return toy_stream(n_experiences=n_experiences, seed=seed)


@hookimpl
def register(registry: Registry) -> None:
    registry.add("stream", "outside_blobs", blobs)
"""


@pytest.mark.usefixtures("forget_modules")
def test_a_packages_method_and_stream_are_listed_and_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, "clframe_tuna.several", several=SEVERAL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["list", "plugins"]) == 0
    listed = capsys.readouterr().out
    assert "halve" in listed
    assert "Halves every gradient." in listed
    assert "[clframe_tuna" in listed
    words = ["fit", "strategy=[halve,cumulative]", "strategy.halve.factor=0.25", "n_experiences=3"]
    words += ["stream=outside_blobs", "trainer.max_epochs=1", "logger=none", "progress=false"]
    assert main(words) == 0
    assert "halve+cumulative on toy" in capsys.readouterr().out
    assert (tmp_path / "runs/toy/halve+cumulative").is_dir()


@pytest.mark.usefixtures("forget_modules")
@pytest.mark.parametrize("entry", ["clframe_tuna.tuna", "clframe_tuna.tuna:Tuna"])
def test_an_entry_point_names_the_module_or_the_class(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, entry, tuna=TUNA)
    monkeypatch.syspath_prepend(tmp_path)
    registry = discover()
    assert "tuna" in registry.names("plugin")
    assert not registry.problems
