from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import clframe
from clframe import Capabilities, Learner, Plugin, PluginError, Step, hookimpl
from clframe.models.vae import VAE
from clframe.plugins.freeze import Freeze
from clframe.plugins.generative_replay import GenerativeReplay
from clframe.plugins.replay import Replay
from clframe.testing import check_plugin, toy_run, toy_stream

SCENARIOS = ("task", "domain", "class")


def small(**settings: Any) -> GenerativeReplay:
    return GenerativeReplay(**{"hidden": (32,), "latent": 8, "lr": 0.01, **settings})


class Watch(Plugin):
    """Keeps what each step was made of, with the parameters it was made with."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, Step, dict[str, torch.Tensor]]] = []

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        model = {k: v.clone() for k, v in learner.model.state_dict().items()}
        self.steps.append((len(learner.seen), step, model))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("distill", [False, True])
def test_it_keeps_the_contract(scenario: Any, distill: bool) -> None:
    check_plugin(small(distill=distill), toy_stream(scenario))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_internal_replay_keeps_the_contract(scenario: Any) -> None:
    # check_plugin takes one plugin; a strategy of two is compared by hand.
    from clframe.testing import interrupted_run

    def plugins() -> list[Plugin]:
        return [Freeze(after=1), small(replay="features", distill=True)]

    whole, _ = toy_run(plugins(), toy_stream(scenario))
    again, _ = toy_run(plugins(), toy_stream(scenario))
    parts = interrupted_run(plugins(), toy_stream(scenario))
    assert (whole.matrix.values == again.matrix.values).all()
    assert (whole.matrix.values == parts.matrix.values).all()


def softmax(row: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    raised = np.exp((row - row.max()) / temperature)
    return np.asarray(raised / raised.sum())


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("distill", [False, True])
def test_the_loss_of_a_step_is_the_formula_of_the_paper(scenario: Any, distill: bool) -> None:
    """1/t L_current + (1 - 1/t) L_replay, computed sample by sample from the models."""
    stream, watch, plugin = toy_stream(scenario), Watch(), small(distill=distill)
    teachers: list[nn.Module] = []

    class Teachers(Plugin):
        @hookimpl
        def after_experience(self, learner: Learner) -> None:
            teachers.append(copy.deepcopy(learner.model).eval())

    _, learner = toy_run([plugin, watch, Teachers()], stream, max_epochs=1)
    temperature = 2.0
    for past in (1, 2):
        _, step, weights = [s for s in watch.steps if s[0] == past][-1]
        assert len(step.parts) == 2
        new_part, replayed = step.parts
        assert replayed.weight == past
        student = copy.deepcopy(learner.model)
        student.load_state_dict(weights)
        with torch.no_grad():
            new_logits = student(new_part.x).double().numpy()
            new = student(replayed.x).double().numpy()
            old = teachers[past - 1](replayed.x).double().numpy()
        groups = [list(task.outputs) for task in stream.tasks]
        before = sorted({u for group in groups[:past] for u in group})
        now = sorted({u for group in groups[: past + 1] for u in group})
        if scenario == "task":
            current = groups[past]
            pairs = [(group, group) for group in groups[:past]]
        else:
            current = now
            pairs = [(before, now)]
        loss_current = np.mean(
            [
                -np.log(softmax(row[current])[current.index(int(label))])
                for row, label in zip(new_logits, new_part.y, strict=True)
            ]
        )
        losses = []
        for taught, learned in pairs:
            for student_row, teacher_row in zip(new, old, strict=True):
                if distill:
                    p = softmax(teacher_row[taught], temperature)
                    q = softmax(student_row[learned], temperature)
                    places = [learned.index(u) for u in taught]
                    losses.append(-(temperature**2) * (p * np.log(q[places])).sum())
                else:
                    label = taught[int(teacher_row[taught].argmax())]
                    losses.append(-np.log(softmax(student_row[learned])[learned.index(label)]))
        t = past + 1
        expected = loss_current / t + (1 - 1 / t) * np.mean(losses)
        assert float(step.loss.detach()) == pytest.approx(expected, rel=1e-4)  # type: ignore[union-attr]


def test_labels_are_the_previous_models_and_inputs_the_previous_generators() -> None:
    watch, plugin = Watch(), small()
    prior: list[tuple[VAE, nn.Module]] = []

    class Snapshots(Plugin):
        @hookimpl
        def after_experience(self, learner: Learner) -> None:
            both = (plugin.generator_model, learner.model)
            prior.append(copy.deepcopy(both))
            states.append(learner.generator.get_state())

    states: list[torch.Tensor] = []
    toy_run([plugin, watch, Snapshots()], toy_stream("class"), max_epochs=1)
    first_of_second = next(step for seen, step, _ in watch.steps if seen == 1)
    generator, classifier = prior[0]
    noise = torch.Generator()
    noise.set_state(states[0])
    replayed = first_of_second.parts[1]
    with torch.no_grad():
        drawn = generator.sample(len(replayed), noise)
        labels = classifier.eval()(drawn)[:, :2].argmax(1)  # only two classes were seen by then
    assert torch.equal(replayed.x, drawn)
    assert torch.equal(replayed.y, labels)


def test_the_generator_learns_from_the_mix_with_the_same_weights() -> None:
    """One step of an Adam of our own on the weighted loss gives the same generator."""
    plugin = small()
    checked: list[int] = []

    class Compare(Plugin):
        @hookimpl(tryfirst=True)
        def after_step(self, learner: Learner, step: Step) -> None:
            self.before = copy.deepcopy(plugin.generator_model)
            self.optimizer = torch.optim.Adam(self.before.parameters(), lr=0.01)
            self.optimizer.load_state_dict(copy.deepcopy(plugin.optimizer.state_dict()))
            self.noise = learner.generator.get_state()

    class After(Plugin):
        @hookimpl(trylast=True)
        def after_step(self, learner: Learner, step: Step) -> None:
            noise = torch.Generator()
            noise.set_state(compare.noise)
            x = torch.cat([part.x for part in step.parts])
            losses = compare.before.losses(x, noise)
            n, t = len(step.batch), len(learner.seen) + 1
            loss = losses[:n].sum() / n / t
            if t > 1:
                loss = loss + (1 - 1 / t) * losses[n:].sum() / (len(x) - n)
            compare.optimizer.zero_grad()
            loss.backward()
            compare.optimizer.step()
            for mine, theirs in zip(
                compare.before.parameters(), plugin.generator_model.parameters(), strict=True
            ):
                torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
            checked.append(t)

    compare = Compare()
    toy_run([compare, plugin, After()], toy_stream("class"), max_epochs=1)
    assert set(checked) == {1, 2, 3}


def test_the_number_of_replayed_inputs_can_be_set() -> None:
    watch = Watch()
    toy_run([small(replay_size=5), watch], toy_stream("class"), max_epochs=1)
    assert {len(s.parts[1]) for n, s, _ in watch.steps if n} == {5}


def test_the_loss_of_the_generator_is_logged() -> None:
    seen = []

    class Logs(Plugin):
        @hookimpl(trylast=True)
        def after_epoch(self, logs: dict[str, Any]) -> None:
            seen.append(logs["generator_loss"])

    toy_run([small(likelihood="gaussian"), Logs()], toy_stream("class"))
    assert len(seen) == 6
    assert seen[0] > seen[1] > 0


def test_internal_replay_needs_fixed_features() -> None:
    with pytest.raises(PluginError, match="add plugin 'freeze'"):
        toy_run([small(replay="features")], toy_stream("class"))


class FrozenElsewhere(Plugin):
    """Says that features stay, under a name that no other plugin knows."""

    capabilities = Capabilities(frozen_features=True)


class GatedElsewhere(Plugin):
    """Says that units are gated by task, under a name that no other plugin knows."""

    capabilities = Capabilities(task_gated=True)


def test_what_another_plugin_says_of_itself_counts_not_its_name() -> None:
    toy_run([FrozenElsewhere(), small(replay="features")], toy_stream("class"))
    alone, beside = small(), small()
    toy_run([alone], toy_stream("task"))
    toy_run([GatedElsewhere(), beside], toy_stream("task"))
    assert alone.targets.every_task
    assert not beside.targets.every_task


def test_inputs_outside_0_to_1_are_refused_for_bernoulli() -> None:
    with pytest.raises(PluginError, match="set likelihood=gaussian"):
        toy_run([small(likelihood="bernoulli")], toy_stream("class"))


@pytest.mark.parametrize("plugin", ["generative_replay", "feedback_replay"])
def test_convolutional_generators_make_images(plugin: str) -> None:
    watch = Watch()
    kind = {"generative_replay": {"generator": "conv"}, "feedback_replay": {"decoder": "conv"}}
    clframe.fit(
        clframe.stream("split_mnist", n_experiences=2),
        [{plugin: {**kind[plugin], "hidden": [20], "latent": 4}}, watch],
        {"name": "cnn", "channels": [4], "features": 8},
        max_steps=2,
        batch_size=8,
        run_dir=False,
        progress=False,
        logger=None,
    )
    replayed = watch.steps[-1][1].parts[1].x
    assert replayed.shape == (8, 1, 28, 28)
    assert 0 < float(replayed.amin()) < float(replayed.amax()) < 1


def test_internal_replay_learns_from_the_experiences_own_features() -> None:
    """A buffer beside it adds parts to the step, which are not what the generator learns."""
    plugin = small(replay="features")
    learned: list[int] = []

    class Compare(Plugin):
        @hookimpl(tryfirst=True)
        def after_step(self, step: Step) -> None:
            model, own = plugin.generator_model, step.features[0]
            losses = type(model).losses.__get__(model)

            def compared(inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
                torch.testing.assert_close(inputs[: len(own)], own)
                learned.append(len(step.parts))
                result: torch.Tensor = losses(inputs, generator)
                return result

            model.losses = compared  # type: ignore[method-assign]

        @hookimpl(trylast=True)
        def after_experience(self) -> None:
            vars(plugin.generator_model).pop("losses", None)

    toy_run(
        [Freeze(after=1), Compare(), plugin, Replay(size=20)], toy_stream("class"), max_epochs=1
    )
    assert max(learned) == 2
