"""What learning by reward is known to do, on two tasks that ask for opposite actions."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from clframe.core.results import Result
from clframe.plugins._fisher import fisher
from clframe.rl.actor import SquashedGaussian
from clframe.testing import prepare, run_built

STREAM = {"name": "point_robot", "n_tasks": 2, "eval_episodes": 10, "horizon": 40}
LEARNER = {
    "name": "sac",
    **{"steps": 1200, "start_steps": 150, "remember": 600},
    **{"gamma": 0.95, "tau": 0.05, "critic_lr": 0.003, "temperature": 0.1},
}


@functools.cache
def learned(strategy: str) -> Result:
    heads = "shared" if strategy == "naive" else "task"
    model = {"name": "actor", "hidden": [64, 64], "heads": heads}
    settings: dict[str, Any] = {
        "packnet": {"packnet": {"post_steps": 300}},
        "ewc": {"ewc": {"weight": 100.0, "samples": 300}},
    }
    if strategy == "ewc":
        model["activation"] = "leaky_relu"
    built = prepare(
        STREAM, settings.get(strategy, strategy), model, learner=LEARNER, batch_size=64,
        optimizer={"name": "adam", "lr": 0.003}, evaluate_tasks="learned",
    )  # fmt: skip
    return run_built(built)


def test_tasks_are_learned_and_the_first_one_is_forgotten() -> None:
    (_, (first, _), (at_the_end, second)) = learned("naive").matrix.values
    assert first >= 0.7
    assert second >= 0.7
    assert at_the_end <= 0.3


def test_weights_of_its_own_hold_the_first_task() -> None:
    (_, (first, _), (at_the_end, second)) = learned("packnet").matrix.values
    assert first >= 0.7
    assert at_the_end >= first - 0.2
    assert second >= 0.5


def test_what_the_first_policy_depends_on_is_held() -> None:
    (_, (first, _), (at_the_end, second)) = learned("ewc").matrix.values
    assert first >= 0.7
    assert at_the_end >= first - 0.2
    assert second >= 0.5


def test_an_experience_leaves_visited_states_with_the_policys_outputs() -> None:
    learner: Any = prepare(
        STREAM, model={"name": "actor", "hidden": [8]},
        learner={**LEARNER, "steps": 60, "start_steps": 20, "remember": 30}, batch_size=8,
    ).learner  # fmt: skip
    stream = learner.stream
    learner.plugins.hook.configure(learner=learner, stream=stream)
    learner.engine.attach(learner)
    experience = stream.experiences[0]
    learner.begin(experience)
    learner.train_on(experience.data, learner.engine.settings.budget)
    left = learner.left_by(experience, experience.data)
    assert len(left) == 30
    assert torch.equal(
        left.source.to(torch.device("cpu"))["state"],
        learner.interaction.transitions.newest(30)["state"],
    )
    batch = next(iter(left.batches(torch.arange(30), 30)))
    outputs = learner.run_model(batch.x, batch.task)[0]
    torch.testing.assert_close(batch.y, outputs.detach())
    assert float(learner.task_loss(outputs, batch).detach()) == pytest.approx(0, abs=1e-5)

    # The Fisher information is that of the policy's Gaussian, by hand.
    model: SquashedGaussian = learner.model
    named = learner.named_trainable()
    expected = {name: torch.zeros_like(p) for name, p in named.items()}
    for row in range(30):
        means, log_std = model.gaussian(model(batch.x[row : row + 1]))
        std = log_std.exp()
        for number in range(2):
            for value, weight in ((means, 1.0), (std, 2.0)):
                grads = torch.autograd.grad(
                    value[0, number], list(named.values()), retain_graph=True,
                    materialize_grads=True,
                )  # fmt: skip
                for name, gradient in zip(named, grads, strict=True):
                    share = weight / float(std[0, number].detach()) ** 2 / 30
                    expected[name] += share * gradient.square()
    for name, value in fisher(learner, left).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-6)
