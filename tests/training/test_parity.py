"""clframe against a hand-written loop: the same batches must give the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional

import clframe
from clframe.build import seed_everything
from clframe.data.sampler import epoch_order
from clframe.models.mlp import mlp
from clframe.run import run
from clframe.testing import prepare


@pytest.mark.parametrize("scenario", ["domain", "class"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("fused", [False, None])
def test_equals_a_hand_written_loop_bit_for_bit(
    scenario: str, optimizer: str, fused: bool | None, accelerator: str, tmp_path: Path
) -> None:
    stream = clframe.stream("split_mnist", scenario=scenario, n_experiences=2)  # type: ignore[arg-type]
    prepared = prepare(
        stream,
        "naive",
        {"name": "mlp", "hidden": [50, 50]},
        optimizer={"name": optimizer, "lr": 0.01, "fused": fused},
        logger="csv",
        seed=3,
        active_outputs="all",
        run_dir=tmp_path / "run",
        progress=True,
        trainer={"max_epochs": 2, "batch_size": 100, "accelerator": accelerator},
    )
    run(prepared.learner, stream, "naive", prepared.folder)

    seed_everything(3)
    device = prepared.learner.engine.device
    model = mlp(stream.input_shape, stream.n_outputs, hidden=[50, 50]).to(device)
    kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    # Left to itself clframe takes the fused step.
    plain = kinds[optimizer](model.parameters(), lr=0.01, fused=fused is None)  # type: ignore[operator]
    for experience in stream:
        data = experience.data
        images = data.gather(torch.arange(len(data))).to(device)
        labels = data.labels.to(device)
        for epoch in range(2):
            for chosen in epoch_order(len(data), 3, experience.index, epoch).to(device).split(100):
                x = images[chosen].float() / 255.0
                plain.zero_grad()
                functional.cross_entropy(model(x), labels[chosen]).backward()
                plain.step()
    for ours, theirs in zip(prepared.learner.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_every_experience_takes_its_steps() -> None:
    prepared = prepare(
        clframe.stream("split_mnist"),
        "naive",
        "mlp",
        trainer={"max_steps": 7, "batch_size": 64},
    )
    run(prepared.learner, prepared.stream, "naive")
    assert prepared.learner.global_steps == 7 * 5
