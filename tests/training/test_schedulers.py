"""Learning-rate schedules: their formulas, exact resuming, and whatever optimizer they move."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

import clframe
from clframe import Capabilities, Learner, Plugin, hookimpl
from clframe.build import Built
from clframe.checkpoint.settings import CheckpointSettings
from clframe.cli.main import main
from clframe.config.run_config import RunConfig
from clframe.core.registry import discover
from clframe.core.trainer import Budget
from clframe.errors import ClframeError, RunFolderError, SettingError, UnknownNameError
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.sweep.seed_group import SeedGroup, unsupported_reason
from clframe.testing import Kill, Killed, prepare, toy_stream
from clframe.training.lr_schedule import loop_length, stream_length
from clframe.training.schedulers import torch_schedulers
from tests.helpers.processes import ProcessServer

LR = 0.01
BATCHES, EPOCHS, EXPERIENCES = 3, 4, 3
STEPS = BATCHES * EPOCHS
"""Of an experience: 48 samples in batches of 16."""


class Rates(Plugin):
    """Notes the rate with which each step was taken, and each epoch's logs."""

    name = "rates"
    state = ("rates", "epochs")
    capabilities = Capabilities(batched_seeds=True)

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.epochs: list[dict[str, Any]] = []

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        assert learner.optimizer is not None
        self.rates.append(learner.optimizer.param_groups[0]["lr"])

    @hookimpl
    def after_epoch(self, logs: dict[str, Any]) -> None:
        self.epochs.append({key: value for key, value in logs.items() if key != "seconds"})


def made(scheduler: Any, *plugins: Plugin, **more: Any) -> Built:
    optimizer = more.pop("optimizer", {"name": "sgd", "lr": LR, "momentum": 0.9})
    return prepare(
        more.pop("stream", toy_stream("task", EXPERIENCES, samples=24)),
        [*plugins],
        {"name": "mlp", "hidden": [8]},
        optimizer=optimizer,
        scheduler=scheduler,
        trainer={"max_epochs": EPOCHS, "batch_size": 16, "accelerator": "cpu", **more},
    )


def rates_of(scheduler: Any, *plugins: Plugin, **more: Any) -> list[float]:
    rates = Rates()
    built = made(scheduler, rates, *plugins, **more)
    run(built.learner, built.stream, "toy")
    return rates.rates


def cosine(t: float, length: float, low: float) -> float:
    return low + (LR - low) * math.cos(math.pi * t / length / 2) ** 2


# ------------------------------------------------------------ formulas

FORMULAS: dict[str, tuple[dict[str, Any], Callable[[int, int], float]]] = {
    "cosine": ({"min_lr": 0.002}, lambda t, length: cosine(t, length, 0.002)),
    "linear": ({"min_lr": 0.001}, lambda t, n: LR * (n - t) / n + 0.001 * t / n),
    "step": ({}, lambda t, n: LR / 10 ** sum(t >= n * k / 3 for k in (1, 2))),
    "step by size": (
        {"step_size": 5, "gamma": 0.5},
        lambda t, n: LR / 2 ** sum(t >= k for k in range(5, 99, 5)),
    ),
    "warmup_cosine": (
        {"warmup_steps": 4},
        lambda t, n: [0.2, 0.4, 0.6, 0.8][t] * LR if t < 4 else cosine(t - 4, n - 4, 0),
    ),
}


@pytest.mark.parametrize("case", FORMULAS)
@pytest.mark.parametrize("interval", ["step", "epoch"])
@pytest.mark.parametrize("span", ["experience", "stream"])
def test_a_schedule_is_its_formula(case: str, interval: str, span: str) -> None:
    settings, formula = FORMULAS[case]
    named = {"name": case.split()[0], "interval": interval, "span": span, **settings}
    if interval == "step":
        rates = rates_of(named, max_steps=STEPS, max_epochs=None)
        ticks = [step for _ in range(EXPERIENCES) for step in range(STEPS)]
    else:
        rates = rates_of(named)
        ticks = [step // BATCHES for _ in range(EXPERIENCES) for step in range(STEPS)]
    length = STEPS if interval == "step" else EPOCHS
    if span == "stream":
        ticks = [tick + length * (step // STEPS) for step, tick in enumerate(ticks)]
        length *= EXPERIENCES
    assert rates == pytest.approx([formula(tick, length) for tick in ticks], rel=1e-12)


def test_the_warm_up_is_a_tenth_unless_said() -> None:
    rates = rates_of("warmup_cosine", max_epochs=10)[: 10 * BATCHES]
    assert rates[:4] == pytest.approx([LR / 4, LR / 2, 3 * LR / 4, LR])
    assert rates[10] == pytest.approx(cosine(7, 27, 0))


def test_after_its_end_the_rate_stays() -> None:
    for name in ("cosine", "linear", "warmup_cosine", "step"):
        low = {} if name == "step" else {"min_lr": 0.0001}
        rates = rates_of({"name": name, "total_steps": 6, **low})
        assert rates[7:STEPS] == [rates[7]] * (STEPS - 7)
        assert rates[STEPS] == rates[0]  # the next experience


TORCH: dict[str, dict[str, Any]] = {
    "ConstantLR": {"factor": 0.5, "total_iters": 3},
    "CosineAnnealingLR": {"T_max": 7, "eta_min": 1e-4},
    "CosineAnnealingWarmRestarts": {"T_0": 2, "T_mult": 2},
    "CyclicLR": {"base_lr": 0.001, "max_lr": 0.1, "step_size_up": 4, "mode": "exp_range"},
    "ExponentialLR": {"gamma": 0.9},
    "LinearLR": {"start_factor": 0.25, "total_iters": 6},
    "MultiStepLR": {"milestones": [2, 3, 3, 7], "gamma": 0.5},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": STEPS},
    "PolynomialLR": {"total_iters": 9, "power": 2.0},
    "ReduceLROnPlateau": {"factor": 0.5, "patience": 0, "threshold": 0.5},
    "StepLR": {"step_size": 2},
}


def test_every_torch_scheduler_has_a_case() -> None:
    assert set(TORCH) <= set(torch_schedulers())
    assert set(torch_schedulers()) <= set(discover().names("scheduler"))
    assert not {"LambdaLR", "SequentialLR", "LRScheduler"} & set(torch_schedulers())


@pytest.mark.parametrize("interval", ["step", "epoch"])
@pytest.mark.parametrize("name", [name for name in TORCH if name != "ReduceLROnPlateau"])
def test_torch_schedulers_move_as_in_torch(name: str, interval: str) -> None:
    rates = rates_of({"name": name, "interval": interval, **TORCH[name]})
    expected = []
    for _ in range(EXPERIENCES):
        plain = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR, momentum=0.9)
        scheduler = getattr(lr_scheduler, name)(plain, **TORCH[name])
        for step in range(STEPS):
            expected.append(plain.param_groups[0]["lr"])
            plain.step()
            if interval == "step" or step % BATCHES == BATCHES - 1:
                scheduler.step()
    assert rates == expected


def test_a_plateau_looks_at_the_mean_loss_of_an_epoch() -> None:
    rates = Rates()
    built = made({"name": "ReduceLROnPlateau", **TORCH["ReduceLROnPlateau"]}, rates, max_epochs=6)
    run(built.learner, built.stream, "toy")
    expected = []
    for first in range(0, 6 * EXPERIENCES, 6):
        plain = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
        scheduler = lr_scheduler.ReduceLROnPlateau(plain, **TORCH["ReduceLROnPlateau"])
        for logs in rates.epochs[first : first + 6]:
            expected.append(plain.param_groups[0]["lr"])
            scheduler.step(logs["loss"])
    assert [logs["lr"] for logs in rates.epochs] == expected
    assert min(expected) < LR


def test_a_cycled_momentum_is_the_optimizers_own_again() -> None:
    class Momentum(Plugin):
        def __init__(self) -> None:
            self.first: list[float] = []

        @hookimpl
        def before_epoch(self, learner: Learner, epoch: int) -> None:
            assert learner.optimizer is not None
            if epoch == 0:
                self.first.append(learner.optimizer.param_groups[0]["momentum"])

    momentum = Momentum()
    rates_of({"name": "OneCycleLR", **TORCH["OneCycleLR"]}, momentum)
    assert momentum.first == [0.95] * EXPERIENCES


# ------------------------------------------------------------ length


def test_the_length_of_a_loop_is_its_number_of_steps() -> None:
    for n in (1, 15, 16, 40, 48):
        for budget in (
            Budget(epochs=3, batch_size=16),
            Budget(epochs=3, batch_size=16, drop_last=True),
            Budget(epochs=None, steps=7, batch_size=16),
            Budget(epochs=3, steps=5, batch_size=16),
            Budget(epochs=3, batch_size=16, batches_per_epoch=2),
        ):
            batches = max(1, n // 16 if budget.drop_last else math.ceil(n / 16))
            batches = min(batches, budget.batches_per_epoch or batches)
            taken = [
                epoch
                for epoch in range(99 if budget.epochs is None else budget.epochs)
                for _ in range(batches)
            ][: budget.steps]
            assert loop_length(n, budget, "step") == len(taken)
            assert loop_length(n, budget, "epoch") == len(set(taken))
    assert loop_length(0, Budget(), "step") == 0


def test_the_length_of_a_stream_is_known_where_the_budget_says_it() -> None:
    assert stream_length(Budget(epochs=None, steps=7), 3, "step") == 21
    assert stream_length(Budget(epochs=2), 3, "epoch") == 6
    for budget in (Budget(epochs=2), Budget(epochs=2, steps=7)):
        assert stream_length(budget, 3, "step") is None
    assert stream_length(Budget(epochs=None, steps=7), 3, "epoch") is None
    rates = rates_of({"name": "linear", "span": "stream", "total_steps": 3 * STEPS})
    assert rates == pytest.approx([LR * (1 - t / 36) for t in range(36)])


def test_experiences_of_other_sizes_have_schedules_of_other_lengths() -> None:
    rates = rates_of("linear", strategy_data(), max_epochs=1)
    lengths = [3, 6, 9]
    assert rates == pytest.approx([LR * (1 - t / n) for n in lengths for t in range(n)])


def strategy_data() -> Plugin:
    """Joint training on all data so far."""
    plugin: Plugin = discover().build("plugin", "cumulative", {})
    return plugin


# ------------------------------------------------------------ none


def test_none_changes_nothing() -> None:
    learners = []
    for scheduler in ("none", {"name": "none"}):
        rates = Rates()
        built = made(scheduler, rates)
        assert built.learner.schedule is None
        run(built.learner, built.stream, "toy")
        assert rates.rates == [LR] * STEPS * EXPERIENCES
        assert all(set(logs) == {"loss", "steps", "samples"} for logs in rates.epochs)
        assert built.learner.optimizer is not None
        assert "initial_lr" not in built.learner.optimizer.param_groups[0]
        learners.append(built.learner)
    # A schedule that never moves gives the same bits as none.
    still = made({"name": "step", "step_size": 10**6}, Rates()).learner
    run(still, still.stream, "toy")  # type: ignore[arg-type]
    for key, value in learners[0].state_dict().items():
        assert torch.equal(value, still.state_dict()[key]), key


# ------------------------------------------------------------ resuming


def killed(scheduler: Any, plugins: Callable[[], list[Plugin]], **more: Any) -> Built:
    """Save every two steps, be killed after five, continue in a new learner, and so on."""
    folder = RunFolder(Path(more.pop("folder")))
    folder.saving = CheckpointSettings(every_n_steps=2)
    while True:
        built = made(scheduler, *plugins(), Kill(5), **more)
        try:
            run(built.learner, built.stream, "toy", folder)
            return built
        except Killed:
            continue


def same_when_killed(
    scheduler: Any, plugins: Callable[[], list[Plugin]], folder: Path, **more: Any
) -> None:
    whole = made(scheduler, *plugins(), Kill(10**9), **more)
    run(whole.learner, whole.stream, "toy")
    again = killed(scheduler, plugins, folder=folder, **more)
    (first,), (second,) = (
        [plugin for plugin in built.learner.plugins.ordered if isinstance(plugin, Rates)]
        for built in (whole, again)
    )
    assert first.rates == second.rates
    assert first.epochs == second.epochs
    for key, value in whole.learner.state_dict().items():
        assert torch.equal(value, again.learner.state_dict()[key]), key


OWN = ("cosine", "linear", "step", "warmup_cosine")


# These move the momentum as well, which Adam keeps in another place.
MOMENTUM = [("CyclicLR", "adam"), ("OneCycleLR", "adam")]


# The others keep what these keep: a count, a momentum, the losses of before, or restarts.
QUICK = (*OWN, "OneCycleLR", "CosineAnnealingWarmRestarts", "ReduceLROnPlateau", "MultiStepLR")


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        *(
            pytest.param(name, "sgd", marks=[] if name in QUICK else pytest.mark.slow)
            for name in (*OWN, *TORCH)
        ),
        pytest.param(*MOMENTUM[0]),
        pytest.param(*MOMENTUM[1], marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_goes_on_with_its_rate(name: str, optimizer: str, tmp_path: Path) -> None:
    named = {"name": name, **TORCH.get(name, {})}
    chosen = {"name": optimizer, "lr": LR}
    if optimizer == "sgd":
        chosen["momentum"] = 0.9
    same_when_killed(named, lambda: [Rates()], tmp_path, optimizer=chosen)


STREAM_CASES = [
    (name, reset)
    for name in ("cosine", "MultiStepLR", "CyclicLR", "ReduceLROnPlateau")
    for reset in (False, True)
]
QUICK_STREAM = {
    ("cosine", False), ("MultiStepLR", True), ("CyclicLR", True), ("ReduceLROnPlateau", False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reset"),
    [
        pytest.param(*case, marks=[] if case in QUICK_STREAM else pytest.mark.slow)
        for case in STREAM_CASES
    ],
)
def test_a_killed_run_goes_on_over_the_stream(name: str, reset: bool, tmp_path: Path) -> None:
    named = {"name": name, "span": "stream", **TORCH.get(name, {})}
    if name == "cosine":
        named["total_steps"] = STEPS * EXPERIENCES
    same_when_killed(named, lambda: [Rates()], tmp_path, reset_optimizer=reset)


def packnet() -> list[Plugin]:
    return [discover().build("plugin", "packnet", {"post_epochs": 2}), Rates()]


@pytest.mark.parametrize("span", ["experience", "stream"])
def test_a_killed_retraining_goes_on_with_its_rate(span: str, tmp_path: Path) -> None:
    named = {"name": "cosine", "span": span}
    if span == "stream":
        named["total_steps"] = 50
    same_when_killed(named, packnet, tmp_path)


def test_another_schedule_is_another_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "stream": "split_mnist",
        "trainer": {"max_steps": 3, "batch_size": 16},
        "progress": False,
        "logger": None,
        "run_dir": tmp_path / "run",
        "resume": "auto",
    }
    clframe.fit(**given, scheduler="cosine")
    with pytest.raises(RunFolderError, match=r"scheduler\.min_lr was 0\.0 and is 0\.001"):
        clframe.fit(**given, scheduler={"name": "cosine", "min_lr": 0.001})
    clframe.fit(**given, scheduler="none", resume_allow=["scheduler"])


@pytest.mark.parametrize("before", ["none", "cosine"])
def test_a_schedule_that_was_changed_begins_where_the_run_is(before: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.saving = CheckpointSettings(every_n_steps=2)
    built = made(before, Kill(5))
    with pytest.raises(Killed):
        run(built.learner, built.stream, "toy", folder)
    rates = Rates()
    built = made({"name": "OneCycleLR", **TORCH["OneCycleLR"]}, rates, Kill(10**9))
    rates.load_state_dict = lambda state: None  # type: ignore[method-assign]
    run(built.learner, built.stream, "toy", folder)
    assert rates.rates[0] == pytest.approx(0.1 / 25)
    assert len(rates.rates) == STEPS * EXPERIENCES - 4


# ------------------------------------------------------------ optimizers that are replaced


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("span", ["experience", "stream"])
def test_a_new_optimizer_per_experience(span: str, reset: bool) -> None:
    named = {"name": "linear", "span": span, "total_steps": 36}
    rates = rates_of(named, reset_optimizer=reset)
    ticks = range(36) if span == "stream" else [*range(12)] * 3
    assert rates == pytest.approx([LR * (1 - t / 36) for t in ticks])


def test_retraining_has_a_schedule_of_its_own() -> None:
    plugins = packnet()
    rates = plugins.pop()
    assert isinstance(rates, Rates)
    built = made("linear", *plugins, rates)
    run(built.learner, built.stream, "toy")
    lengths = [STEPS, 2 * BATCHES] * EXPERIENCES
    assert rates.rates == pytest.approx([LR * (1 - t / n) for n in lengths for t in range(n)])


class Renew(Plugin):
    """Replaces the optimizer after the fourth step, and sets rates of its own."""

    def __init__(self) -> None:
        self.steps = 0

    @hookimpl(trylast=True)
    def after_step(self, learner: Learner) -> None:
        self.steps += 1
        if self.steps == 4:
            learner.engine.renew_optimizer(learner)

    @hookimpl
    def before_epoch(self, learner: Learner) -> None:
        assert learner.optimizer is not None
        learner.optimizer.param_groups[0]["lr"] = 123.0


@pytest.mark.parametrize("name", ["linear", "OneCycleLR", "ExponentialLR"])
def test_a_schedule_goes_on_with_an_optimizer_that_is_replaced_on_the_way(name: str) -> None:
    named = {"name": name, "interval": "step", **TORCH.get(name, {})}
    assert rates_of(named, Renew()) == rates_of(named)


# ------------------------------------------------------------ precision, processes, seeds


def test_mixed_precision() -> None:
    rates = rates_of("linear", precision="bf16-mixed")
    assert rates == pytest.approx([LR * (1 - t / 12) for _ in range(3) for t in range(12)])


@pytest.mark.parametrize("scheduler", ["cosine", {"name": "OneCycleLR", **TORCH["OneCycleLR"]}])
def test_batched_seeds_are_those_of_separate_runs(scheduler: Any) -> None:
    configs = [
        RunConfig.of(
            toy_stream("task", samples=24),
            [Rates()],
            {"name": "mlp", "hidden": [8]},
            optimizer={"name": "adam", "lr": LR},
            scheduler=scheduler,
            trainer={"max_epochs": EPOCHS, "batch_size": 16, "accelerator": "cpu"},
            seed=seed,
            run_dir=False,
            logger=None,
            progress=False,
        )
        for seed in (0, 1)
    ]
    apart = [prepare(**vars(config)) for config in configs]
    for built in apart:
        run(built.learner, built.stream, "toy")
    group = SeedGroup(configs)
    assert unsupported_reason(group.runs) is None
    group.run()
    for one, other in zip(apart, group.runs, strict=True):
        for key, value in one.learner.state_dict().items():
            torch.testing.assert_close(
                other.learner.state_dict()[key], value, rtol=1e-3, atol=1e-4, msg=key
            )


def test_a_plateau_cannot_be_batched() -> None:
    reason = unsupported_reason([made("ReduceLROnPlateau")])
    assert reason == "the scheduler gives each seed its own learning rate"


def epochs_of(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == "epoch"]


START = """
import sys
sys.executable, *sys.argv = sys.argv[1:]
from clframe.cli.main import main
sys.exit(main(sys.argv))
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two processes need two processor cores")
def test_two_processes_have_the_rates_of_one(
    clframe_process: ProcessServer, tmp_path: Path
) -> None:
    words = [
        *("fit", "stream=split_mnist", "n_experiences=2", "max_epochs=3", "batch_size=500"),
        *("model.hidden=[8]", "accelerator=cpu", "logger=none", "scheduler=ReduceLROnPlateau"),
        *("scheduler.patience=0", "scheduler.threshold=0.9"),
    ]
    assert main([*words, f"run_dir={tmp_path / 'one'}"]) == 0
    words += ["trainer.devices=2", "trainer.strategy=ddp", "run_dir=two"]
    python = tmp_path / "python"
    # A rank is a child of the process server, so it must not look for rank zero as its parent.
    python.write_text(f'#!/bin/sh\nunset CLFRAME_PARENT\nexec "{clframe_process.python}" "$@"\n')
    python.chmod(0o755)
    done = clframe_process.run("-c", START, str(python), *words, folder=tmp_path, seconds=300)
    assert done.returncode == 0, done.stderr
    one, two = epochs_of(tmp_path / "one"), epochs_of(tmp_path / "two")
    assert [line["lr"] for line in one] == [line["lr"] for line in two]
    assert one[2]["lr"] < one[0]["lr"]
    assert [line["loss"] for line in one] == pytest.approx([line["loss"] for line in two], rel=1e-4)


# ------------------------------------------------------------ what is logged, and what is refused


def test_the_rate_is_logged(tmp_path: Path) -> None:
    given: dict[str, Any] = {"max_epochs": 2, "batch_size": 500, "progress": False}
    clframe.fit("split_mnist", scheduler="linear", run_dir=tmp_path / "with", **given)
    clframe.fit("split_mnist", run_dir=tmp_path / "without", **given)
    first = epochs_of(tmp_path / "with")[:2]
    assert [line["lr"] for line in first] == pytest.approx([0.001 * 3 / 4, 0.001 * 1 / 4])
    assert all("lr" not in line for line in epochs_of(tmp_path / "without"))
    for name, rates in (("with", {"0.00075", "0.00025"}), ("without", {"0.001"})):
        with (tmp_path / name / "csv" / "metrics.csv").open() as file:
            logged = {row["train/lr"] for row in csv.DictReader(file) if row["train/lr"]}
        assert {f"{float(rate):g}" for rate in logged} >= rates


@pytest.mark.parametrize(
    ("scheduler", "sentence"),
    [
        ({"name": "cosine", "minlr": 1}, "unknown setting 'minlr' for scheduler 'cosine'; did you"),
        ({"name": "cosine", "min_lr": -1}, r"scheduler\.min_lr must be at least 0"),
        ({"name": "cosine", "interval": "hour"}, "'interval' must be one of step, epoch"),
        ({"name": "cosine", "total_steps": 0}, r"scheduler\.total_steps must be at least 1"),
        ("ExponentialLR", "scheduler 'ExponentialLR' needs a value for 'gamma'"),
        (
            {"name": "MultiStepLR", "milestones": ["a"]},
            "must be a list of which each",
        ),
        ({"name": "ReduceLROnPlateau", "interval": "step"}, r"mean loss of an epoch: set schedul"),
        ({"name": "OneCycleLR", "max_lr": 1.0}, "scheduler 'OneCycleLR': You must define"),
        (
            {"name": "CosineAnnealingLR", "T_max": 0},
            "scheduler 'CosineAnnealingLR' cannot move the rate with these settings",
        ),
        ({"name": "StepLR", "step_size": 0}, "'StepLR' cannot move the rate with these settings"),
        ({"name": "cosine", "span": "stream"}, r"set scheduler\.total_steps \(in steps\), or sch"),
        (None, "scheduler must be a name or a mapping with a name, got None"),
    ],
)
def test_a_mistake_is_a_sentence_before_anything_runs(scheduler: Any, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        made(scheduler)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown scheduler 'ExponentalLR'; did you mean"):
        made("ExponentalLR")


def test_a_rate_beyond_all_numbers_is_a_loss_that_is_not_finite() -> None:
    built = made({"name": "step", "gamma": 1e38})
    with pytest.raises(ClframeError, match="not finite"):
        run(built.learner, built.stream, "toy")


def test_a_schedule_that_ends_too_early_is_a_sentence() -> None:
    built = made({"name": "OneCycleLR", "max_lr": 0.1, "total_steps": 3})
    with pytest.raises(SettingError, match="scheduler 'OneCycleLR': Tried to step 4 times"):
        run(built.learner, built.stream, "toy")


def test_a_scheduler_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "halving.py"
    file.write_text(
        "from torch.optim.lr_scheduler import StepLR\n"
        "from clframe import hookimpl\n"
        "from clframe.training.schedulers import Scheduler, ScheduleSettings\n"
        "def halving(every: int = 1, schedule: ScheduleSettings = ScheduleSettings()):\n"
        "    '''Halves the rate.'''\n"
        "    return Scheduler(lambda optimizer, length: StepLR(optimizer, every, 0.5), schedule)\n"
        "@hookimpl\n"
        "def register(registry):\n"
        "    registry.add('scheduler', 'halving', halving)\n"
    )
    rates = Rates()
    clframe.fit(
        toy_stream(samples=24),
        [rates],
        plugin_path=file,
        optimizer={"name": "sgd", "lr": LR},
        scheduler={"name": "halving", "every": 2},
        trainer={"max_steps": 6, "batch_size": 16},
        run_dir=False,
        progress=False,
    )
    assert rates.rates[:6] == [LR, LR, LR / 2, LR / 2, LR / 4, LR / 4]
