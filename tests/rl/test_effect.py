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
    heads = "shared" if strategy == "naive" else "task"
    model = {"name": "actor", "hidden": [64, 64], "heads": heads}
    settings: dict[str, Any] = {
        "packnet": {"packnet": {"post_steps": 300}},
        "ewc": {"ewc": {"weight": 100.0, "samples": 300}},
    }
    if strategy == "ewc":
        model["activation"] = "leaky_relu"
    learner = dict(LEARNER)
    if strategy == "multitask":  # one network for both needs longer
        learner["steps"] = 2400
    built = prepare(
        STREAM, settings.get(strategy, strategy), model, learner=learner, batch_size=64,
        optimizer={"name": "adam", "lr": 0.003}, evaluate_tasks="learned",
    )  # fmt: skip
    return run_built(built)


@pytest.mark.slow
def test_tasks_are_learned_and_the_first_one_is_forgotten() -> None:
    (_, (first, _), (at_the_end, second)) = learned("naive").matrix.values
    assert first >= 0.7
    assert second >= 0.7
    assert at_the_end <= 0.3


@pytest.mark.slow
def test_weights_of_its_own_hold_the_first_task() -> None:
    (_, (first, _), (at_the_end, second)) = learned("packnet").matrix.values
    assert first >= 0.7
    assert at_the_end >= first - 0.2
    assert second >= 0.5


@pytest.mark.slow
def test_tasks_learned_together_are_all_held() -> None:
    result = learned("multitask")
    assert min(result.matrix.values[-1]) >= 0.7
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
        left = learner.data_for_plugins(experience, experience.data)
        assert len(left) == 40
        rows = interaction.transitions.newest(120)["state"][tasks == experience.index]
        assert torch.equal(left.source.to(torch.device("cpu"))["state"], rows)


def test_transitions_of_an_earlier_task_train_what_is_its_own() -> None:
    learner: Any = prepare(
        {**STREAM, "n_tasks": 3, "eval_episodes": 1, "horizon": 7}, "naive",
        {"name": "actor", "hidden": [8], "heads": "task"},
        learner={**LEARNER, "steps": 20, "start_steps": 5, "reset": ["optimizers"]}, batch_size=8,
    ).learner  # fmt: skip
    run(learner, learner.stream, "naive")
    transitions = learner.interaction.transitions
    assert transitions.newest(60)["task"].bincount().tolist() == [20, 20, 20]
    batch = next(learner.stream.experiences[0].data.batches(torch.arange(90), 90))
    assert set(batch.task.tolist()) == {0, 1, 2}
    old = batch.rows((batch.task == 1).nonzero()[:, 0])
    gradients: dict[str, list[torch.Tensor]] = {}
    for name, optimizer in learner.interaction.optimizers.items():

        def note(name: str = name, optimizer: Any = optimizer) -> None:
            gradients[name] = [p.grad.clone() for p in optimizer.param_groups[0]["params"]]

        optimizer.step = note
    learner.zero_grad()
    learner.training_step(old).loss.backward()
    of_tasks = [gradients["temperature"][0].abs()]
    for parameter in learner.model.head.parameters():  # blocks of rows
        of_tasks.append(torch.stack([rows.abs().sum() for rows in parameter.grad.chunk(3)]))
    for gradient in gradients["critics"]:
        if gradient.shape[-1] == 3:  # the last layer: a column for each task
            of_tasks.append(gradient.abs().flatten(0, 1).sum(0))
    assert len(of_tasks) == 5
    for values in of_tasks:
        assert (values > 0).tolist() == [False, True, False]


def test_actions_are_chosen_before_the_update_that_they_overlap_with() -> None:
    seen: dict[bool, list[int]] = {}
    for overlap in (False, True):
        learner: Any = prepare(
            {**STREAM, "eval_episodes": 1, "horizon": 7, "n_tasks": 1}, "naive",
            {"name": "actor", "hidden": [8]},
            learner={**LEARNER, "steps": 12, "start_steps": 5, "overlap": overlap}, batch_size=8,
        ).learner  # fmt: skip
        updates, plain, noted = [0], learner.act, seen.setdefault(overlap, [])
        step = learner.training_step

        def act(*arguments: Any, u: Any = updates, p: Any = plain, n: Any = noted) -> Any:
            n.append(u[0])
            return p(*arguments)

        def training_step(batch: Any, u: Any = updates, s: Any = step) -> Any:
            u[0] += 1
            return s(batch)

        learner.act, learner.training_step = act, training_step
        run(learner, learner.stream, "naive")
        assert learner.interaction.made == [12]
        assert learner.interaction.decisions == 12
    assert seen[False] == [0, 1, 2, 3, 4, 5, 6]
    assert seen[True] == [0, 0, 1, 2, 3, 4, 5]


@pytest.mark.slow
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
    learner.engine.bind(learner)
    experience = stream.experiences[0]
    learner.begin(experience)
    learner.train_on(experience.data, learner.engine.settings.budget)
    left = learner.data_for_plugins(experience, experience.data)
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
