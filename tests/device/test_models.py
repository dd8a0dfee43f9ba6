"""Every model that is registered learns on a virtual GPU what it learns on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clframe.build import Built
from clframe.core.registry import discover
from clframe.testing import prepare
from tests.helpers.corridor import corridors
from tests.helpers.device_runs import (
    assert_same,
    maker,
    on_cpu,
    on_virtual_card,
    same_on_both,
    small_images,
)
from tests.helpers.seen_point import seen_stream

ER: dict[str, Any] = {"replay": {"size": 12}}
POINT: dict[str, Any] = {
    "name": "point_robot",
    "n_tasks": 2,
    "num_demos": 3,
    "eval_episodes": 2,
    "horizon": 10,
    "num_envs": 2,
}
CNN: dict[str, Any] = {"channels": [4, 4], "features": 8, "norm": True}
RESNET: dict[str, Any] = {"backbone": "resnet10t", "pretrained": False}
IMAGES: list[tuple[str, dict[str, Any], Any]] = [
    ("cnn", CNN, "naive"),
    ("cnn", CNN, {"ewc": {}}),
    ("mlp", {"hidden": [8], "dropout": 0.3}, ER),
    ("frozen", {**RESNET, "size": 32}, ER),
    ("frozen", {**RESNET, "size": 32, "cache": False, "hidden": [4]}, "naive"),
    ("timm", RESNET, "naive"),
    ("vit_tiny", {"patch": 4, "width": 16, "depth": 2, "heads": 2}, "naive"),
    ("vgg", {"hidden": [8, 8]}, "naive"),
]
POLICIES: list[tuple[str, dict[str, Any], Any]] = [
    ("policy", {"head": "mse"}, ER),
    (
        "policy",
        {"head": "gmm", "heads": "task", "layer_norm": True},
        {"packnet": {"post_epochs": 1}},
    ),
]
SEQUENCES = ("resnet_rnn", "resnet_t", "vit_t")


def test_every_model_is_here() -> None:
    here = {name for name, *_ in (*IMAGES, *POLICIES)} | {*SEQUENCES, "actor", "categorical"}
    assert here == set(discover().names("model")), "add a case for each model that is registered"


@pytest.mark.parametrize(("name", "settings", "strategy"), IMAGES)
def test_models_of_images(name: str, settings: dict[str, Any], strategy: Any) -> None:
    # As small as VGG-16 takes them, and few.
    size = {"side": 32, "samples": 2} if name == "vgg" else {}
    model = {"name": name, **settings}
    same_on_both(maker(small_images(**size), model, strategy))


@pytest.mark.parametrize(("name", "settings", "strategy"), POLICIES)
def test_policies(name: str, settings: dict[str, Any], strategy: Any) -> None:
    model = {"name": name, "hidden": [8], **settings}
    same_on_both(maker(POINT, model, strategy))


def test_an_actor_learns_by_reward() -> None:
    def make(accelerator: str) -> Built:
        return prepare(
            POINT,
            ER,
            {"name": "actor", "hidden": [8], "heads": "task"},
            learner={"name": "sac", "steps": 12, "start_steps": 4, "epoch_steps": 4},
            trainer={"batch_size": 8, "accelerator": accelerator},
        )

    card = on_virtual_card(make)
    assert_same(card, on_cpu(make))
    # Environments and what happened in them are the host's: an action goes there, a batch comes.
    assert all("['transitions']" in place for place in card.astray)
    assert set(card.waits) <= {
        "_collector.py:_choose copy to the host",
        "transitions.py:sample copy to the host",
        "transitions.py:<dictcomp> copy of pageable memory to the card",
    }


@pytest.mark.parametrize("kind", ["numbers", "choices"])
def test_an_actor_learns_from_rollouts(kind: str, tmp_path: Path) -> None:
    stream = POINT if kind == "numbers" else corridors(tmp_path)

    def make(accelerator: str) -> Built:
        return prepare(
            stream,
            ER,
            {"name": "actor", "hidden": [8], "heads": "task"},
            learner={"name": "ppo", "n_envs": 2, "n_steps": 8, "steps": 32, "n_epochs": 2},
            trainer={"batch_size": 8, "accelerator": accelerator},
        )

    card = on_virtual_card(make)
    assert_same(card, on_cpu(make))
    # Environments are the host's; the rollout is the card's, so that an update sends nothing.
    assert all("['environments']" in place for place in card.astray)
    assert set(card.waits) <= {
        "loop.py:clip_gradients copy to the host",
        "_rollout.py:_batch copy of pageable memory to the card",  # a pass's order
    }


def test_a_policy_that_chooses(tmp_path: Path) -> None:
    stream = corridors(tmp_path)
    model = {"name": "categorical", "hidden": [8], "heads": "task"}
    same_on_both(maker(stream, model, {"ewc": {}, **ER}))


@pytest.mark.parametrize("name", SEQUENCES)
def test_policies_of_libero(name: str, tmp_path: Path) -> None:
    small = {"n_tasks": 1, "num_demos": 1, "eval_episodes": 1, "horizon": 6}
    stream = seen_stream(tmp_path, **small)
    model = {"name": name, "size": "small", "window": 2}
    # torchvision's change of colors sends its factors from the host.
    colors = "augment.py:<listcomp> copy of pageable memory to the card"
    same_on_both(maker(stream, model, "naive", batch_size=2), [colors])
