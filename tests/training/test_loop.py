"""The bookkeeping of epochs: order, counts, logs and what a checkpointer is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clframe import Learner, Plugin, hookimpl
from clframe.core.state import LoopProgress, NoCheckpoints
from clframe.core.step import Step
from clframe.core.trainer import Budget, TrainerSettings
from clframe.data.dataset import Batch
from clframe.data.sampler import epoch_order
from clframe.run import set_up
from clframe.testing import prepare, toy_stream
from clframe.training.loop import EpochLoop, FitRequest, clip_gradients, run_epochs
from clframe.training.nonfinite import NotFiniteError
from clframe.training.step_metrics import TERMS, terms

N = 20
"""Samples of an experience."""


class Notes(Plugin):
    """Keeps the calls of the loop's hooks."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.logs: list[dict[str, Any]] = []

    @hookimpl
    def before_epoch(self, epoch: int) -> None:
        """Keep the epoch."""
        self.epochs.append(epoch)

    @hookimpl
    def after_epoch(self, logs: dict[str, Any]) -> None:
        """Keep its logs."""
        self.logs.append(logs)


class Steps:
    """A stepper that trains nothing: every step has the same loss.

    Args:
        loss: Of a step.
        learners: How many take it.
    """

    def __init__(self, loss: float = 0.5, learners: int = 1) -> None:
        self.loss = loss
        self.learners = learners
        self.orders: list[list[Tensor]] = []
        self.calls: list[str] = []

    def batches(self, orders: Sequence[Tensor], size: int) -> Iterator[Tensor]:
        """Parts of the first order."""
        self.orders.append(list(orders))
        return iter(orders[0].split(size))

    def step(self, batch: Any) -> Sequence[tuple[Tensor, Step | None]]:
        """The loss for every learner."""
        self.calls.append("step")
        return [(torch.tensor(self.loss), None)] * self.learners

    def close(self) -> None:
        """Note it."""
        self.calls.append("close")


class Saves(NoCheckpoints):
    """Notes what it is told, and puts a run where a saved one was.

    Args:
        progress: What of the progress is restored.
        every: Ask for the run's state after so many steps.
    """

    def __init__(self, every: int = 0, **progress: Any) -> None:
        self.restored = progress
        self.every = every
        self.calls: list[str] = []

    def on_loop_start(self, progress: LoopProgress) -> None:
        """Go to where the saved run was."""
        for name, value in self.restored.items():
            setattr(progress, name, value)
        self.calls.append("start")

    def restore_epoch(self) -> None:
        """Note it."""
        self.calls.append("restore")

    def after_step(self, progress: LoopProgress) -> None:
        """Note it, and ask for the state."""
        self.calls.append(f"step {progress.steps}")
        if self.every and progress.steps % self.every == 0:
            assert progress.before_save is not None
            progress.before_save()

    def on_loop_end(self, progress: LoopProgress) -> None:
        """Note it."""
        self.calls.append("end")


def request(
    budget: Budget, saves: Saves | None = None, seed: int = 0
) -> tuple[FitRequest, Learner, Notes]:
    notes = Notes()
    stream = toy_stream(samples=N // 2)
    learner = prepare(stream, notes, {"name": "mlp", "hidden": [4]}, seed=seed).learner
    set_up(learner, stream, None)
    if saves is not None:
        learner.state.checkpointer = saves
    experience = stream.experiences[0]
    learner.begin(experience)
    return FitRequest(learner, experience, experience.data, budget), learner, notes


def test_epochs_are_counted_and_logged() -> None:
    given, learner, notes = request(Budget(epochs=3, batch_size=8))
    steps = Steps()
    run_epochs([given], steps)
    assert notes.epochs == [0, 1, 2]
    assert [(log["loss"], log["steps"], log["samples"]) for log in notes.logs] == [(0.5, 3, 20)] * 3
    assert all(log["seconds"] >= 0 for log in notes.logs)
    assert (learner.epoch, learner.global_steps, learner.samples) == (3, 9, 60)
    assert steps.calls == ["step"] * 9 + ["close"]
    for epoch, (order,) in enumerate(steps.orders):
        assert torch.equal(order, epoch_order(N, learner.seed, 0, epoch))


def test_steps_end_in_the_middle_of_an_epoch() -> None:
    given, learner, notes = request(Budget(epochs=None, steps=5, batch_size=8))
    run_epochs([given], Steps())
    assert [(log["steps"], log["samples"]) for log in notes.logs] == [(3, 20), (2, 16)]
    assert learner.global_steps == 5


def test_the_end_of_epochs_or_of_steps_whichever_is_first() -> None:
    given, learner, _ = request(Budget(epochs=1, steps=50, batch_size=8))
    run_epochs([given], Steps())
    assert learner.global_steps == 3


@pytest.mark.parametrize("budget", [Budget(epochs=0), Budget(epochs=None, steps=0)])
def test_no_budget_is_no_epoch(budget: Budget) -> None:
    saves = Saves()
    given, learner, notes = request(budget, saves)
    run_epochs([given], Steps())
    assert notes.epochs == []
    assert saves.calls == ["start", "end"]
    assert learner.global_steps == 0


def test_a_checkpointer_is_told_of_every_step() -> None:
    saves = Saves()
    given, _, _ = request(Budget(epochs=2, batch_size=10), saves)
    run_epochs([given], Steps())
    epoch = ["restore", "step 1", "step 2"]
    assert saves.calls == ["start", *epoch, *epoch, "end"]


def test_a_resumed_loop_goes_on_at_the_next_step() -> None:
    saves = Saves(steps=2, epochs=0, total=torch.tensor(1.0), seconds=100.0)
    given, learner, notes = request(Budget(epochs=2, batch_size=4), saves)
    steps = Steps()
    run_epochs([given], steps)
    first = epoch_order(N, learner.seed, 0, 0)
    assert torch.equal(steps.orders[0][0], first[8:])
    assert torch.equal(steps.orders[1][0], epoch_order(N, learner.seed, 0, 1))
    assert saves.calls[:3] == ["start", "restore", "step 3"]
    assert [(log["steps"], log["loss"]) for log in notes.logs] == [(5, 0.5), (5, 0.5)]
    assert notes.logs[0]["seconds"] >= 100 > notes.logs[1]["seconds"]


def test_a_loop_that_had_come_to_its_end_is_not_run_again() -> None:
    given, learner, notes = request(Budget(epochs=2), Saves(done=True))
    steps = Steps()
    run_epochs([given], steps)
    assert notes.epochs == []
    assert steps.calls == ["close"]
    assert learner.global_steps == 0


def test_the_losses_are_looked_at_before_a_save() -> None:
    given, _, _ = request(Budget(epochs=1, batch_size=5), Saves(every=2))
    steps = Steps()
    run_epochs([given], steps)
    assert steps.calls == ["step", "step", "step", "step", "close"]
    given, _, _ = request(Budget(epochs=1, batch_size=5), Saves(every=2))
    steps = Steps(loss=float("nan"))
    with pytest.raises(NotFiniteError, match=r"in experience 'exp0', epoch 1, step 1"):
        run_epochs([given], steps)
    assert steps.calls == ["step", "step"]  # such a run is not saved


def test_learners_in_step_share_the_time_and_keep_their_own_order() -> None:
    requests = [request(Budget(epochs=1, batch_size=8), seed=seed) for seed in (0, 1)]
    steps = Steps(learners=2)
    run_epochs([one for one, _, _ in requests], steps)
    ((first, second),) = steps.orders
    assert not torch.equal(first, second)
    for _, learner, notes in requests:
        assert learner.global_steps == 3
        assert len(notes.logs) == 1
    loop = EpochLoop(requests[0][0], 2)
    loop.begin()
    loop.begin_epoch()
    loop.progress.started -= 100.0
    loop.end_epoch()
    assert 50 <= requests[0][2].logs[-1]["seconds"] < 100


def test_a_loss_of_one_in_step_names_its_seed() -> None:
    requests = [request(Budget(epochs=1, batch_size=8), seed=seed)[0] for seed in (3, 4)]

    class Second(Steps):
        """The second learner's loss is gone."""

        def step(self, batch: Any) -> Sequence[tuple[Tensor, Step | None]]:
            return [(torch.tensor(0.5), None), (torch.tensor(float("inf")), None)]

    with pytest.raises(NotFiniteError, match="the loss of seed 4 is not finite"):
        run_epochs(requests, Second())


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("norm", [[0.6, 0.0], [-0.8]]), ("value", [[1.0, 0.0], [-1.0]])],
)
def test_gradients_are_clipped_together_or_each_by_itself(
    algorithm: Any, expected: list[list[float]]
) -> None:
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    for bound in (None, 1.0):
        parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([-4.0])
        settings = TrainerSettings(gradient_clip_val=bound, gradient_clip_algorithm=algorithm)
        clip_gradients(parameters, settings)
        wanted = expected if bound else [[3.0, 0.0], [-4.0]]
        for parameter, value in zip(parameters, wanted, strict=True):
            assert parameter.grad is not None
            assert parameter.grad.tolist() == pytest.approx(value, abs=1e-5)


def test_a_steps_terms_are_named_after_what_they_come_from() -> None:
    """The batch's own loss first, then each replayed part and each penalty under its own name."""
    x, y = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    parts = [Batch(x, y, y) for _ in range(3)]
    for part, source in zip(parts[1:], ("replay", "dgr"), strict=True):
        part.source = source
    step = Step(parts, [], [])
    step.losses = [torch.tensor(value) for value in (0.0, 1.0, 2.0)]
    step.terms, step.term_names = [torch.tensor(3.0), torch.tensor(4.0)], ["ewc", "ewc"]
    found = {name: float(value) for name, value in terms(step)}
    expected = {"task": 0.0, "replay": 1.0, "dgr": 2.0, "ewc": 3.0, "ewc_2": 4.0}
    assert found == {f"{TERMS}{name}": value for name, value in expected.items()}
