"""Seeds trained as one batched model give what separate runs give."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import clframe
from clframe import Capabilities, Learner, Plugin, SettingError, hookimpl
from clframe.build import Built, build
from clframe.cli.main import main
from clframe.config.run_config import RunConfig
from clframe.models.mlp import mlp
from clframe.sweep.seed_group import SeedGroup, unsupported_reason
from clframe.sweep.seeds import fit_seeds
from clframe.testing import run_built, toy_stream
from clframe.training.batched.perceptron import batched_pass

SEEDS = (0, 1, 2)
STRATEGIES: dict[str, Any] = {
    "naive": "naive",
    "cumulative": "cumulative",
    "ewc": {"ewc": {"weight": 10.0}},
    "online_ewc": {"ewc": {"weight": 10.0, "online": True, "gamma": 0.9}},
    "si": {"si": {"c": 1.0}},
    "mas": "mas",
    "lwf": "lwf",
    "replay": {"replay": {"size": 20}},
    "ewc and replay": [{"ewc": {"weight": 10.0}}, {"replay": {"size": 20}}],
}


def arguments(strategy: Any, scenario: str, **others: Any) -> dict[str, Any]:
    return {
        "stream": toy_stream(scenario),  # type: ignore[arg-type]
        "strategy": strategy,
        "model": {"name": "mlp", "hidden": [12, 12]},
        "trainer": {"max_epochs": 2, "batch_size": 7, "accelerator": "cpu"},
        **others,
    }


def configs(seeds: tuple[int, ...] = SEEDS, **given: Any) -> list[RunConfig]:
    quiet = {"logger": None, "run_dir": False, "progress": False}
    return [RunConfig(**{**quiet, **given, "seed": seed}) for seed in seeds]


def both(**given: Any) -> tuple[list[Built], SeedGroup]:
    """The runs of every seed by itself, and as a group."""
    return [build(config) for config in configs(**given)], SeedGroup(configs(**given))


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_equals_separate_runs(name: str, scenario: str) -> None:
    given = arguments(STRATEGIES[name], scenario)
    apart, group = both(**given)
    assert unsupported_reason(group.runs) is None
    results = [run_built(one) for one in apart]
    together = group.run()
    joined = group.runs
    for one, other, a, b in zip(results, together, apart, joined, strict=True):
        np.testing.assert_allclose(one.matrix.values, other.matrix.values, atol=0.05)
        state = b.learner.state_dict()
        for key, value in a.learner.state_dict().items():
            torch.testing.assert_close(state[key], value, rtol=1e-3, atol=1e-4, msg=key)
    # Seeds must differ, or equality says nothing.
    assert not torch.equal(
        next(joined[0].learner.model.parameters()), next(joined[1].learner.model.parameters())
    )


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_optimizer_state_is_each_seeds_own_again(optimizer: str) -> None:
    settings = {"name": optimizer, "lr": 0.01} | ({"momentum": 0.9} if optimizer == "sgd" else {})
    given = arguments("naive", "domain", optimizer=settings)
    apart, group = both(**given)
    for one in apart:
        run_built(one)
    group.run()
    for a, b in zip(apart, group.runs, strict=True):
        ours, theirs = a.learner.optimizer.state_dict(), b.learner.optimizer.state_dict()
        for number, state in ours["state"].items():
            for key, value in state.items():
                torch.testing.assert_close(
                    theirs["state"][number][key], value, rtol=1e-3, atol=1e-5
                )


def test_gradient_clipping_is_by_seed() -> None:
    given = arguments("naive", "domain")
    given["trainer"] = {**given["trainer"], "gradient_clip_val": 0.01}
    apart, group = both(**given)
    for one in apart:
        run_built(one)
    group.run()
    for a, b in zip(apart, group.runs, strict=True):
        for p, q in zip(a.learner.parameters(), b.learner.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_every_seed_has_a_run_folder_of_its_own(tmp_path: Path) -> None:
    given = arguments("naive", "class", run_dir=tmp_path / "runs", progress=False)
    results = fit_seeds(RunConfig(**given), [3, 5])
    assert [result.seed for result in results] == [3, 5]
    for seed, result in zip((3, 5), results, strict=True):
        kept = json.loads((tmp_path / "runs" / f"s{seed}" / "results.json").read_text())
        assert kept["seed"] == seed
        assert kept["matrix"]["values"] == result.matrix.to_json()["values"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"strategy": {"packnet": {"post_epochs": 1}}}, "plugin 'packnet' cannot be batched"),
        ({"model": nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.5))}, "draws random numbers"),
        ({"model": nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6))}, "running statistics"),
    ],
)
def test_what_cannot_be_batched_says_so(given: dict[str, Any], reason: str) -> None:
    group = SeedGroup(configs(**{**arguments("naive", "task"), **given}))
    assert reason in str(unsupported_reason(group.runs))


def test_what_cannot_be_batched_is_run_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments({"packnet": {"post_epochs": 1}}, "task", run_dir=False, progress=False)
    results = fit_seeds(RunConfig(**given), [0, 1])
    assert [result.seed for result in results] == [0, 1]
    assert "plugin 'packnet' cannot be batched" in capsys.readouterr().err


class Fails(Plugin):
    """Fails in one seed."""

    capabilities = Capabilities(batched_seeds=True)

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        """Refuse seed 1 in the second experience."""
        if learner.seed == 1 and learner.seen:
            raise SettingError("seed 1 does not want to")


def test_the_failure_of_one_seed_ends_all_with_its_sentence() -> None:
    with pytest.raises(SettingError, match="seed 1 does not want to"):
        SeedGroup(configs(**arguments(Fails(), "class"))).run()


def test_a_loss_that_is_not_finite_stops_the_seeds() -> None:
    given = arguments("naive", "class", optimizer={"name": "sgd", "lr": 1e30})
    with pytest.raises(clframe.ClframeError, match=r"the loss of seed 0 is not finite"):
        SeedGroup(configs(**given)).run()


def test_bad_seeds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingError, match="different numbers"):
        fit_seeds(RunConfig(), [1, 1])
    assert main(["fit", "seeds=[a]"]) == 2
    assert main(["fit", "seeds=[0,1]", "seed=3"]) == 2
    output = capsys.readouterr().err
    assert "seeds must be a list" in output
    assert "seed and seeds cannot both be given" in output


def test_the_command_shows_means_over_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "seeds=[0,1]", "max_steps=3", "hidden=[8]", f"run_dir={tmp_path / 'r'}"]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "seeds 0, 1" in output
    assert "over 2 seeds" in output
    single = clframe.fit(
        "split_mnist", model={"name": "mlp", "hidden": [8]}, max_steps=3, seed=1, run_dir=False
    )
    kept = json.loads((tmp_path / "r" / "s1" / "results.json").read_text())
    np.testing.assert_allclose(kept["matrix"]["values"], single.matrix.values, atol=0.01)


def test_the_quick_pass_of_perceptrons_equals_the_models_own() -> None:
    models = [mlp((1, 4, 4), 6, [8, 5]) for _ in range(3)]
    stacked = {
        name: torch.stack([dict(m.named_parameters())[name] for m in models]).detach()
        for name, _ in models[0].named_parameters()
    }
    quick = batched_pass(models[0])
    assert quick is not None
    x = torch.randn(3, 7, 1, 4, 4)
    outputs, features = quick(stacked, x)
    for index, model in enumerate(models):
        assert torch.allclose(outputs[index], model(x[index]), atol=1e-6)
        assert torch.allclose(features[index], model.features(x[index]), atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.register_parameter("scale", torch.nn.Parameter(torch.ones(1))),
        lambda model: model.features.append(torch.nn.LayerNorm(5)),
        lambda model: model.head.register_parameter("bias", None),
        lambda model: model.head.register_forward_hook(lambda *_: None),
    ],
)
def test_other_models_take_the_general_way(change: Any) -> None:
    model = mlp((16,), 6, [8, 5])
    assert batched_pass(model) is not None
    change(model)
    assert batched_pass(model) is None


def test_a_learner_with_a_loss_of_its_own_is_not_batched() -> None:
    class Halved(Learner):
        def task_loss(self, outputs: Any, batch: Any) -> torch.Tensor:
            return 0.5 * super().task_loss(outputs, batch)

    stream = dataclasses.replace(toy_stream("class"), learner=Halved)
    group = SeedGroup(configs((0, 1), stream=stream, strategy="naive", model="mlp"))
    assert "learner Halved" in (unsupported_reason(group.runs) or "")


# ------------------------------------------------------------ checkpoints


class Dies(Plugin):
    """Ends the runs after so many steps of all seeds together, which share this object."""

    capabilities = Capabilities(batched_seeds=True)
    limit = 10**9

    def __init__(self) -> None:
        self.steps = 0

    @hookimpl
    def after_step(self) -> None:
        """Count."""
        self.steps += 1
        if self.steps > Dies.limit:
            raise clframe.ClframeError("the machine goes down")


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_seed_of_a_batch_can_be_resumed_alone(
    optimizer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    settings = {"name": optimizer, "lr": 0.01} | ({"momentum": 0.9} if optimizer == "sgd" else {})
    given = arguments(
        [Dies(), {"replay": {"size": 20}}],
        "class",
        optimizer=settings,
        checkpoint={"every_n_steps": 5, "keep": 1},
    )
    whole = SeedGroup(configs(**given))
    whole.run()
    # 12 steps an epoch and 24 an experience: in the second epoch of the second one.
    monkeypatch.setattr(Dies, "limit", len(SEEDS) * (24 + 18))
    given["strategy"] = [Dies(), {"replay": {"size": 20}}]
    folders = [tmp_path / f"s{seed}" for seed in SEEDS]
    with pytest.raises(clframe.ClframeError, match="the machine goes down"):
        fit_seeds(RunConfig(**{**given, "run_dir": tmp_path, "progress": False}), SEEDS)
    monkeypatch.setattr(Dies, "limit", 10**9)
    for seed, one, folder in zip(SEEDS, whole.runs, folders, strict=True):
        notes = [json.loads(path.read_text()) for path in (folder / "checkpoints").glob("*.json")]
        last = max(notes, key=lambda note: note["file"])
        assert last["position"]["experience"] == "exp1"
        assert (last["position"]["epoch"], last["position"]["done"]) == (1, False)
        assert last["position"]["step"] > 0
        capfd.readouterr()
        (config,) = configs((seed,), **given)
        resumed = build(config.replace(resume=folder, strategy=[Dies(), {"replay": {"size": 20}}]))
        result = run_built(resumed)
        assert "resumed in experience exp1, epoch 2, after step" in capfd.readouterr().err
        assert (result.matrix.values == one.learner.state.matrix.values).all()
        for key, value in one.learner.state_dict().items():
            assert torch.equal(resumed.learner.state_dict()[key], value), key


@pytest.mark.parametrize("strategy", ["naive", "ewc and replay", "si", "lwf"])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_a_seed_of_a_group_can_be_repeated_by_itself(strategy: str, scenario: str) -> None:
    given = arguments(STRATEGIES[strategy], scenario)
    group = SeedGroup(configs(**given))
    group.run()
    given["trainer"] = {**given["trainer"], "batched": True}
    (config,) = configs((1,), **given)
    alone = build(config)
    assert (run_built(alone).matrix.values == group.results[1].matrix.values).all()
    for key, value in group.runs[1].learner.state_dict().items():
        assert torch.equal(alone.learner.state_dict()[key], value), key


def test_what_no_group_can_have_is_refused_alone(tmp_path: Path) -> None:
    given = arguments({"packnet": {"post_epochs": 1}}, "task", run_dir=tmp_path / "run")
    given["trainer"] = {**given["trainer"], "batched": True}
    with pytest.raises(SettingError, match=r"trainer\.batched=true: plugin 'packnet' cannot be"):
        clframe.fit(**given)
    assert not (tmp_path / "run").exists()


def test_saving_within_the_loop_changes_no_seed(tmp_path: Path) -> None:
    given = arguments("naive", "class", run_dir=tmp_path / "plain", progress=False)
    given["stream"] = toy_stream("class", 2, samples=11)  # four steps an epoch, the last one short
    plain = fit_seeds(RunConfig(**given), SEEDS)
    given |= {"run_dir": tmp_path / "saved", "checkpoint": {"every_n_steps": 1}}
    saved = fit_seeds(RunConfig(**given), SEEDS)
    for one, other in zip(plain, saved, strict=True):
        assert (one.matrix.values == other.matrix.values).all()
