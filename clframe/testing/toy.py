"""A tiny stream that trains in a fraction of a second, and whole, stopped and killed runs on it."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clframe.build import Built, build
from clframe.checkpoint.settings import CheckpointSettings
from clframe.config.run_config import RunConfig
from clframe.core.learner import Learner
from clframe.core.plugin import Plugin
from clframe.core.results import Result
from clframe.core.stream import Experience, Scenario, Stream, Task
from clframe.data.dataset import TensorData, keep_inputs
from clframe.hookspecs import hookimpl
from clframe.run import run
from clframe.runs.folder import RunFolder


def toy_stream(
    scenario: Scenario = "class",
    n_experiences: int = 3,
    classes_per_experience: int = 2,
    samples: int = 40,
    features: int = 8,
    seed: int = 0,
) -> Stream:
    """Make a stream of well-separated Gaussian blobs that trains in a fraction of a second.

    Args:
        scenario: task, domain or class.
        n_experiences: Number of experiences.
        classes_per_experience: Number of blobs in each.
        samples: Samples per class, for training and for evaluation each.
        features: Length of an input.
        seed: Seed of the blobs.

    Example:
        >>> stream = toy_stream("class", n_experiences=2)
        >>> stream.n_outputs, [task.outputs for task in stream.tasks]
        (4, [(0, 1), (2, 3)])
    """
    generator = torch.Generator().manual_seed(seed)
    total = n_experiences * classes_per_experience
    centers = 3.0 * torch.randn(total, features, generator=generator)

    def blobs(number: int) -> TensorData:
        classes = range(number * classes_per_experience, (number + 1) * classes_per_experience)
        x = torch.cat(
            [centers[c] + torch.randn(samples, features, generator=generator) for c in classes]
        )
        first = classes.start if scenario != "domain" else 0
        y = torch.arange(first, first + classes_per_experience).repeat_interleave(samples)
        return TensorData(x, y, number, transform=keep_inputs)

    train = [blobs(number) for number in range(n_experiences)]
    test = [blobs(number) for number in range(n_experiences)]
    outputs = [
        tuple(range(classes_per_experience))
        if scenario == "domain"
        else tuple(range(i * classes_per_experience, (i + 1) * classes_per_experience))
        for i in range(n_experiences)
    ]
    tasks = [Task(i, f"task{i}", outputs[i], lambda i=i: test[i]) for i in range(n_experiences)]  # type: ignore[misc]
    experiences = [
        Experience(i, f"exp{i}", (tasks[i],), lambda i=i: train[i])  # type: ignore[misc]
        for i in range(n_experiences)
    ]
    n_outputs = classes_per_experience if scenario == "domain" else total
    return Stream("toy", scenario, experiences, tasks, (features,), n_outputs, "Gaussian blobs")


def prepare(*positional: Any, **values: Any) -> Built:
    """Build a run as :func:`clframe.fit` would, ready to start; it writes and shows nothing.

    Example:
        >>> built = prepare("split_mnist", "ewc+replay", seed=1)
        >>> built.strategy, built.learner.stream.name
        ('ewc+replay', 'split_mnist')
    """
    quiet = {"logger": None, "run_dir": False, "progress": False}
    return build(RunConfig.of(*positional, **{**quiet, **values}))


def run_built(built: Built) -> Result:
    """Run the result of :func:`prepare`.

    Example:
        >>> run_built(prepare(toy_stream(), "naive", max_epochs=1)).matrix.values.shape
        (4, 3)
    """
    return run(built.learner, built.stream, built.strategy, built.folder)


def toy_model(plugins: Sequence[Plugin], stream: Stream) -> Any:
    """Return a small model: a perceptron, or a transformer if a plugin needs one.

    The transformer treats a vector of the toy stream as an image of two rows.

    Example:
        >>> stream = toy_stream()
        >>> model = toy_model([], stream)
        >>> prepare(stream, "naive", model=model).learner.model is not None
        True
    """
    if not any(plugin.capabilities.needs_tokens for plugin in plugins):
        return {"name": "mlp", "hidden": [16]}
    from clframe.models.classifier import Classifier
    from clframe.models.vit_tiny import make_vit

    (features,) = stream.input_shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        shape = (1, 2, features // 2)
        body = make_vit(shape, patch=2, width=16, depth=2, heads=2)
        return Classifier(nn.Sequential(nn.Unflatten(1, shape), body), 16, stream.n_outputs)


def prepare_toy(plugins: list[Plugin], stream: Stream, **settings: Any) -> Built:
    """Build a small learner with these plugins, ready to run on the stream.

    Example:
        >>> from clframe.plugins import SI
        >>> prepare_toy([SI()], toy_stream(), max_epochs=1).strategy
        'si'
    """
    return prepare(
        stream,
        plugins,
        toy_model(plugins, stream),
        optimizer={"name": "adam", "lr": 0.01},
        **{"max_epochs": 2, "batch_size": 16, **settings},
    )


def toy_run(plugins: list[Plugin], stream: Stream, **settings: Any) -> tuple[Result, Learner]:
    """Run plugins on a small model and return the result and the learner.

    Example:
        >>> from clframe.plugins import Replay
        >>> result, learner = toy_run([Replay(size=20)], toy_stream(), max_epochs=3)
        >>> result.matrix.values.shape
        (4, 3)
    """
    prepared = prepare_toy(plugins, stream, **settings)
    return run(prepared.learner, prepared.stream, "toy"), prepared.learner


def interrupted_run(plugins: list[Plugin], stream: Stream, **settings: Any) -> Result:
    """Stop after every experience and continue in a new learner with only the saved state.

    Example:
        >>> from clframe.plugins import EWC
        >>> stream = toy_stream(n_experiences=2)
        >>> result = interrupted_run([EWC()], stream, max_epochs=1)
        >>> (result.matrix.values == toy_run([EWC()], stream, max_epochs=1)[0].matrix.values).all()
        np.True_
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = RunFolder(Path(directory))
        for stop in range(1, len(stream) + 1):
            prepared = prepare_toy(copy.deepcopy(plugins), stream, **settings)
            full = prepared.stream
            first = dataclasses.replace(full, experiences=full.experiences[:stop])
            result = run(prepared.learner, first, "toy", folder)
    return result


class Killed(BaseException):
    """Exception that ends a run like a kill: nothing is saved or tidied up.

    Example:
        >>> try:
        ...     toy_run([Kill(after=2)], toy_stream())
        ... except Killed:
        ...     print("in the second step")
        in the second step
    """


class Kill(Plugin):
    """Plugin that ends the run after this number of steps.

    Args:
        after: Number of steps of this process.

    Example:
        >>> Kill(after=3).name
        'kill'
    """

    name = "kill"

    def __init__(self, after: int = 1) -> None:
        self.left = after

    @hookimpl(tryfirst=True)
    def after_step(self) -> None:
        """Count."""
        self.left -= 1
        if self.left < 0:
            raise Killed


def killed_run(
    plugins: list[Plugin], stream: Stream, every: int = 3, after: int = 7, **settings: Any
) -> tuple[Result, Learner]:
    """Save every few steps, get killed a few steps later, continue in a new learner, and so on.

    Example:
        >>> from clframe.plugins import SI
        >>> result, learner = killed_run([SI()], toy_stream(n_experiences=2))
        >>> result.matrix.values.shape
        (3, 2)
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = RunFolder(Path(directory))
        folder.configure(CheckpointSettings(every_n_steps=every))
        while True:
            chosen = [*copy.deepcopy(plugins), Kill(after)]
            prepared = prepare_toy(chosen, stream, **settings)
            try:
                return run(prepared.learner, prepared.stream, "toy", folder), prepared.learner
            except Killed:
                continue
