"""Updates of clframe's soft actor-critic through its whole loop, with events and CSV logging on.

With the word ``acting`` behind the other arguments there is a decision before each update, else one
before every thousandth.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from sac_case import BATCH, GAMMA, RATE, ROWS, TAU, serve

from clframe.core.trainer import Budget
from clframe.run import set_up
from clframe.testing import prepare
from clframe.training.loop import EpochLoop, FitRequest, SingleStepper


def one_by_one(request: FitRequest) -> Iterator[None]:
    """What `run_epochs` of the training loop does, stopping after each update."""
    stepper = SingleStepper(request.learner, request.data)
    loop = EpochLoop(request, 1)
    loop.begin()
    while loop.has_next_epoch():
        for batch in stepper.batches([loop.begin_epoch()], BATCH):
            for loss, step in stepper.step(batch):
                loop.after_step(loss, step)
            yield
        loop.end_epoch()


def make(hidden: list[int]) -> Callable[[int], int]:
    """The learner in the middle of its first experience."""
    folder = tempfile.TemporaryDirectory()
    acting = "acting" in sys.argv
    built = prepare(
        "point_robot",
        "naive",
        {"name": "actor", "hidden": hidden},
        learner={
            "name": "sac",
            **{"steps": 10 * ROWS, "start_steps": ROWS, "buffer_size": ROWS},
            **{"update_ratio": 1.0 if acting else 1000.0, "gamma": GAMMA, "tau": TAU},
            "critic_lr": RATE,
        },
        optimizer={"name": "adam", "lr": RATE},
        logger="csv",
        run_dir=Path(folder.name) / "run",
        trainer={"batch_size": BATCH, "accelerator": "cpu"},
    )
    learner = built.learner
    assert built.folder is not None
    inside = built.folder.entered()
    inside.__enter__()
    set_up(learner, built.stream, built.folder)
    experience = built.stream.experiences[0]
    learner.begin(experience)

    updates = one_by_one(
        FitRequest(learner, experience, experience.data, Budget(None, None, BATCH))
    )

    def block(n: int) -> int:
        for _ in range(n):
            next(updates)
        # Kept as long as it is written to.
        assert folder.name
        return n

    return block


if __name__ == "__main__":
    serve(make)
