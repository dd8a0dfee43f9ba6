from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clframe
from clframe import Batch, Experience, Learner, Plugin, SettingError, Stream, Task, hookimpl
from clframe.data.buffer import Buffer
from clframe.data.dataset import TensorData
from clframe.plugins.replay import Replay
from clframe.run import run
from clframe.testing import check_plugin, interrupted_run, prepare_toy, toy_run, toy_stream

POLICIES = ["reservoir", "class_balanced", "ring", "herding"]


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("policy", POLICIES)
def test_keeps_the_contract(scenario: Any, policy: Any) -> None:
    check_plugin(Replay(size=25, policy=policy, weighting="tasks"), toy_stream(scenario))


def test_per_class_keeps_so_many_of_each() -> None:
    for scenario in ("task", "domain", "class"):
        plugin = Replay(per_class=7)
        toy_run([plugin], toy_stream(scenario))
        groups = plugin.buffer.column("groups").unique(return_counts=True)[1]
        assert groups.tolist() == [7] * 6


class Watch(Plugin):
    """Compares the step's loss with the formula of the chosen weighting."""

    def __init__(self, weighting: str) -> None:
        self.weighting = weighting
        self.checked = 0

    @hookimpl
    def after_backward(self, learner: Learner, step: clframe.Step) -> None:
        if len(step.parts) == 1:
            assert not learner.seen
            return
        losses = [
            nn.functional.cross_entropy(out, part.y)
            for out, part in zip(step.outputs, step.parts, strict=True)
        ]
        t = len(learner.seen) + 1
        if self.weighting == "tasks":
            expected = losses[0] / t + (1 - 1 / t) * losses[1]
        else:
            expected = nn.functional.cross_entropy(
                torch.cat(step.outputs), torch.cat([part.y for part in step.parts])
            )
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(expected.item(), abs=1e-6)
        assert bool((step.parts[1].task < len(learner.seen)).all())
        self.checked += 1


@pytest.mark.parametrize("weighting", ["samples", "tasks"])
@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_the_loss_is_the_weighted_mean(weighting: Any, scenario: Any) -> None:
    watch = Watch(weighting)
    toy_run([Replay(batch_size=11, weighting=weighting), watch], toy_stream(scenario))
    assert watch.checked == 2 * 2 * 5


class Offered(Plugin):
    """Keeps what a reservoir that is filled at each step should have been offered."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.labels: list[int] = []
        self.own = 0

    @hookimpl
    def after_backward(self, learner: Learner, step: clframe.Step) -> None:
        assert (len(step.parts) == 1) == (not self.labels)
        if len(step.parts) > 1:
            expected = nn.functional.cross_entropy(
                torch.cat(step.outputs), torch.cat([part.y for part in step.parts])
            )
            assert step.loss is not None
            assert step.loss.item() == pytest.approx(expected.item(), abs=1e-6)
            self.own += int((step.parts[1].task == step.batch.task[0]).sum())
        self.labels += step.batch.y.tolist()


def test_a_memory_filled_at_each_step_holds_the_current_experience_too() -> None:
    plugin = Replay(size=1000, batch_size=11, fill="step")
    offered = Offered(plugin)
    _, learner = toy_run([plugin, offered], toy_stream("domain"))
    assert plugin.buffer.seen == len(offered.labels) == learner.samples
    # All of it fits, so what was offered is what is held, in the same order.
    assert plugin.buffer.column("labels").tolist() == offered.labels
    assert offered.own > 0


def test_a_memory_filled_at_each_step_keeps_the_contract() -> None:
    check_plugin(Replay(size=25, fill="step"), toy_stream("class"))


def test_only_a_plain_reservoir_is_filled_at_each_step() -> None:
    with pytest.raises(SettingError, match=r"replay\.fill=step needs replay\.policy=reservoir"):
        Replay(policy="ring", fill="step")
    with pytest.raises(SettingError, match=r"replay\.fill=step needs replay\.policy=reservoir"):
        Replay(per_class=3, fill="step")
    with pytest.raises(SettingError, match=r"so choose replay\.weighting=samples"):
        Replay(fill="step", weighting="tasks")


def test_replayed_inputs_are_those_of_the_stream() -> None:
    plugin = Replay(size=20)
    stream = toy_stream("class")
    _, learner = toy_run([plugin], stream)
    batch = plugin.buffer.sample(learner, 15)
    everything = torch.cat([e.data.gather(torch.arange(len(e.data))) for e in stream])
    labels = torch.cat([e.data.labels for e in stream])
    for x, y in zip(batch.x, batch.y, strict=True):
        where = (everything == x).all(1).nonzero().squeeze(1)
        assert labels[where].tolist() == [int(y)]


class Fused(nn.Module):
    """Takes images with depth."""

    def __init__(self) -> None:
        super().__init__()
        self.features = self.flatten
        self.head = nn.Linear(4 * 9, 4)

    def flatten(self, x: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([x["rgb"].flatten(1), x["depth"].flatten(1)], 1)

    def forward(self, x: dict[str, torch.Tensor]) -> torch.Tensor:
        out: torch.Tensor = self.head(self.features(x))
        return out


@pytest.mark.parametrize("policy", POLICIES)
def test_works_on_images_with_depth(policy: Any) -> None:
    generator = torch.Generator().manual_seed(0)

    def data(number: int) -> TensorData:
        rgb = torch.randint(256, (20, 3, 3, 3), generator=generator, dtype=torch.uint8)
        depth = torch.randint(256, (20, 1, 3, 3), generator=generator, dtype=torch.uint8)
        return TensorData({"rgb": rgb, "depth": depth}, torch.arange(20) % 2 + 2 * number, number)

    sets = [data(0), data(1)]
    tasks = [Task(i, f"t{i}", (2 * i, 2 * i + 1), lambda i=i: sets[i]) for i in range(2)]  # type: ignore[misc]
    experiences = [Experience(i, f"e{i}", (tasks[i],), lambda i=i: sets[i]) for i in range(2)]  # type: ignore[misc]
    stream = Stream("rgbd", "class", experiences, tasks, (4, 3, 3), 4)
    plugin = Replay(size=8, policy=policy)
    prepared = prepare_toy([plugin], stream)
    prepared.learner.model = Fused()
    run(prepared.learner, stream, "toy")
    batch = plugin.buffer.sample(prepared.learner, 5)
    assert batch.x["rgb"].shape == (5, 3, 3, 3)
    assert batch.x["rgb"].max() <= 1.0
    assert plugin.buffer.inputs["depth"].dtype == torch.uint8


def test_composes_with_another_and_survives_interruption() -> None:
    stream = toy_stream("class")
    plugins: list[Plugin] = [Replay(size=20), clframe.plugins.Cumulative()]
    whole, _ = toy_run(plugins, stream)
    parts = interrupted_run([Replay(size=20), clframe.plugins.Cumulative()], stream)
    assert (whole.matrix.values == parts.matrix.values).all()


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(SettingError, match=r"replay\.size must be at least 1"):
        Replay(size=0)
    with pytest.raises(SettingError, match="weighting must be samples or tasks"):
        Replay(weighting="classes")  # type: ignore[arg-type]


def test_no_batch_is_added_before_anything_is_stored() -> None:
    plugin = Replay()
    prepared = prepare_toy([plugin], toy_stream())
    plugin.configure(prepared.stream)
    none = torch.zeros(2, dtype=torch.long)
    assert plugin.extra_batches(prepared.learner, Batch(torch.zeros(2, 8), none, none)) is None


def test_a_fork_goes_on_with_another_policy(tmp_path: Path) -> None:
    """A reservoir that goes on as a class-balanced memory gets the classes of its samples."""
    stream = toy_stream("class")
    settings = {"max_epochs": 1, "progress": False, "logger": None}
    clframe.fit(stream, [Replay(size=60)], run_dir=tmp_path / "run", **settings)
    strategy = [Replay(per_class=10, policy="class_balanced")]
    child = clframe.fork(
        tmp_path / "run", 2, stream=stream, strategy=strategy, run_dir=tmp_path / "child"
    )
    assert child.memory["samples"] == 10 * stream.n_outputs


def test_a_memory_in_another_form_is_refused() -> None:
    buffer = Buffer(4, "reservoir", transformed=True)
    generator = torch.Generator().manual_seed(0)
    buffer.add_batch(
        torch.zeros(2, 3), torch.tensor([0, 1]), torch.zeros(2, dtype=torch.long), generator
    )
    with pytest.raises(clframe.PluginError, match="stores inputs in another form"):
        Buffer(4, "reservoir").load_state_dict(buffer.state_dict())
    with pytest.raises(clframe.PluginError, match="cannot continue with policy=herding"):
        Buffer(4, "herding", transformed=True).load_state_dict(buffer.state_dict())
