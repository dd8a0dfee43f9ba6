"""What learning by reward is known to do, on two tasks that ask for opposite actions."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from clframe.core.results import Result
from clframe.plugins._fisher import fisher
from clframe.rl.actor import SquashedGaussian
from clframe.run import run
from clframe.testing import prepare, run_built

STREAM = {"name": "point_robot", "n_tasks": 2, "eval_episodes": 10, "horizon": 40}
LEARNER = {
    "name": "sac",
    **{"steps": 1200, "start_steps": 150, "remember": 600},
    **{"gamma": 0.95, "tau": 0.05, "critic_lr": 0.003, "temperature": 0.1},
}


@functools.cache
def learned(strategy: str) -> Result:
    heads = "task" if strategy in ("packnet", "multitask") else "shared"
    model = {"name": "actor", "hidden": [64, 64], "heads": heads}
    settings: dict[str, Any] = {"packnet": {"packnet": {"post_steps": 300}}}
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


def test_tasks_learned_together_are_all_held() -> None:
    result = learned("multitask")
    assert min(result.matrix.values[-1]) >= 0.5
    # All of it happens in the first experience.
    assert result.matrix.values[-2][0] == result.matrix.values[-1][0]


def test_tasks_learned_together_have_their_budget_each() -> None:
    learner: Any = prepare(
        {**STREAM, "n_tasks": 3, "eval_episodes": 1, "horizon": 7}, "multitask",
        {"name": "actor", "hidden": [8]},
        learner={**LEARNER, "steps": 40, "start_steps": 10, "reset": ["critics"]}, batch_size=8,
    ).learner  # fmt: skip
    run(learner, learner.stream, "multitask")
    interaction = learner.interaction
    assert interaction.made == [40, 40, 40]
    assert interaction.updates == 90
    tasks = interaction.transitions.newest(120)["task"]
    assert len(tasks) == 120
    assert tasks[:30].bincount().tolist() == [10, 10, 10]  # before the first update
    # An episode each, in turn.
    assert tasks[30:51].tolist() == [0] * 7 + [1] * 7 + [2] * 7
    # Each task leaves the states that were visited in it.
    for experience in learner.stream:
        left = learner.left_by(experience, experience.data)
        assert len(left) == 40
        rows = interaction.transitions.newest(120)["state"][tasks == experience.index]
        assert torch.equal(left.source.to(torch.device("cpu"))["state"], rows)


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
