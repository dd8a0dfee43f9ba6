"""What attach promises beside equal bits: refusals, state, clean hooks, and its mathematics."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import clframe
from clframe.attached.checks import reason_against
from clframe.core.registry import discover
from clframe.errors import ClframeError, DataError, PluginError, SettingError
from clframe.models.classifier import Classifier
from clframe.plugins import EWC, MAS, SI, LwF, PackNet, Replay
from clframe.strategies import compose, known_strategies

REGISTRY = discover()
X, Y = torch.randn(24, 4, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 3


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return Classifier(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), 8, 3)


def attached(strategy: Any, **settings: Any) -> tuple[Any, torch.optim.Optimizer, Any]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return model, optimizer, clframe.attach(model, optimizer, strategy, **settings)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Any = X, y: Any = Y) -> None:
    optimizer.zero_grad()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()


# ---------------------------------------------------------------- who can be attached


@pytest.mark.parametrize("name", known_strategies(REGISTRY))
def test_every_strategy_attaches_or_says_why_not(name: str) -> None:
    model = make_model()
    before = {n: (p, p.requires_grad) for n, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scenarios: Any = ["domain", "class", "task"]
    chosen = known_strategies(REGISTRY)[name].plugins
    for plugin in chosen:
        allowed = REGISTRY.get("plugin", plugin).factory.scenarios
        scenarios = [scenario for scenario in scenarios if scenario in allowed]
    against = [reason_against(REGISTRY.get("plugin", plugin).factory) for plugin in chosen]
    said = ""
    try:
        clframe.attach(model, optimizer, name, scenario=scenarios[0], tasks=[[0], [1], [2]]).close()
    except ClframeError as error:
        said = str(error)
    assert "\n" not in said
    # One wants folders before anything else, one has a setting that freezes.
    assert bool(said) == (any(against) or name == "linear_probe")
    if said and name not in ("continual_world", "linear_probe"):
        assert next(reason for reason in against if reason) in said
    now = {n: (p, p.requires_grad) for n, p in model.named_parameters()}
    assert now == before


def test_hooks_are_gone_afterwards() -> None:
    for strategy in ("replay+ewc", "freeze", "cbp"):
        model, optimizer, cl = attached(strategy)
        with pytest.raises(SettingError, match="already attached to this Classifier"):
            clframe.attach(model, optimizer, "si")
        with pytest.raises(ZeroDivisionError), cl:
            1 / 0  # noqa: B018
        for module in model.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
        assert not optimizer._optimizer_step_pre_hooks
        assert not optimizer._optimizer_step_post_hooks
        with clframe.attach(model, optimizer, strategy):
            pass


def test_copies_of_the_model_are_free_of_hooks() -> None:
    model, _, cl = attached([Replay(), LwF()])
    with cl, cl.experience("a", (X, Y)):
        expected = model.eval()(X)
        saved = io.BytesIO()
        torch.save(model, saved)
        saved.seek(0)
        for other in (copy.deepcopy(model), torch.load(saved, weights_only=False)):
            # In training mode the attached one would ask for labels.
            assert torch.equal(other.train()(X), expected)


# ---------------------------------------------------------------- its mathematics


def test_importance_and_penalty_by_hand() -> None:
    """F is the mean of squared gradients; a step adds weight * F * (theta - anchor)."""
    model = nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    portions = iter(X.split(8))

    def closure() -> torch.Tensor:
        return model(next(portions)).square().mean()

    ewc = EWC(weight=3.0, fisher="batch")
    with clframe.attach(model, optimizer, [ewc]) as cl:
        with cl.experience("a", importance=closure, importance_batches=2):
            optimizer.zero_grad()
            model(X).sum().backward()
            optimizer.step()
        anchor = model.weight.detach().clone()
        # The first call only finds out that losses have no outputs to look at.
        fisher = torch.stack(
            [(2 * (x @ anchor.T) * x).mean(0)[None].square() for x in X.split(8)[1:3]]
        ).mean(0)
        torch.testing.assert_close(ewc.quadratic.strength["weight"], fisher)
        with cl.experience("b", importance=closure):
            for _ in range(2):
                theta = model.weight.detach().clone()
                optimizer.zero_grad()
                model(X).mean().backward()
                optimizer.step()
                by_hand = theta - 0.05 * (X.mean(0)[None] + 3.0 * fisher * (theta - anchor))
                torch.testing.assert_close(model.weight.detach(), by_hand)
            portions = iter(X.split(8) * 20)


def test_replayed_samples_count_as_many_as_their_own() -> None:
    """The gradient is that of the mean over the host's and the remembered samples."""
    model, optimizer, cl = attached([Replay(size=24, batch_size=8)], loss=functional.cross_entropy)
    with cl:
        with cl.experience("a", (X, Y)):
            cl.batch(X, Y)
            step(model, optimizer)
        with cl.experience("b", (X + 1, Y)):
            # The same draw by hand.
            draw = torch.Generator()
            draw.set_state(cl.learner.generator.get_state())
            buffer = cl.learner.plugins.ordered[0].buffer
            positions = buffer.draw(8, draw)
            x = torch.cat([X + 1, buffer.inputs[positions]])
            y = torch.cat([Y, buffer.columns["labels"][positions]])
            other = copy.deepcopy(model)
            functional.cross_entropy(other(x), y).backward()
            optimizer.zero_grad()
            cl.batch(X + 1, Y)
            out = model(X + 1)
            assert len(out) == 24
            functional.cross_entropy(out, Y).backward()
            for p, q in zip(model.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad)
            optimizer.step()


def test_the_whole_loss_can_be_scaled() -> None:
    """With cl.loss, what the host does to its loss is done to the plugins' terms as well."""
    gradients = []
    for scale in (1.0, 0.25):
        model, optimizer, cl = attached([LwF(), Replay(size=10)])
        with cl:
            for name in ("a", "b"):
                with cl.experience(name, (X, Y)):
                    optimizer.zero_grad()
                    cl.batch(X, Y)
                    (scale * cl.loss(functional.cross_entropy(model(X), Y))).backward()
                    gradients.append([p.grad / scale for p in model.parameters()])
                    if name == "a":
                        optimizer.zero_grad()  # both go on from the same weights
                    optimizer.step()
    for one, other in zip(gradients[1], gradients[3], strict=True):
        torch.testing.assert_close(one, other)


def test_a_closure_given_to_the_optimizer() -> None:
    """LBFGS and Lightning pass and differentiate within the step: plugins act after that."""
    ends = []
    for by_closure in (False, True):
        model, optimizer, cl = attached([EWC(weight=100.0), SI()])
        with cl:
            for name in ("a", "b"):
                with cl.experience(name, (X, Y)):
                    for _ in range(3):

                        def closure(model: Any = model, optimizer: Any = optimizer) -> Any:
                            optimizer.zero_grad()
                            loss = functional.cross_entropy(model(X), Y)
                            loss.backward()
                            return loss

                        if by_closure:
                            optimizer.step(closure)
                        else:
                            closure()
                            optimizer.step()
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


# ---------------------------------------------------------------- outputs


def test_outputs_that_do_not_compete_are_masked() -> None:
    lowest = torch.finfo(torch.float32).min
    model, _, cl = attached("naive", scenario="class")
    with cl:
        with cl.experience("a", (X, Y % 2)):
            out = model(X)
            assert bool((out[:, 2] == lowest).all())
            assert bool((out[:, :2] > lowest).all())
        with cl.experience("b", outputs=[2]):
            assert bool((model(X) > lowest).all())
    model, _optimizer, cl = attached("naive", scenario="task", tasks=[[0, 1], [2]])
    with cl:
        for name, closed in (("a", [2]), ("b", [0, 1])):
            with cl.experience(name):
                assert bool((model(X)[:, closed] == lowest).all())
        with cl.task("a"):
            assert bool((model(X)[:, [2]] == lowest).all())
        with pytest.raises(SettingError, match="no task 'c'"), cl.task("c"):
            pass


# ---------------------------------------------------------------- state


def all_at_once() -> list[Any]:
    _, others = compose(["agem", "der"], REGISTRY)
    return [EWC(weight=10.0), SI(), MAS(), LwF(), Replay(size=20), *others]


@pytest.mark.parametrize(
    ("plugins", "scenario"),
    [(all_at_once, "class"), (lambda: [PackNet(post_epochs=1)], "task")],
    ids=["all", "packnet"],
)
def test_a_saved_state_goes_on_to_the_bit(attaching: Any, plugins: Any, scenario: Any) -> None:
    """Saved in the midst of an epoch of the second experience, loaded into new objects."""
    pair = attaching.Pair(plugins, scenario)
    whole = pair.by_hand(whole=True)

    def go(stop: int | None, saved: Any = None) -> Any:
        model, optimizer, cl = pair.attached()
        with cl:
            if saved is not None:
                state = torch.load(io.BytesIO(saved), weights_only=True)
                cl.load_state_dict(state["cl"])
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for experience in pair.stream:
                if experience.name in cl.seen:
                    continue
                with cl.experience(experience.name, experience.data):
                    while cl.epoch < 2:
                        for x, y in cl.batches():
                            optimizer.zero_grad()
                            cl.loss(functional.cross_entropy(model(x), y)).backward()
                            optimizer.step()
                            if cl.steps == stop:
                                file = io.BytesIO()
                                parts = {"model": model, "optimizer": optimizer, "cl": cl}
                                torch.save({k: v.state_dict() for k, v in parts.items()}, file)
                                return file.getvalue()
        return model.state_dict()

    assert attaching.equal(go(None, go(17)), whole)


def test_a_state_that_does_not_fit_is_refused() -> None:
    model, optimizer, cl = attached("ewc", resume_within=False)
    with cl:
        state = cl.state_dict()
        with cl.experience("a", (X, Y)):
            with pytest.raises(SettingError, match="between two experiences"):
                cl.state_dict()
            step(model, optimizer)
        with pytest.raises(SettingError, match="before the first experience"):
            cl.load_state_dict(state)
        state = cl.state_dict()
    with clframe.attach(model, optimizer, "si") as other:
        with pytest.raises(SettingError, match="strategy ewc, but si is attached"):
            other.load_state_dict(state)
        with pytest.raises(SettingError, match="version 7"):
            other.load_state_dict({**state, "version": 7})
    model, optimizer, cl = attached("ewc")
    with cl, cl.experience("a", (X, Y)):
        state = cl.state_dict()
    with clframe.attach(model, optimizer, "ewc") as other:
        other.load_state_dict(state)
        midst = pytest.raises(SettingError, match="within experience 'a'")
        with midst, other.experience("b", (X, Y)):
            pass


# ---------------------------------------------------------------- what is missing


def test_what_is_missing_is_said_in_a_sentence() -> None:
    def refused(strategy: Any, message: str, error: Any = PluginError, **given: Any) -> None:
        settings = given.pop("settings", {})
        _model, _, cl = attached(strategy, **settings)
        with pytest.raises(error, match=message) as caught, cl, cl.experience("a", **given):
            pass
        assert "\n" not in str(caught.value)

    def closure() -> torch.Tensor:
        return torch.zeros(())

    refused("ewc", "'ewc' needs the samples of experience 'a'")
    refused("ewc", "set fisher=batch", importance=closure)
    refused("mas", "give data= instead", importance=closure)
    refused("ewc", "one of them", SettingError, importance=closure, data=(X, Y))
    refused("packnet", "retrain=", settings={"scenario": "task"})
    refused("lwf", "labels that are classes", data=(X, X))
    refused("ewc", "24 inputs and 3 labels", DataError, data=(X, Y[:3]))
    refused("naive", "outputs=", SettingError, outputs=[0])
    refused("naive", "give data= or outputs=", SettingError, settings={"scenario": "class"})
    model, optimizer, cl = attached("replay")
    with cl, cl.experience("a", (X, Y)):
        with pytest.raises(PluginError, match=r"cl\.loader"):
            model(X)
        cl.batch(X, Y)
        with pytest.raises(PluginError, match=r"8 samples .* 24 labels"):
            model(X[:8])
        with pytest.raises(SettingError, match="begins within"), cl.experience("b"):
            pass
        model.eval()(X)  # evaluation asks for nothing
        with pytest.raises(PluginError, match="no pass of the model"):
            optimizer.step()
    with pytest.raises(SettingError, match="holds no parameter"):
        clframe.attach(make_model(), optimizer)
    with pytest.raises(SettingError, match="closed"), cl.experience("c"):
        pass
    model, optimizer, cl = attached("naive", tasks=1)
    with cl, cl.experience("a"):
        step(model, optimizer)
    model, optimizer, cl = attached("naive", tasks=1)
    with cl:
        with cl.experience("a"):
            pass
        with pytest.raises(SettingError, match="one more than the 1"), cl.experience("b"):
            pass


def test_packnet_refuses_a_task_that_comes_back() -> None:
    model, optimizer, cl = attached([PackNet(post_epochs=0)], scenario="task", tasks=[[0, 1], [2]])
    with cl:
        with cl.experience("a", (X, Y % 2)):
            step(model, optimizer, y=Y % 2)
        fixed = pytest.raises(PluginError, match="task 'a' are fixed")
        with fixed, cl.experience("again", (X, Y % 2), task="a"):
            pass


def test_loaders_of_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer, cl = attached([Replay(size=10)])
    samples = TensorDataset(X, Y)
    mappings = [{"pixels": X[:8], "labels": Y[:8]}]
    with cl, cl.experience("a", samples):
        for x, y in cl.loader(DataLoader(samples, 8, num_workers=1)):
            step(model, optimizer, x, y)
        for item in cl.loader(mappings):
            step(model, optimizer, item["pixels"], item["labels"])
        assert (cl.epoch, cl.steps) == (2, 4)
        with pytest.raises(DataError, match="has no labels"):
            next(cl.loader([{"pixels": X}]))
        collate = cl.collate(torch.utils.data.default_collate)
        # As in a worker, whose death in a real one a loader waits five seconds for.
        monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_info", object())
        with pytest.raises(PluginError, match="num_workers=0"):
            collate([samples[0]])


def test_another_optimizer() -> None:
    model, optimizer, cl = attached([EWC(weight=1e3)])
    with cl:
        with cl.experience("a", (X, Y)):
            step(model, optimizer)
        other = torch.optim.SGD(model.parameters(), 0.1)
        cl.rebind(other)
        with cl.experience("b", (X, Y)):
            step(model, other)
            step(model, optimizer)  # no longer counted
            assert cl.steps == 2
