"""Online learning: every sample is seen once, in the stream's own order."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import clframe
from clframe import Plugin, SettingError, hookimpl
from clframe.cli.main import main
from clframe.core.step import Step
from clframe.core.trainer import TrainerSettings
from clframe.data.dataset import TensorData
from clframe.data.real_time import in_time
from clframe.testing import killed_run, toy_run, toy_stream


class Seen(Plugin):
    """Writes down which samples are learned from, in order."""

    state = ("places",)

    def __init__(self) -> None:
        self.places: list[int] = []

    @hookimpl
    def after_step(self, step: Step) -> None:
        """The current batch."""
        batch = step.parts[0]
        assert isinstance(batch.data, TensorData)
        self.places += batch.data.indices[batch.positions].tolist()


ONLINE = {"passes": 1, "max_epochs": None}


def _seen(**trainer: object) -> list[int]:
    seen = Seen()
    toy_run([seen], toy_stream(), **trainer)
    return seen.places


def test_every_sample_is_seen_once_in_the_streams_order() -> None:
    assert _seen(**ONLINE) == list(range(80)) * 3


def test_on_request_the_order_is_drawn() -> None:
    places = np.array(_seen(**ONLINE, shuffle=True)).reshape(3, 80)
    assert (np.sort(places, 1) == np.arange(80)).all()
    assert (places != np.arange(80)).any()
    assert _seen(max_epochs=2, shuffle=False) == list(range(80)) * 6


def test_a_killed_run_continues_at_the_very_sample() -> None:
    stream = toy_stream()
    whole = Seen()
    _, learner = toy_run([whole], stream, **ONLINE)
    _, killed = killed_run([Seen()], stream, every=2, after=3, **ONLINE)
    for name, value in learner.state_dict().items():
        assert torch.equal(value, killed.state_dict()[name])
    (again,) = (p for p in killed.plugins.ordered if isinstance(p, Seen))
    assert again.places == whole.places


def test_the_drift_is_seen_as_it_is() -> None:
    """Of a gradual stream, the labels come in exactly the stream's order."""
    stream = clframe.stream("gradual", base={"name": "split_mnist", "n_experiences": 2})
    seen = Seen()
    small = {"name": "mlp", "hidden": [4]}
    clframe.fit(stream, seen, small, run_dir=False, progress=False, trainer={"passes": 1})
    assert seen.places == [i for e in stream for i in e.data.indices.tolist()]  # type: ignore[attr-defined]


def _by_hand(n: int, batch: int, cost: float) -> list[int]:
    """A clock that ticks once for each batch of the stream, and a learner that is busy or free."""
    free_at, taken = 0.0, []
    for tick, first in enumerate(range(0, n, batch)):
        if tick >= free_at - 1e-6:
            taken += range(first, min(first + batch, n))
            free_at += cost
    return taken


@pytest.mark.parametrize("cost", [1.0, 4 / 3, 1.5, 2.0, 2.5, 7.0])
def test_a_stream_that_does_not_wait_is_missed_in_part(cost: float) -> None:
    own = _by_hand(80, 16, cost)
    assert _seen(**ONLINE, step_cost=cost) == own * 3
    for n, batch in ((81, 16), (100, 7), (5, 16)):
        assert in_time(torch.arange(n), batch, cost).tolist() == _by_hand(n, batch, cost)


def test_what_is_missed_enters_no_memory() -> None:
    replay = clframe.plugins.Replay(size=500)
    toy_run([replay], toy_stream(), **ONLINE, step_cost=2.0)
    assert len(replay.buffer) == 3 * len(_by_hand(80, 16, 2.0))


def test_a_killed_run_misses_the_same_batches() -> None:
    stream, how = toy_stream(), {**ONLINE, "step_cost": 1.5, "batch_size": 8}
    _, learner = toy_run([], stream, **how)
    _, killed = killed_run([], stream, every=2, after=3, **how)
    for name, value in learner.state_dict().items():
        assert torch.equal(value, killed.state_dict()[name])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"step_cost": 2.0}, "set trainer.passes=1 too"),
        ({"passes": 1, "step_cost": 0.5}, "trainer.step_cost must be at least 1"),
        ({"passes": 2}, "trainer.passes must be 1"),
        ({"passes": 1, "max_epochs": 3}, "trainer.max_epochs=3 says otherwise"),
        ({"passes": 1, "max_steps": 3}, "trainer.max_steps=3 leaves some out"),
        ({"passes": 1, "limit_train_batches": 2}, "limit_train_batches=2 leaves some out"),
        ({"passes": 1, "drop_last": True}, "trainer.drop_last=True leaves some out"),
    ],
)
def test_what_contradicts_is_refused(values: dict[str, float], words: str) -> None:
    with pytest.raises(SettingError) as caught:
        TrainerSettings(**values)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_methods_that_show_samples_again_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", "scenario=task", "trainer.passes=1", "run_dir=nowhere"]
    for strategy in ("packnet", "cumulative"):
        assert main([*words, f"strategy={strategy}"]) == 2
        message = capsys.readouterr().err
        assert f"plugin '{strategy}' trains on samples of an experience again" in message
    assert main([*words, "max_epochs=3"]) == 2
    assert "trainer.max_epochs=3 says otherwise" in capsys.readouterr().err


def test_a_streams_own_epochs_give_way() -> None:
    from clframe.core.registry import discover

    registry = copy.copy(discover())
    assert registry.trainer_for("openloris_illumination", {"passes": 1}).get("max_epochs") is None
