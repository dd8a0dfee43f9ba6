"""Python calls of a step, as a profiler counts them: the same on any machine, busy or not."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import clframe
from clframe.core.learner import Learner
from clframe.core.stream import Experience, Stream, Task
from clframe.core.trainer import Budget
from clframe.data.dataset import TensorData, keep_inputs
from clframe.run import set_up
from clframe.testing import prepare, toy_run, toy_stream
from clframe.training.loop import FitRequest, run_epochs
from tests.helpers.processes import ProcessServer

STEPS = 20
BATCH = 8
STRATEGIES: dict[str, Any] = {
    "ewc": {"ewc": {"samples": 4, "fisher": "true"}},
    "online_ewc": {"ewc": {"samples": 4, "fisher": "true", "online": True, "gamma": 0.9}},
    "si": "si",
    "mas": {"mas": {"samples": 4}},
    "lwf": "lwf",
    "replay": {"replay": {"size": 16}},
    "dgr": {"generative_replay": {"hidden": [8], "latent": 4}},
    "rtf": {"feedback_replay": {"hidden": [8], "latent": 4}},
}


def calls(work: Callable[[], Any]) -> int:
    """How many Python and C functions are called, by the work alone.

    The garbage collector is off: it calls finalisers of other tests' objects and callbacks of
    Hypothesis whenever it happens to run.
    """
    count = 0

    def tick(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.collect()
    gc.disable()
    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count


@pytest.fixture(autouse=True, scope="module")
def _what_was_there_before() -> Iterator[None]:
    """Collecting garbage does not look through all that other tests have imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def per_step(work: Callable[[int], Any]) -> float:
    """Calls that one more step costs, set-up and clean-up aside."""
    work(STEPS)  # what is only done once is done now
    return (calls(lambda: work(3 * STEPS)) - calls(lambda: work(STEPS))) / (2 * STEPS)


def stream_of(experiences: int) -> Stream:
    generator = torch.Generator().manual_seed(0)
    tasks, learned = [], []
    for index in range(experiences):
        x = torch.rand(3 * STEPS * BATCH, 6, generator=generator)
        data = TensorData(x, torch.randint(0, 4, (len(x),)), index, transform=keep_inputs)
        tasks.append(Task(index, f"task{index}", (0, 1, 2, 3), lambda data=data: data))  # type: ignore[misc]
        learned.append(Experience(index, f"exp{index}", (tasks[-1],), lambda data=data: data))  # type: ignore[misc]
    return Stream("random", "domain", learned, tasks, (6,), 4)


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))


def bare_calls() -> float:
    data = stream_of(1).experiences[0].data
    x, y = data.gather(torch.arange(len(data))), data.labels
    net = model()
    optimizer = torch.optim.Adam(net.parameters())

    def work(steps: int) -> None:
        for chosen in torch.randperm(len(y))[: steps * BATCH].split(BATCH):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x[chosen]), y[chosen])
            loss.backward()
            optimizer.step()

    return per_step(work)


def learner_after(strategy: Any, experiences: int, folder: Any = False) -> Learner:
    """A learner in the middle of an experience, after so many others."""
    stream = stream_of(experiences + 1)
    prepared = prepare(
        stream,
        strategy,
        model() if strategy == "naive" else {"name": "mlp", "hidden": [8, 8]},
        run_dir=folder,
        logger="csv" if folder else None,
        trainer={"max_steps": 1, "batch_size": BATCH, "accelerator": "cpu"},
    )
    learner, hook = prepared.learner, prepared.learner.plugins.hook
    entered = contextlib.nullcontext() if not prepared.folder else prepared.folder.entered()
    with entered:
        set_up(learner, stream, prepared.folder)
    for experience in stream.experiences:
        learner.begin(experience)
        hook.before_experience(learner=learner, experience=experience)
        if experience.index < experiences:
            budget = learner.engine.settings.budget
            run_epochs([FitRequest(learner, experience, experience.data, budget)])
            learner.seen.append(experience)
            hook.after_experience(learner=learner, experience=experience, data=experience.data)
    return learner


def clframe_calls(learner: Learner) -> float:
    experience = learner.experience
    assert experience is not None
    data = experience.data

    def work(steps: int) -> None:
        budget = Budget(steps=steps, batch_size=BATCH)
        run_epochs([FitRequest(learner, experience, data, budget)])

    return per_step(work)


def test_naive_stays_near_the_bare_loop(clframe_process: ProcessServer, tmp_path: Path) -> None:
    """With events, CSV and the lifetime log on; in a process that no other test has been in."""
    done = clframe_process.run(__file__, str(tmp_path / "run"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    bare, ours = map(float, done.stdout.split()[-2:])
    assert ours <= 1.5 * bare, f"{ours:.0f} calls a step against {bare:.0f} of the bare loop"


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_method_grows_with_experiences(name: str) -> None:
    few, many = (clframe_calls(learner_after(STRATEGIES[name], n)) for n in (2, 8))
    assert many <= few + 0.5, f"{few:.1f} calls a step after 2 experiences, {many:.1f} after 8"


if __name__ == "__main__":
    ours = clframe_calls(learner_after("naive", 0, Path(sys.argv[1])))
    sys.stdout.write(f"{bare_calls()} {ours}")


def test_a_reader_passes_eight_functions_from_an_experience_to_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths: list[list[str]] = []
    task_loss = Learner.task_loss

    def noting(self: Learner, outputs: Any, batch: Any) -> torch.Tensor:
        paths.append(path_from("learn"))
        return task_loss(self, outputs, batch)

    monkeypatch.setattr(Learner, "task_loss", noting)
    toy_run([], toy_stream(), max_steps=1)
    between = next(path for path in paths if path)
    assert len(between) <= 8, between


def path_from(name: str) -> list[str]:
    """The functions of clframe that are being called, after the one of this name in run.py."""
    package = str(Path(clframe.__file__).parent)
    names: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == f"{package}/run.py" and code.co_name == name:
            return names
        # A comprehension is a part of the function that it stands in.
        if code.co_filename.startswith(package) and not code.co_name.startswith("<"):
            names.append(code.co_name)
        frame = frame.f_back
    return []
