"""One update of soft actor-critic, number by number as stable-baselines3 computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clframe.rl.online_data import TransitionBatch
from clframe.testing import prepare

stable_baselines3 = pytest.importorskip("stable_baselines3")
gymnasium = pytest.importorskip("gymnasium")

N, ACTIONS, WIDTH, RATE, TAU, GAMMA = 32, 2, 16, 3e-3, 0.01, 0.95


class Nothing(gymnasium.Env):  # type: ignore[misc,name-defined]
    """Only its spaces are looked at."""

    def __init__(self, n_inputs: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (n_inputs,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (ACTIONS,), np.float64)


def ours() -> Any:
    built = prepare(
        {"name": "point_robot", "n_tasks": 1},
        model={"name": "actor", "hidden": [WIDTH, WIDTH]},
        learner={
            "name": "sac",
            **{"critic_lr": RATE, "temperature_lr": RATE, "tau": TAU, "gamma": GAMMA},
            "temperature": 0.7,
        },
        optimizer={"name": "adam", "lr": RATE, "fused": False},
    )
    return built.learner.double()


def theirs(n_inputs: int) -> Any:
    model = stable_baselines3.SAC(
        "MlpPolicy",
        Nothing(n_inputs),
        learning_rate=RATE,
        batch_size=N,
        tau=TAU,
        gamma=GAMMA,
        ent_coef="auto_0.7",
        policy_kwargs={"net_arch": [WIDTH, WIDTH]},
        seed=3,
        device="cpu",
    )
    model.policy.double()
    model.log_ent_coef.data = model.log_ent_coef.data.double()
    # As learn() would; numbers are recorded and not shown.
    model.set_logger(stable_baselines3.common.logger.Logger(None, []))
    return model


def linear(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def actor_of(model: Any) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases of their actor in the places that ours has."""
    hidden = [(layer.weight, layer.bias) for layer in linear(model.actor.latent_pi)]
    mean, deviation = model.actor.mu, model.actor.log_std
    head = (
        torch.cat([mean.weight, deviation.weight]),
        torch.cat([mean.bias, deviation.bias]),
    )
    return [*hidden, head]


def stacked(critic: Any, pick: Any = lambda parameter: parameter) -> list[Tensor]:
    """Their two critics' weights (and then biases) as our stack of both."""
    layers = [linear(network) for network in critic.q_networks]
    pairs = list(zip(*layers, strict=True))
    weights = [torch.stack([pick(a.weight).T, pick(b.weight).T]) for a, b in pairs]
    biases = [torch.stack([pick(a.bias)[None], pick(b.bias)[None]]) for a, b in pairs]
    return [*weights, *biases]


def copy_weights(learner: Any, model: Any) -> None:
    with torch.no_grad():
        for layer, (weight, bias) in zip(linear(learner.model), actor_of(model), strict=True):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        for own, their in ((learner.critics, model.critic), (learner.targets, model.critic_target)):
            for parameter, value in zip(own.parameters(), stacked(their), strict=True):
                parameter.copy_(value)


def gradients(optimizer: Any) -> list[Tensor]:
    """Filled with what its parameters have when it takes a step."""
    seen: list[Tensor] = []
    step = optimizer.step

    def record(*arguments: Any, **more: Any) -> Any:
        seen.extend(p.grad.clone() for group in optimizer.param_groups for p in group["params"])
        return step(*arguments, **more)

    optimizer.step = record
    return seen


def test_losses_gradients_and_weights_are_those_of_stable_baselines3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = ours()
    n_inputs = learner.stream.input_shape[0]
    model = theirs(n_inputs)
    # It would make 32 bits of what is observed.
    where = "stable_baselines3.common.policies.preprocess_obs"
    monkeypatch.setattr(where, lambda seen, *a, **k: seen)
    copy_weights(learner, model)
    draw = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    x, next_x, action, reward = (
        normal(N, n_inputs),
        normal(N, n_inputs),
        normal(N, ACTIONS),
        normal(N),
    )
    action = action.tanh()
    terminated = (torch.arange(N) % 5 == 0).double()
    noise = [normal(N, ACTIONS), normal(N, ACTIONS)]

    batch = TransitionBatch(x, action, torch.zeros(N, dtype=torch.long))
    batch.next_x, batch.action, batch.reward, batch.terminated = next_x, action, reward, terminated
    waiting = list(noise)
    monkeypatch.setattr(learner, "_noise", lambda n: waiting.pop(0))
    losses: dict[str, float] = {}
    monkeypatch.setattr(learner, "_log", lambda name, value: losses.update({name: float(value)}))
    own = {name: gradients(o) for name, o in learner.interaction.optimizers.items()}
    step = learner.training_step(batch)
    step.loss.backward()
    optimizer = learner.configure_optimizers()
    optimizer.step()

    samples = stable_baselines3.common.type_aliases.ReplayBufferSamples(
        x, action, next_x, terminated[:, None], reward[:, None], None
    )
    monkeypatch.setattr(model, "replay_buffer", type("", (), {"sample": lambda *a, **k: samples})())
    queue = list(noise)
    monkeypatch.setattr(
        torch.distributions.normal, "_standard_normal", lambda *a, **k: queue.pop(0)
    )
    their_critics = gradients(model.critic.optimizer)
    their_temperature = gradients(model.ent_coef_optimizer)
    model.train(gradient_steps=1, batch_size=N)
    assert not waiting
    assert not queue

    said = model.logger.name_to_value
    assert losses["sac/temperature_loss"] == pytest.approx(said["train/ent_coef_loss"], abs=1e-6)
    assert losses["sac/critics_loss"] == pytest.approx(said["train/critic_loss"], abs=1e-6)
    assert float(step.loss.detach()) == pytest.approx(said["train/actor_loss"], abs=1e-6)

    def close(a: Tensor, b: Tensor) -> None:
        torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-6, atol=1e-6)
        assert a.abs().max() > 1e-4  # zeros would be equal, too

    close(own["temperature"][0], their_temperature[0])
    # Theirs come layer by layer, weight and bias, one critic after the other.
    pick = dict(zip(model.critic.parameters(), their_critics, strict=True)).__getitem__
    for mine, their in zip(own["critics"], stacked(model.critic, pick), strict=True):
        close(mine, their)
    head = [p.grad for p in (*model.actor.mu.parameters(), *model.actor.log_std.parameters())]
    hidden = [(p.weight.grad, p.bias.grad) for p in linear(model.actor.latent_pi)]
    wanted = [*hidden, (torch.cat([head[0], head[2]]), torch.cat([head[1], head[3]]))]
    for layer, (weight, bias) in zip(linear(learner.model), wanted, strict=True):
        close(layer.weight.grad, weight)
        close(layer.bias.grad, bias)
    # What all of this has moved.
    for layer, (weight, bias) in zip(linear(learner.model), actor_of(model), strict=True):
        close(layer.weight, weight)
        close(layer.bias, bias)
    for critics, critic in (
        (learner.critics, model.critic),
        (learner.targets, model.critic_target),
    ):
        for mine, their in zip(critics.parameters(), stacked(critic), strict=True):
            close(mine, their)
    close(learner.log_temperature, model.log_ent_coef)
