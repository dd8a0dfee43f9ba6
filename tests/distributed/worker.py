"""Runs every strategy on a tiny stream, as a script that clframe starts once per rank.

    python worker.py DEVICES FOLDER [CASE...]

Each rank leaves in FOLDER what it ended with; the tests compare ranks with each other and with the
same cases run in one process.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clframe import Batch, ClframeError, Learner, Plugin, PluginError, hookimpl
from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import MapData, TensorData, keep_inputs
from clframe.plugins import EWC, SI, GenerativeReplay, LwF, PackNet, Replay, XdG
from clframe.plugins.online import Online
from clframe.plugins.plasticity import Plasticity
from clframe.plugins.predictions import Predictions
from clframe.run import run
from clframe.testing import prepare, toy_stream

BATCH = 15
"""Of 80 samples an experience: neither it nor the last batch of five divides by two."""


class Watch(Plugin):
    """Notes which samples the model and the loss saw."""

    name = "watch"

    def __init__(self) -> None:
        self.positions: list[Tensor] = []
        self.rows: list[int] = []

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Count the rows that go through the model while training."""

        def note(module: Any, inputs: tuple[Tensor, ...]) -> None:
            if learner.training:
                self.rows.append(len(inputs[0]))

        learner.model.features.register_forward_pre_hook(note)  # type: ignore[union-attr]

    @hookimpl
    def extra_batches(self, batch: Batch) -> None:
        """Keep the positions of the step's own samples."""
        assert batch.positions is not None
        self.positions.append(batch.positions.cpu())


class Drift(Plugin):
    """Keeps a number that is another on each rank."""

    name = "drift"
    state = ("number",)

    def __init__(self) -> None:
        self.number = 0.0

    @hookimpl
    def after_experience(self) -> None:
        """Draw from where the other ranks do not."""
        self.number = float(torch.distributed.get_rank())


def small_images() -> Stream:
    """Two experiences of 6 x 6 images for a network with batch normalization."""
    generator = torch.Generator().manual_seed(3)

    def data(number: int) -> TensorData:
        y = torch.arange(2 * number, 2 * number + 2).repeat(24)
        x = torch.rand(48, 1, 8, 8, generator=generator) + 0.3 * y[:, None, None, None]
        return TensorData(x, y, number, transform=keep_inputs)

    parts = [data(0), data(1)]
    tasks = [Task(i, f"task{i}", (2 * i, 2 * i + 1), lambda i=i: parts[i]) for i in range(2)]
    learned = [Experience(i, f"exp{i}", (tasks[i],), lambda i=i: parts[i]) for i in range(2)]
    return Stream("images", "class", learned, tasks, (1, 8, 8), 4)


class Items:
    """A map-style data set over a tensor."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def read_from_disk() -> Stream:
    """The toy stream as data that must be read sample by sample."""
    toy = toy_stream("class")

    def mapped(data: Any, number: int) -> MapData:
        x = data.gather(torch.arange(len(data)))
        return MapData(Items(x, data.labels), data.labels, number)

    tasks = [Task(t.index, t.name, t.outputs, lambda t=t: t.data) for t in toy.tasks]
    learned = [
        Experience(e.index, e.name, (tasks[e.index],), lambda e=e: mapped(e.data, e.index))
        for e in toy
    ]
    return Stream("mapped", "class", learned, tasks, toy.input_shape, toy.n_outputs)


def _toy(scenario: str) -> Callable[[], Stream]:
    return lambda: toy_stream(scenario)  # type: ignore[arg-type]


MLP = {"name": "mlp", "hidden": [16]}
SETTINGS: dict[str, dict[str, Any]] = {"best_checkpoint": {"check_val_every_n_epoch": 1}}
MODELS: dict[str, dict[str, Any]] = {
    "norms": {"name": "cnn", "channels": [4], "features": 8, "norm": True},
    "dropout": {"name": "mlp", "hidden": [64], "dropout": 0.5},
}
SMALL = {"hidden": (16,), "latent": 4}

CASES: dict[str, tuple[Callable[[], Stream], Callable[[], Any], dict[str, Any]]] = {
    # Every strategy that has a name, as it comes; see `named`.
    "clipped": (_toy("class"), lambda: "naive", {"gradient_clip_val": 0.5}),
    "curves": (_toy("class"), lambda: "er", {"check_val_every_n_epoch": 1, "max_epochs": 2}),
    "fresh_optimizer": (_toy("domain"), lambda: "si", {"reset_optimizer": True}),
    "ewc_sample": (_toy("domain"), lambda: [EWC(100.0, fisher="sample")], {}),
    "ewc_batch": (_toy("domain"), lambda: [EWC(100.0, fisher="batch")], {}),
    "ewc_some": (_toy("task"), lambda: [EWC(100.0, fisher="true", samples=31)], {}),
    "lwf_task": (_toy("task"), lambda: [LwF()], {}),
    "lwf_paper": (_toy("class"), lambda: [LwF(weighting="paper", cache=False)], {}),
    "herding": (_toy("class"), lambda: [Replay(20, policy="herding")], {}),
    "ring": (_toy("class"), lambda: [Replay(per_class=5, policy="ring", batch_size=7)], {}),
    "replay_tasks": (_toy("domain"), lambda: [Replay(30, weighting="tasks")], {}),
    "packnet_libero": (_toy("task"), lambda: [PackNet(form="libero")], {}),
    "dgr_task": (_toy("task"), lambda: [GenerativeReplay(distill=True, **SMALL)], {}),  # type: ignore[arg-type]
    "gated_replay": (
        _toy("task"),
        lambda: [XdG(0.5), GenerativeReplay(**SMALL)],  # type: ignore[arg-type]
        {},
    ),
    "composition": (_toy("class"), lambda: [EWC(10.0), SI(), LwF(), Replay(20)], {}),
    "norms": (small_images, lambda: [Replay(10)], {}),
    "dropout": (_toy("class"), lambda: [Replay(20)], {}),
    "mapped": (read_from_disk, lambda: ["derpp", LwF()], {}),
    "measured": (
        _toy("class"),
        lambda: [Replay(20), Online()],
        {"evaluate_every_n_steps": 2, "evaluate_samples": 30},
    ),
    "looked_at": (_toy("class"), lambda: [Replay(20), Plasticity(), Predictions()], {}),
    "watched": (_toy("class"), lambda: [Watch(), Replay(20)], {}),
}

FEW = (
    *("best_checkpoint", "packnet", "slda", "clipped", "ewc_some", "gated_replay", "composition"),
    *("norms", "mapped", "watched", "curves", "ring", "lwf_task", "fresh_optimizer"),
    *("cumulative", "multitask", "replay", "ewc", "online_ewc", "si", "lwf", "dgr_distill", "rtf"),
)
"""The cases of the quick tier: each kind of step, data, pass and state that ranks share."""


@functools.cache
def named() -> dict[str, tuple[str, str]]:
    """Every strategy by name with a scenario it works in."""
    from clframe.core.registry import discover
    from clframe.strategies import compose, known_strategies

    registry = discover()
    strategies = {}
    for name in known_strategies(registry):
        plugins = compose(name, registry)[1]
        if plugins and all(hasattr(plugin, "metrics") for plugin in plugins):
            continue  # computes metrics, so it is no method of learning
        if not all(plugin.capabilities.distributed for plugin in plugins):
            continue  # refused where there are several processes
        fitting = [s for s in ("class", "task", "domain") if all(s in p.scenarios for p in plugins)]
        strategies[name] = (name, fitting[0])
    return strategies


def settings_for(name: str) -> Any:
    """A named strategy with sizes for a tiny stream."""
    small = {"hidden": [16], "latent": 4}
    sizes: dict[str, Any] = {
        "generative_replay": small,
        "dgr": {"generative_replay": small},
        "dgr_distill": {"generative_replay": {"distill": True, **small}},
        "feedback_replay": small,
        "rtf": {"feedback_replay": small},
        "gdumb": {"size": 40, "epochs": 3},
        "podnet": {"per_class": 5, "proxies": 3, "finetune_epochs": 1},
        "lamaml": {"size": 20, "parts": 2, "alpha": 0.01},
        "cbp": {"rate": 0.05, "maturity": 2},
        "gss": {"size": 40},
        "bic": {"size": 40, "bias_steps": 50},
        "ewc": {"weight": 100.0},
    }
    chosen = sizes.get(name)
    if chosen is None:
        return name
    return chosen if name in ("dgr", "dgr_distill", "rtf") else {name: chosen}


def one(case: str, devices: int, **more: Any) -> dict[str, Any]:
    """Run one case and return what this rank ended with."""
    settings: dict[str, Any] = {"max_epochs": 1, "batch_size": BATCH, **more}
    trainer: dict[str, Any] = {"accelerator": "cpu"}
    if devices > 1:
        trainer.update(devices=devices, strategy="ddp")
    if case in CASES:
        make, strategy, extra = CASES[case]
        stream, chosen = make(), strategy()
        settings.update(extra)
    else:
        name, scenario = named()[case]
        stream, chosen = toy_stream(scenario), settings_for(name)  # type: ignore[arg-type]
        settings.update(SETTINGS.get(name, {}))
    # Where a loss begins at its least (distillation) Adam makes steps of rounding errors.
    by_sgd = case == "lwf_task"
    prepared = prepare(
        stream,
        chosen,
        MODELS.get(case, MLP),
        optimizer={"name": "sgd", "lr": 0.1} if by_sgd else {"name": "adam", "lr": 0.01},
        trainer=trainer,
        **settings,
    )
    learner = prepared.learner
    result = run(learner, prepared.stream, case)
    watch = [plugin for plugin in learner.plugins.ordered if isinstance(plugin, Watch)]
    return {
        "matrix": result.matrix.to_json()["values"],
        "curves": result.curves,
        "learner": learner.state_dict(),
        "plugins": learner.plugins.state_dict(),
        "optimizer": learner.optimizer.state_dict(),  # type: ignore[union-attr]
        "generators": [learner.generator.get_state(), torch.get_rng_state()],
        "positions": [watch[0].positions, watch[0].rows] if watch else [],
    }


def cases() -> list[str]:
    """All cases by name."""
    return [*named(), *CASES]


def main(devices: int, folder: Path, chosen: Sequence[str] = ()) -> None:
    """Run all cases, or those that are named, and save what this rank ended with."""
    outcomes: dict[str, Any] = {}
    for case in chosen or cases():
        try:
            outcomes[case] = one(case, devices)
        except ClframeError as error:  # on all ranks alike, so the other cases can continue
            outcomes[case] = {"error": str(error)}
    rank = torch.distributed.get_rank()
    prepared = prepare(
        toy_stream(), [Drift()], MLP, trainer={"accelerator": "cpu", "devices": devices}
    )
    try:
        run(prepared.learner, prepared.stream, "drift")
    except PluginError as error:
        outcomes["(drift)"] = {"error": str(error)}
    torch.save(outcomes, folder / f"rank{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
