"""Heads for actions: likelihoods, the grip, chunks and flows, against calculations by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from clframe.errors import SettingError
from clframe.models.actions.chunks import ChunkQueue
from clframe.models.actions.decoder import ActionDecoder
from clframe.models.actions.flow import CONDITION, ActionFlow
from clframe.models.actions.head_settings import ActionSettings
from clframe.models.actions.mixture import GaussianMixture
from clframe.models.policy import ActionPolicy, policy


def decoder(n_actions: int = 3, **settings: Any) -> ActionDecoder:
    return ActionDecoder(ActionSettings(**settings), n_actions, "mode_mean")


def fit(model: ActionPolicy, x: Tensor, actions: Tensor, steps: int, lr: float = 0.02) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        optimizer.zero_grad()
        model.action_loss(model(x), actions).backward()
        optimizer.step()


def two_ways(n: int = 256) -> tuple[Tensor, Tensor]:
    """The same is seen always, and done is 0.8 in six of ten cases and else -0.8."""
    torch.manual_seed(0)
    return torch.zeros(n, 3), torch.where(torch.rand(n, 1) < 0.6, 0.8, -0.8)


# ------------------------------------------------------------ the mixture, and how to act


@pytest.mark.parametrize("rule", ["mode_mean", "draw", "draw_mode"])
def test_a_mixture_learns_two_ways_where_the_mean_is_neither(rule: Any) -> None:
    x, actions = two_ways()
    settings = ActionSettings(modes=2, act=rule, least_deviation=0.05)
    model = policy((3,), 1, hidden=(16,), actions=settings)
    assert isinstance(model, ActionPolicy)
    fit(model, x, actions, 300)
    acted = model.action_of(model(x), torch.Generator().manual_seed(0))
    ways = acted.sign() * 0.8
    assert (acted - ways).abs().mean() < 0.1
    share = float((acted > 0).float().mean())
    assert share == 1.0 if rule == "mode_mean" else 0.5 < share < 0.7
    # Only a draw has the deviation of its mode.
    assert ((acted - ways).abs().amax() > 0.08) == (rule == "draw")


def test_deviations_stay_within_their_bounds() -> None:
    made = decoder(2, modes=3, least_deviation=0.03, most_deviation=0.1)
    assert isinstance(made.head, GaussianMixture)
    outputs = 100 * torch.randn(50, 3 * 5)
    raw = outputs[:, 6:12].unflatten(1, (3, 2))
    _, deviations, _ = made.head.mixture(outputs)
    torch.testing.assert_close(deviations, 0.03 + 0.07 / (1 + torch.exp(-raw)))
    assert deviations.min() >= 0.03
    assert deviations.max() <= 0.1
    # Two ways of doing a task that are further apart than that cannot be one wide Gaussian.
    x, actions = two_ways()
    model = policy((3,), 1, hidden=(16,), actions=ActionSettings(modes=2, most_deviation=0.1))
    fit(model, x, actions, 300)
    acted = model.action_of(model(x), torch.Generator().manual_seed(0))
    assert ((acted.abs() - 0.8).abs() < 0.1).all()
    with pytest.raises(SettingError, match=r"most_deviation=0\.01 must be more than"):
        ActionSettings(least_deviation=0.03, most_deviation=0.01)


def test_the_likelihood_of_a_mixture_is_that_of_torch() -> None:
    from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

    made = decoder(2, modes=3)
    assert isinstance(made.head, GaussianMixture)
    outputs, actions = torch.randn(5, 3 * 5), torch.rand(5, 2)
    means, deviations, modes = made.head.mixture(outputs)
    mixture = MixtureSameFamily(
        Categorical(logits=modes), Independent(Normal(means, deviations), 1)
    )
    torch.testing.assert_close(made.loss(outputs, actions), -mixture.log_prob(actions).mean())


def test_a_mixture_of_chunks_leaves_padding_out() -> None:
    """Of two steps of which one is there, the likelihood is that of the first, halved."""
    made = decoder(2, modes=2, chunk=2)
    assert isinstance(made.head, GaussianMixture)
    outputs = torch.randn(1, sum(made.sizes))
    labels = torch.tensor([[[0.1, -0.2, 1.0], [0.5, 0.5, 0.0]]])
    means, deviations, modes = (part[0] for part in made.head.mixture(outputs))
    likelihood = torch.tensor(0.0)
    for mode in range(2):
        of_mode = modes[mode].exp()
        for number, value in enumerate([0.1, -0.2]):
            spread = deviations[mode, number]
            apart = (value - means[mode, number]) / spread
            of_mode = of_mode * (-0.5 * apart**2).exp() / (spread * math.sqrt(2 * math.pi))
        likelihood = likelihood + of_mode
    torch.testing.assert_close(made.loss(outputs, labels), -likelihood.log() / 2)


# ------------------------------------------------------------ the grip


def test_the_grip_is_learned_by_cross_entropy_and_done_by_its_mean() -> None:
    made = decoder(2, head="mse", grip="bernoulli")
    outputs = torch.tensor([[0.3, 1.2], [-0.1, -0.4]])
    labels = torch.tensor([[0.5, 1.0], [0.1, -0.5]])  # closed, and a quarter closed
    p = [1 / (1 + math.exp(-1.2)), 1 / (1 + math.exp(0.4))]
    entropy = [-math.log(p[0]), -(0.25 * math.log(p[1]) + 0.75 * math.log(1 - p[1]))]
    expected = ((0.2**2 + entropy[0]) + (0.2**2 + entropy[1])) / 2
    torch.testing.assert_close(made.loss(outputs, labels), torch.tensor(expected))
    acted = made.act(outputs, torch.Generator())
    expected_grip = [[[0.3, 2 * p[0] - 1]], [[-0.1, 2 * p[1] - 1]]]
    torch.testing.assert_close(acted, torch.tensor(expected_grip))


def test_a_grip_that_is_drawn_is_open_or_closed() -> None:
    made = decoder(2, modes=1, grip="bernoulli", act="draw")
    outputs = torch.zeros(2000, sum(made.sizes))
    outputs[:, -1] = math.log(3.0)  # closed in three of four cases
    grip = made.act(outputs, torch.Generator().manual_seed(0))[:, 0, -1]
    assert set(grip.tolist()) == {-1.0, 1.0}
    assert float((grip > 0).float().mean()) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("head", ["mse", "l1", "gmm", "flow"])
def test_every_head_can_have_a_grip_and_chunks(head: Any) -> None:
    torch.manual_seed(0)
    made = decoder(3, head=head, grip="bernoulli", chunk=4)
    outputs = torch.randn(5, sum(made.sizes), requires_grad=True)
    labels = torch.rand(5, 4, 4) * 2 - 1
    labels[..., -1] = torch.tensor([1.0, 1.0, 0.0, 0.0])
    loss = made.loss(outputs, labels)
    other = labels.clone()
    other[:, 2:, :-1] = 0.9  # what is behind the end does not count; a flow passes through it
    if head != "flow":
        torch.testing.assert_close(made.loss(outputs, other), loss)
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert (gradient[:, -2:] == 0).all()
    assert (gradient[:, -4:-2] != 0).all()
    assert made.act(outputs, torch.Generator()).shape == (5, 4, 3)


# ------------------------------------------------------------ chunks


def test_the_error_of_a_chunk_is_its_mean_with_padding_as_none() -> None:
    """As in ACT's code: the absolute error times the flag, mean over all of the chunk."""
    made = decoder(2, head="l1", chunk=3)
    outputs = torch.tensor([[0.1, 0.2, 0.3, 0.4, 9.0, 9.0]])
    labels = torch.tensor([[[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
    torch.testing.assert_close(made.loss(outputs, labels), torch.tensor(1.0 / 6))


def test_an_action_is_the_weighted_mean_of_what_was_predicted_of_it() -> None:
    """ACT's weights ``exp(-m i)``, i = 0 for the oldest, by hand."""
    chunks = torch.arange(4 * 3).reshape(4, 1, 3, 1).float()
    queue = ChunkQueue(3, None, 0.5)
    done = [float(queue.step(chunk)) for chunk in chunks]
    w = [1.0, math.exp(-0.5), math.exp(-1.0)]
    assert done[0] == 0.0
    assert done[1] == pytest.approx((w[0] * 1 + w[1] * 3) / (w[0] + w[1]))
    assert done[2] == pytest.approx((w[0] * 2 + w[1] * 4 + w[2] * 6) / sum(w))
    assert done[3] == pytest.approx((w[0] * 5 + w[1] * 7 + w[2] * 9) / sum(w))


def test_some_actions_of_a_chunk_are_done_before_the_next_is_taken() -> None:
    chunks = torch.arange(5 * 3).reshape(5, 1, 3, 1).float()
    queue = ChunkQueue(3, 2, 0.01)
    assert [float(queue.step(chunk)) for chunk in chunks] == [0.0, 1.0, 6.0, 7.0, 12.0]


@pytest.mark.parametrize("execute", [None, 3])
def test_rows_that_begin_anew_forget_what_was_predicted(execute: int | None) -> None:
    torch.manual_seed(0)
    chunks = torch.randn(4, 2, 3, 2)
    queue, alone = ChunkQueue(3, execute, 0.1), ChunkQueue(3, execute, 0.1)
    for t, chunk in enumerate(chunks):
        queue.forget(torch.tensor([t == 0, t in (0, 2)]))
        done = queue.step(chunk)
        if t >= 2:
            torch.testing.assert_close(done[1:], alone.step(chunk[1:]))


def test_a_policy_remembers_chunks_while_it_acts_and_not_after() -> None:
    torch.manual_seed(0)
    model = policy((3,), 2, hidden=(8,), actions=ActionSettings("l1", chunk=3, execute=3))
    assert isinstance(model, ActionPolicy)
    first, second = model(torch.randn(1, 3)).detach(), model(torch.randn(1, 3)).detach()
    generator = torch.Generator()
    for _ in range(2):
        with model.acting():
            model.reset(torch.tensor([True]))
            done = [model.action_of(outputs, generator) for outputs in (first, second, second)]
        torch.testing.assert_close(torch.stack(done, 1), first.unflatten(1, (3, 2)))
    torch.testing.assert_close(model.action_of(second, generator), second[:, :2])


# ------------------------------------------------------------ the flow


def test_the_loss_of_a_flow_is_that_of_its_straight_path() -> None:
    torch.manual_seed(0)
    flow = ActionFlow(2, 5)
    outputs, actions, noise = torch.randn(3, CONDITION), torch.rand(3, 2), torch.randn(3, 2)
    t = torch.tensor([[0.0], [0.45], [0.8]])
    found = flow.losses_at(outputs, actions, torch.tensor([1.0, 0.0]), noise, t)
    for row in range(3):
        point = (1 - t[row]) * noise[row] + t[row] * actions[row]
        wanted = actions[row] - noise[row]
        velocity = flow.velocity(outputs[row], point, t[row])
        expected = (1 - t[row, 0]) * (velocity[0] - wanted[0]) ** 2
        torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-6)


def test_a_flow_goes_from_noise_in_equal_steps() -> None:
    torch.manual_seed(0)
    flow, outputs = ActionFlow(2, 3), torch.randn(4, CONDITION)
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(5))
    for t in (0.0, 1 / 3, 2 / 3):
        x = x + flow.velocity(outputs, x, torch.full((4, 1), t)) / 3
    acted = flow.act(outputs, torch.Generator().manual_seed(5))
    torch.testing.assert_close(acted, x)
    assert not torch.equal(acted, flow.act(outputs, torch.Generator().manual_seed(6)))


def test_a_flow_reproduces_both_ways() -> None:
    x, actions = two_ways(128)
    model = policy((3,), 1, hidden=(16,), actions=ActionSettings("flow"))
    assert isinstance(model, ActionPolicy)
    fit(model, x, actions, 800, lr=3e-3)
    with torch.no_grad():
        acted = model.action_of(model(x), torch.Generator().manual_seed(0))
    near = (acted.abs() - 0.8).abs() < 0.25
    assert near.float().mean() > 0.85
    assert 0.45 < float((acted > 0).float().mean()) < 0.75


# ------------------------------------------------------------ what cannot be


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"chunk": 0}, r"model\.chunk must be at least 1"),
        ({"chunk": 4, "execute": 5}, r"model\.execute=5 exceeds the actions of a chunk"),
        ({"head": "flow", "act": "draw"}, r"model\.act=draw chooses how a mixture"),
        ({"head": "mse", "grip": "bernoulli", "act": "draw_mode"}, r"model\.act=draw_mode"),
        ({"modes": 0}, r"model\.modes must be at least 1"),
        ({"ensemble": -1.0}, r"model\.ensemble must be at least 0"),
        ({"head": "flow", "flow_steps": 0}, r"model\.flow_steps must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        ActionSettings(**settings)


def test_a_grip_needs_something_beside_it() -> None:
    with pytest.raises(SettingError, match="last number is the gripper's"):
        decoder(1, grip="bernoulli")
