"""The parts of learning by reward, each against a calculation of its own."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution, kl_divergence

from clframe.core.registry import discover
from clframe.errors import RunFolderError
from clframe.models.policy import Body
from clframe.rl.actor import actor
from clframe.rl.critics import Critics
from clframe.rl.environment import HeldActions
from clframe.rl.online_data import Pace
from clframe.rl.transitions import Transitions
from clframe.testing import prepare
from clframe.utils.checksums import problem_with
from clframe.worlds.point_robot import PointEnvironment

# ------------------------------------------------------------ transitions


def fill(transitions: Transitions, n: int) -> None:
    for number in range(transitions.added, transitions.added + n):
        state = np.full((1, 3), number, np.float32)
        action = np.array([number, -number], np.float32)
        transitions.add(state, action, number / 2, state + 1, number % 2 == 1, number % 3)


def filled(n: int, size: int = 5) -> Transitions:
    transitions = Transitions(size, (1, 3), 2)
    fill(transitions, n)
    return transitions


def test_transitions_keep_the_last_ones_in_order() -> None:
    transitions = filled(7)
    assert len(transitions) == 5
    newest = transitions.newest(3)
    assert newest["reward"].tolist() == [2.0, 2.5, 3.0]
    assert newest["state"][:, 0, 0].tolist() == [4, 5, 6]
    assert newest["next_state"][:, 0, 0].tolist() == [5, 6, 7]
    assert newest["terminated"].tolist() == [0, 1, 0]
    assert newest["task"].tolist() == [1, 2, 0]
    assert transitions.newest(99)["action"][:, 1].tolist() == [-2, -3, -4, -5, -6]


def test_what_is_drawn_follows_from_the_generator_and_is_uniform() -> None:
    transitions = filled(7)
    drawn = transitions.sample(4000, torch.Generator().manual_seed(0))
    again = transitions.sample(4000, torch.Generator().manual_seed(0))
    assert torch.equal(drawn["reward"], again["reward"])
    # A row is one transition.
    assert torch.equal(drawn["next_state"], drawn["state"] + 1)
    assert torch.equal(drawn["action"][:, 0], 2 * drawn["reward"])
    counts = drawn["reward"].unique(return_counts=True)[1]
    assert len(counts) == 5
    assert counts.min() > 700


def test_every_task_has_its_share_of_what_is_drawn_evenly() -> None:
    transitions, restored = filled(4, size=9), filled(1, size=9)
    generator = torch.Generator().manual_seed(0)
    transitions.sample_evenly(2, [0, 1, 2], 0, generator)
    for number in range(4, 12):  # more of task 0, and past the end of the ring
        state = np.full((1, 3), number, np.float32)
        transitions.add(state, np.zeros(2), number / 2, state + 1, False, number // 10)
    kept = {0: {3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}, 1: {10.0, 11.0}}
    for draw in range(50):
        state = generator.get_state()
        drawn = transitions.sample_evenly(7, [0, 1, 2], draw, generator)
        # Task 2 has none any more; of 7 the two have 3 or 4, in turns.
        counts = [int((drawn["task"] == task).sum()) for task in (0, 1)]
        assert counts == ([4, 3] if draw % 2 == 0 else [3, 4])
        for task, rows in kept.items():
            assert set(drawn["state"][drawn["task"] == task][:, 0, 0].tolist()) <= rows
        # One that was saved and restored draws the same.
        restored.load_state_dict(transitions.state_dict())
        generator.set_state(state)
        again = restored.sample_evenly(7, [0, 1, 2], draw, generator)
        assert torch.equal(drawn["state"], again["state"])
    drawn = transitions.sample_evenly(6000, [0, 1], 0, generator)
    for rows in kept.values():
        counts = [int((drawn["state"][:, 0, 0] == row).sum()) for row in rows]
        assert min(counts) > 0.8 * 3000 / len(rows)
    twice = transitions.sample_evenly(9, [0, 1, 0], 0, generator)["task"]
    assert twice.sum() == 3


@pytest.mark.parametrize("n", [0, 3, 5, 13])
def test_transitions_are_saved_and_restored(n: int) -> None:
    transitions, other = filled(n), filled(4)
    other.load_state_dict(transitions.state_dict())
    assert len(other) == len(transitions)
    for name, column in transitions.newest(5).items():
        assert torch.equal(column, other.newest(5)[name])
    transitions.clear()
    assert len(transitions) == 0


@pytest.mark.parametrize("n", [0, 3, 5, 13])
def test_a_file_holds_the_transitions_and_the_state_their_number(tmp_path: Path, n: int) -> None:
    path = tmp_path / "transitions.bin"
    transitions = filled(0)
    transitions.keep_in(path, lambda value: value)
    fill(transitions, n)
    state = transitions.state_dict()
    assert state["columns"] == {}
    assert problem_with(path, state["mark"]) is None
    fill(transitions, 4)  # what a run did that was then killed
    transitions.state_dict()
    other = filled(4)
    other.keep_in(path, lambda value: value)
    other.load_state_dict(state)
    other.load()
    wanted = filled(n)
    for name, column in wanted.newest(5).items():
        assert torch.equal(column, other.newest(5)[name]), name
    generators = [torch.Generator().manual_seed(n) for _ in range(2)]
    if n:
        drawn = [t.sample(9, g) for t, g in zip((wanted, other), generators, strict=True)]
        assert torch.equal(drawn[0]["reward"], drawn[1]["reward"])
    # It goes on where the state was taken.
    fill(other, 2)
    fill(wanted, 2)
    row = other.file.row.itemsize  # type: ignore[union-attr]
    assert other.state_dict()["mark"]["bytes"] == (n + 2) * row == path.stat().st_size
    assert torch.equal(other.newest(5)["reward"], wanted.newest(5)["reward"])


def test_a_file_that_lost_transitions_is_named(tmp_path: Path) -> None:
    path = tmp_path / "transitions.bin"
    transitions = filled(0)
    transitions.keep_in(path, lambda value: value)
    fill(transitions, 5)
    state = transitions.state_dict()
    os.truncate(path, 3 * path.stat().st_size // 5)
    transitions.load_state_dict(state)
    with pytest.raises(
        RunFolderError, match=r"transitions.bin' holds 3 .* the run had 5 and learns from them"
    ):
        transitions.load()


def test_a_memory_is_a_uniform_sample_of_what_was_before(tmp_path: Path) -> None:
    counts = np.zeros(30)
    for seed in range(300):
        generator = torch.Generator().manual_seed(seed)
        transitions = Transitions(10, (1, 3), 2, memory=6)
        for _ in range(3):
            fill(transitions, 10)
            transitions.clear(generator)
        assert len(transitions) == 6
        counts[transitions.past] += 1
        # What is drawn are those rows, and then the new ones as well.
        drawn = transitions.sample(50, generator)["state"][:, 0, 0]
        assert set(drawn.tolist()) <= set(transitions.past.tolist())
    # 60 expected of each, with a deviation of 7.
    assert counts.sum() == 1800
    assert counts.min() > 35
    assert counts.max() < 85
    transitions.keep_in(tmp_path / "transitions.bin", lambda value: value)
    fill(transitions, 3)
    assert len(transitions) == 9
    drawn = transitions.sample(4000, generator)["state"][:, 0, 0].unique(return_counts=True)
    assert drawn[0].tolist() == sorted([*transitions.past.tolist(), 30, 31, 32])
    assert drawn[1].min() > 350


def test_updates_follow_decisions() -> None:
    pace = Pace(steps=100, start_steps=10, update_ratio=0.25)
    assert pace.updates == 22
    assert pace.decisions_before(0) == 14
    assert pace.decisions_before(pace.updates - 1) <= 100
    assert Pace(10, 0, 3.0).updates == 30
    assert Pace(10, 0, 3.0).decisions_before(29) == 10


# ------------------------------------------------------------ actor


def policy(n_outputs: int = 2) -> Any:
    torch.manual_seed(0)
    return actor((4,), n_outputs, hidden=[8])


def test_a_drawn_action_has_the_density_of_a_squashed_gaussian() -> None:
    model = policy()
    # Not where tanh is flat: there the densities differ by EPSILON.
    outputs, noise = 0.5 * model(torch.randn(6, 4)), 0.5 * torch.randn(6, 2)
    action, log_density = model.draw(outputs, noise)
    means, log_std = outputs.chunk(2, 1)
    law = TransformedDistribution(Normal(means, log_std.exp()), [TanhTransform(cache_size=0)])
    expected = law.log_prob(action).sum(1)
    torch.testing.assert_close(log_density, expected, rtol=1e-4, atol=1e-4)
    middle = model.action_of(outputs, torch.Generator())
    torch.testing.assert_close(middle, means.tanh())


def test_cloning_is_the_divergence_from_the_old_policy() -> None:
    model = policy()
    new, old = model(torch.randn(6, 4)), torch.randn(6, 4).clamp(max=1.9)
    laws = [Normal(p[:, :2], p[:, 2:].exp()) for p in (old, new)]
    expected = kl_divergence(*laws).sum(1).mean()
    torch.testing.assert_close(model.action_loss(new, old), expected)
    assert float(model.action_loss(new, new.detach()).detach()) == pytest.approx(0, abs=1e-6)


# ------------------------------------------------------------ critics


@pytest.mark.parametrize("n_tasks", [None, 3])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_critics_are_two_perceptrons(n_tasks: int | None, layer_norm: bool) -> None:
    torch.manual_seed(0)
    critics = Critics(5, 2, Body((8, 6), layer_norm, "leaky_relu"), n_tasks)
    x, action = torch.randn(9, 5), torch.randn(9, 2)
    task = torch.arange(9) % 3
    if n_tasks:
        x[:, -3:] = nn.functional.one_hot(task, 3).float()
    values = critics(x, action)
    for number in range(2):
        hidden = torch.cat([x[:, :-3] if n_tasks else x, action], 1)
        for layer, (weight, bias) in enumerate(zip(critics.weights, critics.biases, strict=True)):
            hidden = nn.functional.linear(hidden, weight[number].T, bias[number, 0])
            if layer == 0 and layer_norm:
                hidden = nn.functional.layer_norm(hidden, (8,)).tanh()
            elif layer < 2:
                hidden = nn.functional.leaky_relu(hidden, 0.2)
        expected = hidden[torch.arange(9), task] if n_tasks else hidden[:, 0]
        torch.testing.assert_close(values[number], expected)


def test_fixed_critics_get_no_gradient_and_give_the_actions_theirs() -> None:
    critics = Critics(3, 2, Body((4,), True, "relu"), None)
    x, action = torch.randn(5, 3), torch.randn(5, 2, requires_grad=True)
    (free,) = torch.autograd.grad(critics(x, action).sum(), action)
    critics(x, action, fixed=True).sum().backward()
    assert all(parameter.grad is None for parameter in critics.parameters())
    assert action.grad is not None
    torch.testing.assert_close(action.grad, free)


# ------------------------------------------------------------ environment


def make() -> PointEnvironment:
    return PointEnvironment(0, 1)


def test_a_held_action_is_done_several_times() -> None:
    held, plain = HeldActions(make, 3), make()
    held.reset(seed=4)
    plain.reset(seed=4)
    action = np.array([0.3, -0.8], np.float32)
    seen, reward, *_ = held.step(action)
    steps = [plain.step(action) for _ in range(3)]
    assert np.array_equal(seen["state"], steps[-1][0]["state"])
    assert reward == pytest.approx(sum(step[1] for step in steps))
    assert np.array_equal(held.innermost.place, plain.place)


def test_the_stream_gives_the_actor_its_widths() -> None:
    registry = discover()
    assert registry.model_for("point_robot", "sac") == {"name": "actor", "hidden": [64, 64]}
    assert registry.model_for("point_robot") == {"name": "policy", "hidden": [64, 64]}


# ------------------------------------------------------------ an update


def test_an_update_leaves_nothing_to_the_garbage_collector() -> None:
    learner: Any = prepare(
        {"name": "point_robot", "n_tasks": 1},
        model={"name": "actor", "hidden": [8]},
        learner={"name": "sac", "steps": 40, "start_steps": 10},
        batch_size=8,
    ).learner
    learner.plugins.hook.configure(learner=learner, stream=learner.stream)
    learner.engine.bind(learner)
    experience = learner.stream.experiences[0]
    learner.begin(experience)
    batch = next(experience.data.batches(torch.arange(8), 8))
    ended = weakref.ref(batch.x)
    gc.disable()
    try:
        learner.training_step(batch).loss.backward()
        del batch
        assert ended() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_the_temperatures_gradient_is_that_of_its_loss(n_tasks: int) -> None:
    learner: Any = prepare(
        {"name": "point_robot", "n_tasks": n_tasks},
        model={"name": "actor", "hidden": [8]},
        learner={"name": "sac", "temperature": 0.3},
    ).learner
    log_density, task = torch.randn(12), torch.randint(n_tasks, (12,))
    loss = learner.temperature_loss(log_density, task)
    free = learner.log_temperature.detach().clone().requires_grad_()
    expected = -(free[task] * (log_density + learner.target_entropy)).mean()
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(learner.log_temperature.grad, free.grad)
