"""Heads for actions in runs: with every method, with labels from demonstrations, and resumed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clframe
from clframe.checkpoint.checkpointer import CheckpointSettings
from clframe.core.results import Result
from clframe.errors import PluginError, SettingError
from clframe.models.actions.flow import ActionFlow
from clframe.plugins._fisher import fisher
from clframe.robot.chunks import chunk_labels
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.testing import Kill, Killed, prepare, run_built

STREAM = {"name": "point_robot", "n_tasks": 2, "num_demos": 3, "eval_episodes": 2, "num_workers": 0}
HEADS: dict[str, dict[str, Any]] = {
    "mixture": {"head": "gmm", "modes": 2, "grip": "bernoulli", "chunk": 3, "act": "draw_mode"},
    "direct": {"head": "l1", "chunk": 3, "execute": 2},
    "flow": {"head": "flow", "chunk": 3, "heads": "task"},
}
METHODS = {
    "replay": {"replay": {"size": 50}},
    "ewc": {"ewc": {"fisher": "true"}},
    "ewc_batch": {"ewc": {"fisher": "batch"}},
    "si": "si",
    "packnet": {"packnet": {"prune": 0.6}},
    "multitask": "multitask",
    "agem": "agem",
}


def prepared(strategy: Any = "naive", model: dict[str, Any] | None = None) -> Any:
    return prepare(
        STREAM,
        strategy,
        {"name": "policy", "hidden": [8], **(model or {})},
        trainer={"max_epochs": 1, "batch_size": 32},
    )


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("method", METHODS)
def test_methods_act_on_every_head(method: str, head: str) -> None:
    result = run_built(prepared(METHODS[method], HEADS[head]))
    assert np.isfinite(result.matrix.learned[-1]).all()


@pytest.mark.parametrize("head", ["mixture", "direct"])
@pytest.mark.parametrize("method", ["mas", "der"])
def test_what_keeps_outputs_keeps_actions(method: str, head: str) -> None:
    run_built(prepared(method, HEADS[head]))


@pytest.mark.parametrize(("method", "instead"), [("mas", "ewc"), ("der", "replay")])
def test_what_keeps_outputs_does_not_keep_a_flow(method: str, instead: str) -> None:
    with pytest.raises(PluginError, match=f"model.head=flow only .* choose {instead}"):
        run_built(prepared(method, HEADS["flow"]))


def test_labels_of_chunks_end_with_the_demonstration() -> None:
    actions = torch.arange(5.0)[:, None]
    labels = chunk_labels(actions, [3, 2], 3)
    assert labels[:, :, 0].tolist() == [[0, 1, 2], [1, 2, 2], [2, 2, 2], [3, 4, 4], [4, 4, 4]]
    assert labels[:, :, 1].tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]]


def test_a_stream_gives_the_actions_that_follow() -> None:
    plain, chunked = prepared().stream, prepared(model={"head": "l1", "chunk": 4}).stream
    wanted, labels = plain.experiences[1].load().labels, chunked.experiences[1].load().labels
    lengths = [len(demo) for demo in plain.read(1)]
    assert labels.shape == (sum(lengths), 4, 3)
    assert torch.equal(labels[:, 0, :2], wanted)
    assert torch.equal(labels[: lengths[0] - 1, 1, :2], wanted[1 : lengths[0]])
    assert labels[lengths[0] - 1, :, 2].tolist() == [1, 0, 0, 0]


# ------------------------------------------------------------ the Fisher information of a flow


def flow_gradients(learner: Any, batch: Any) -> dict[str, Tensor]:
    parameters = learner.named_trainable()
    outputs, _ = learner.run_model(batch.x, batch.task)
    gradients = torch.autograd.grad(learner.label_loss(outputs, batch), list(parameters.values()))
    return dict(zip(parameters, gradients, strict=True))


def test_the_fisher_of_batches_is_that_of_the_flows_loss() -> None:
    learner = prepared(model={"head": "flow"}).learner
    data = learner.stream.experiences[0].load().subset(torch.arange(8))
    torch.manual_seed(3)
    found = fisher(learner, data, "batch", batch_size=8)
    torch.manual_seed(3)
    # Drawn noise goes by the place in a batch, which the estimate shuffles.
    learner.generator.manual_seed(learner.seed)
    order = torch.randperm(8, generator=learner.generator)
    (batch,) = data.batches(order, 8)
    for name, gradient in flow_gradients(learner.eval(), batch).items():
        torch.testing.assert_close(found[name], gradient.square())
        assert (found[name] > 0).any()


def test_the_fisher_of_samples_goes_through_the_flows_own_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def losses(self: ActionFlow, outputs: Tensor, actions: Tensor, there: Any) -> Tensor:
        noise, t = torch.full_like(actions, 0.3), torch.full_like(actions[..., :1], 0.4)
        return self.losses_at(outputs, actions, there, noise, t)

    monkeypatch.setattr(ActionFlow, "losses", losses)
    learner = prepared(model={"head": "flow", "chunk": 2}).learner
    data = learner.stream.experiences[0].load().subset(torch.arange(6))
    found = fisher(learner, data, "true")
    learner.eval()
    separate = [flow_gradients(learner, batch) for batch in data.batches(torch.arange(6), 1)]
    for name, value in found.items():
        expected = torch.stack([one[name].square() for one in separate]).mean(0)
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-10)
        assert (value > 0).any()


def test_the_noise_of_samples_differs() -> None:
    """One noise for all would be a Fisher information of that noise."""
    learner = prepared(model={"head": "flow"}).learner
    one = learner.stream.experiences[0].load().subset(torch.zeros(64, dtype=torch.long))
    torch.manual_seed(0)
    several = fisher(learner, one, "true")
    single = fisher(learner, one.subset(torch.zeros(1, dtype=torch.long)), "true")
    name = "decoder.head.network.4.bias"
    assert not torch.allclose(several[name], single[name], rtol=1e-3)


# ------------------------------------------------------------ runs


@pytest.mark.parametrize("head", HEADS)
def test_a_run_that_is_killed_resumes_as_if_nothing_had_been(head: str, tmp_path: Path) -> None:
    def learn(place: str, lives: int) -> tuple[Result, dict[str, Tensor]]:
        folder = RunFolder(tmp_path / place)
        folder.saving = CheckpointSettings(every_n_steps=2)
        while True:
            made = prepare(
                STREAM,
                [Kill(lives)],
                {"name": "policy", "hidden": [8], **HEADS[head]},
                trainer={"max_steps": 4, "batch_size": 8},
            )
            with contextlib.suppress(Killed):
                result = run(made.learner, made.stream, "killed", folder)
                return result, made.learner.state_dict()

    (first, whole), (second, pieces) = learn("whole", 100), learn("pieces", 3)
    assert all(torch.equal(value, pieces[key]) for key, value in whole.items())
    assert (first.matrix.values == second.matrix.values).all()


@pytest.mark.parametrize(
    ("model", "acting"),
    [
        ({}, {"head": "mse"}),
        (
            HEADS["mixture"],
            {
                "head": "gmm",
                "modes": 2,
                "act": "draw_mode",
                "grip": "mean",
                "chunk": 3,
                "ensemble": 0.01,
            },
        ),
        (HEADS["flow"], {"head": "flow", "flow_steps": 10, "chunk": 3, "ensemble": 0.01}),
    ],
)
def test_the_results_say_how_the_policy_acts(
    model: dict[str, Any],
    acting: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = clframe.fit(
        STREAM,
        "naive",
        {"name": "policy", "hidden": [8], **model},
        run_dir=tmp_path / "run",
        max_epochs=1,
        logger=None,
        progress=False,
    )
    assert result.acting == acting
    assert json.loads((tmp_path / "run" / "results.json").read_text())["acting"] == acting
    assert Result.load(tmp_path / "run").acting == acting
    from clframe.cli import rollout

    assert rollout.main([str(tmp_path / "run"), "--episodes", "1"]) == 0
    assert f"acts by head={acting['head']}" in capsys.readouterr().out


def test_choices_have_no_heads_of_numbers() -> None:
    with pytest.raises(SettingError, match=r"model\.chunk=2 needs numeric actions"):
        prepare("behavior_12", "naive", {"name": "policy", "chunk": 2})
