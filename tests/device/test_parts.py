"""Models, streams, augmentation, storage, workers, batched seeds and draws on a virtual GPU."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clframe
from clframe.build import Built, build
from clframe.config.run_config import RunConfig
from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import MapData, scale_images
from clframe.errors import RunFolderError
from clframe.run import set_up
from clframe.runs.folder import RunFolder
from clframe.sweep.seed_group import SeedGroup
from clframe.testing import prepare, toy_stream

RUNS = runpy.run_path(str(Path(__file__).with_name("lifetimes.py")))
LIBERO = Path(__file__).parents[1] / "models" / "test_libero_policies.py"
MLP: dict[str, Any] = {"name": "mlp", "hidden": [8]}
CNN: dict[str, Any] = {"name": "cnn", "channels": [4, 4], "features": 8, "norm": True}
ER: dict[str, Any] = {"replay": {"size": 12}}
POINT: dict[str, Any] = {
    "name": "point_robot",
    "n_tasks": 2,
    "num_demos": 3,
    "eval_episodes": 2,
    "horizon": 10,
    "num_envs": 2,
}


def maker(stream: Any, model: Any, strategy: Any, **trainer: Any) -> Callable[[str], Built]:
    def make(accelerator: str) -> Built:
        return prepare(
            stream,
            strategy,
            model,
            optimizer={"name": "adam", "lr": 0.01},
            trainer={
                "max_epochs": 1,
                "batch_size": 8,
                "limit_train_batches": 3,
                "accelerator": accelerator,
                **trainer,
            },
        )

    return make


def same_on_both(make: Callable[[str], Built], allowed: Sequence[str] = ()) -> None:
    card = RUNS["on_virtual_card"](make)
    RUNS["assert_same"](card, RUNS["on_cpu"](make))
    assert not card.astray
    assert set(card.waits) <= set(allowed)


# ------------------------------------------------------------ models


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        (CNN, "naive"),
        (CNN, {"ewc": {}}),
        ({**MLP, "dropout": 0.3}, ER),
        ({"name": "frozen", "backbone": "resnet10t", "pretrained": False, "size": 32}, ER),
        ({"name": "timm", "backbone": "resnet10t"}, "naive"),
    ],
    ids=["cnn", "cnn-ewc", "dropout", "frozen", "timm"],
)
def test_models_of_images(model: Any, strategy: Any) -> None:
    same_on_both(maker(RUNS["small_images"](), model, strategy))


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        ({"head": "mse"}, ER),
        ({"head": "gmm", "heads": "task", "layer_norm": True}, {"packnet": {"post_epochs": 1}}),
    ],
    ids=["mse", "gmm-packnet"],
)
def test_policies(model: Any, strategy: Any) -> None:
    same_on_both(maker(POINT, {"name": "policy", "hidden": [8], **model}, strategy))


@pytest.mark.parametrize("name", ["resnet_rnn", "vit_t"])
def test_policies_of_libero(name: str, tmp_path: Path) -> None:
    small = {"n_tasks": 1, "num_demos": 1, "eval_episodes": 1, "horizon": 6}
    stream = runpy.run_path(str(LIBERO))["seen_stream"](tmp_path, **small)
    model = {"name": name, "size": "small", "window": 2}
    # torchvision's change of colors sends its factors from the host.
    colors = "augment.py:<listcomp> copy of pageable memory to the card"
    same_on_both(maker(stream, model, "naive", batch_size=2), [colors])


# ------------------------------------------------------------ streams and their data


@pytest.mark.parametrize(
    "stream",
    [
        {"name": "permuted_mnist", "n_experiences": 2},
        {"name": "rotated_mnist", "n_experiences": 2},
        {"name": "scenario", "base": "split_mnist", "repetitions": 1},
    ],
    ids=["permuted", "rotated", "scenario"],
)
def test_streams(stream: Any) -> None:
    same_on_both(maker(stream, MLP, ER))


def test_augmented_images() -> None:
    augment = ["flip", {"crop": {"padding": 2}}, {"jitter": {"contrast": 0.2}}]
    same_on_both(maker(RUNS["small_images"](), CNN, ER, augment=augment))


@pytest.mark.parametrize("strategy", [ER, "cumulative"], ids=["er", "cumulative"])
def test_data_in_main_memory(strategy: Any) -> None:
    same_on_both(maker(RUNS["small_images"](), MLP, strategy, device_memory=0))


class Pictures:
    """A map-style data set."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        draw = torch.Generator().manual_seed(index)
        return torch.randint(256, (3, 16, 16), generator=draw, dtype=torch.uint8), index % 2


def read_one_by_one() -> Stream:
    labels = torch.arange(24) % 2
    parts = [MapData(Pictures(), labels + 2 * i, i, transform=scale_images) for i in range(2)]
    tasks = [Task(i, f"task{i}", (2 * i, 2 * i + 1), lambda i=i: parts[i]) for i in range(2)]  # type: ignore[misc]
    learned = [Experience(i, f"exp{i}", (tasks[i],), lambda i=i: parts[i]) for i in range(2)]  # type: ignore[misc]
    return Stream("files", "class", learned, tasks, (3, 16, 16), 4)


@pytest.mark.parametrize("strategy", [ER, "cumulative"], ids=["er", "cumulative"])
def test_data_read_sample_by_sample(strategy: Any) -> None:
    same_on_both(maker(read_one_by_one(), MLP, strategy))


# ------------------------------------------------------------ seeds and draws


@pytest.mark.parametrize("strategy", [{"ewc": {}}, ER, "lwf"], ids=["ewc", "er", "lwf"])
def test_batched_seeds(strategy: Any) -> None:
    def learned(accelerator: str) -> list[Any]:
        settings = {"max_epochs": 1, "batch_size": 4, "accelerator": accelerator}
        given: dict[str, Any] = {
            "stream": toy_stream("class", samples=6),
            "strategy": strategy,
            "model": MLP,
            "trainer": settings,
            "logger": None,
            "run_dir": False,
            "progress": False,
        }
        group = SeedGroup([RunConfig(**given, seed=seed) for seed in (0, 1)])
        return [result.matrix.values for result in group.run()]

    expected = learned("cpu")
    with RUNS["virtual_card"](own_generator=False) as card:
        found = learned("cuda")
        assert not card.per_step()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_drawn_on_the_gpu_continues_after_a_resume(tmp_path: Path) -> None:
    """Dropout draws from the GPU's own generator, which a new process starts elsewhere."""
    make = maker(RUNS["small_images"](), {**MLP, "dropout": 0.5}, ER)

    with RUNS["virtual_card"]():
        built = make("cuda")
        result = RUNS["run"](built.learner, built.stream, "whole")
        expected = RUNS["_end"](result, built.learner, {})
    resumed = RUNS["killed_on_card"](make, tmp_path, steps=5, own_generator=True)
    RUNS["assert_same"](resumed, expected)
    # The host's generator draws other numbers, so the GPU's was in use.
    assert not all(
        torch.equal(value, expected.state[name])
        for name, value in RUNS["on_cpu"](make).state.items()
    )


def test_a_run_of_a_gpu_elsewhere(tmp_path: Path) -> None:
    """Looked at on a CPU it is the same; to resume it there must be meant."""
    words: dict[str, Any] = {
        "model": MLP,
        "strategy": ER,
        "max_epochs": 1,
        "batch_size": 4,
        "progress": False,
        "logger": None,
    }
    folder = tmp_path / "run"
    with RUNS["virtual_card"]():
        there = clframe.fit(toy_stream(samples=4), run_dir=folder, **words)
    assert there.environment["device"] == "cuda:0"
    with pytest.raises(
        RunFolderError, match=r"device was cuda and is cpu.*resume.allow=\[device\]"
    ):
        clframe.fit(toy_stream(samples=4), resume=folder, **words)
    config = RunConfig.of(toy_stream(samples=4), run_dir=False, **words)
    built = build(config)
    state, _ = set_up(built.learner, built.stream, RunFolder(folder), read_only=True)
    assert (state.matrix.values == there.matrix.values).all()
