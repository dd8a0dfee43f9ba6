"""Policies on features of a frozen encoder: encoded once, drawn by view, acted on unchanged."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clframe
from clframe.checkpoint.checkpointer import CheckpointSettings
from clframe.errors import DataError, SettingError
from clframe.models.libero.augment import Augment
from clframe.models.libero.frozen_reader import WEIGHTS, FrozenEncoder
from clframe.models.libero.keypoints import CELLS, SIDE, KeypointNet, read, to_bytes
from clframe.robot.stream import ImitationSettings, ImitationStream, imitation_stream
from clframe.robot.task import RobotTask
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.testing import Kill, Killed, prepare
from clframe.worlds.point_robot import PointEnvironment

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

CAMERAS = ("front_rgb", "wrist_rgb")


class SeenPoint(PointEnvironment):
    """A point whose goal is to be seen only: a bright spot in two images."""

    def _observe(self) -> dict[str, Any]:
        images = {name: np.zeros((SIDE, SIDE, 3), np.uint8) for name in CAMERAS}
        for number, name in enumerate(CAMERAS):
            x, y = ((self.goal - number * self.position + 2.6) / 5.2 * (SIDE - 8)).astype(int)
            images[name][y : y + 8, x : x + 8] = 255
        return {"state": np.concatenate([self.position, self.goal]).astype(np.float32), **images}


def expert(environment: Any) -> Iterator[Any]:
    while True:
        way = environment.place - environment.position
        yield 0.7 * way / max(float(np.linalg.norm(way)), 0.1)


def seen_stream(folder: Path) -> ImitationStream:
    tasks = [
        RobotTask(f"turn{k}", "seen64", f"turn {k}", functools.partial(SeenPoint, k, 2), expert)
        for k in range(2)
    ]
    settings = ImitationSettings(num_demos=2, eval_episodes=2, horizon=6, num_workers=0, num_envs=2)
    return imitation_stream(
        "seen", tasks, range(2), settings, folder, 4, 2,
        images=CAMERAS, image_size=SIDE, parts={"place": (0, 1)},
    )  # fmt: skip


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A small encoder that was not trained."""
    return small_net(tmp_path / "net.npz", 0)


def small_net(path: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    path.write_bytes(to_bytes(KeypointNet(["hand", "bowl:0"], 8, 8, 4), {"made": "here"}))
    return path


def model(weights: Path, **settings: Any) -> dict[str, Any]:
    frozen = {"encoder": "frozen", "weights": str(weights), "window": 3, "size": "small"}
    return {"name": "resnet_t", **frozen, **settings}


# ------------------------------------------------------------ the encoder


def test_places_are_the_means_of_the_maps() -> None:
    torch.manual_seed(0)
    net = KeypointNet(["hand", "bowl:0", "plate:0"], 8, 8, 4).eval()
    found = net(torch.rand(2, 3, SIDE, SIDE))
    mass = found.maps.softmax(2).reshape(2, 3, CELLS, CELLS)
    middles = [(2 * k + 1) / CELLS - 1 for k in range(CELLS)]
    across = sum(mass[..., column].sum(2) * middles[column] for column in range(CELLS))
    down = sum(mass[:, :, row].sum(2) * middles[row] for row in range(CELLS))
    torch.testing.assert_close(found.across, across)
    torch.testing.assert_close(found.down, down)
    features = net.features(torch.rand(2, 3, SIDE, SIDE))
    assert features.shape == (2, net.width) == (2, 4 * 3 + 4)


def test_a_network_is_kept_without_code(weights: Path) -> None:
    net, digest = read(weights)
    again, same = read(weights)
    assert digest == same
    images = torch.rand(2, 3, SIDE, SIDE)
    torch.testing.assert_close(net.features(images), again.features(images))
    with np.load(weights, allow_pickle=False) as kept:
        assert kept["stem.0.weight"].dtype == np.float16
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(DataError, match="cannot read a keypoint network from"):
        read(weights)


def test_the_shipped_encoder_is_small_and_knows_the_things_of_the_suites() -> None:
    net, _ = read(WEIGHTS)
    assert WEIGHTS.stat().st_size < 4e6
    assert {"hand", "akita_black_bowl:0", "plate:0", "wooden_cabinet/middle_drawer"} <= {*net.names}


def test_frames_are_encoded_once_with_changed_views(weights: Path, tmp_path: Path) -> None:
    frames = torch.randint(0, 256, (5, SIDE, SIDE, 3), dtype=torch.uint8)
    folder = tmp_path / "features"
    device = torch.device("cpu")
    encoder = FrozenEncoder(weights, 3, Augment(0.3, 4), folder)
    made = encoder.encode(frames, "x", device)
    assert made.shape == (5, 3, encoder.width)
    expected = encoder(frames.permute(0, 3, 1, 2))
    torch.testing.assert_close(made[:, 0].float(), expected, atol=2e-3, rtol=2e-3)
    assert not torch.equal(made[:, 0], made[:, 1])
    assert not torch.equal(made[:, 1], made[:, 2])
    encoder.net = None  # type: ignore[assignment]  # what is kept needs no network
    assert torch.equal(encoder.encode(frames, "x", device), made)
    (kept,) = folder.iterdir()
    kept.write_bytes(b"broken")
    fresh = FrozenEncoder(weights, 3, Augment(0.3, 4), folder)
    assert torch.equal(fresh.encode(frames, "x", device), made)


# ------------------------------------------------------------ policies


def test_features_stand_for_their_images(weights: Path, tmp_path: Path) -> None:
    prepared = prepare(seen_stream(tmp_path), "naive", model(weights))
    data = prepared.stream.experiences[0].data
    policy: Any = prepared.learner.model.eval()
    batch = next(data.batches(torch.arange(3), 3))
    assert batch.x["front_rgb"].dtype == torch.float16
    raw = seen_stream(tmp_path).sequences(3).experiences[0].data
    images = next(raw.batches(torch.arange(3), 3))
    torch.testing.assert_close(policy(batch.x), policy(images.x), atol=2e-3, rtol=2e-2)
    # In training one view a sequence is drawn.
    policy.train()
    chosen = policy.features.encode.reader._views([batch.x["front_rgb"]])[0]
    views = batch.x["front_rgb"].float().transpose(1, 2)
    match = [[bool(torch.equal(chosen[k], view)) for view in views[k]] for k in range(3)]
    assert all(sum(row) == 1 for row in match)


STRATEGIES: dict[str, Any] = {
    "er": {"replay": {"size": 20}},
    "ewc": {"ewc": {"fisher": "batch", "weight": 10.0}},
    "packnet": {"packnet": {"prune": 0.6, "post_steps": 1}},
    "multitask": "multitask",
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_methods_act_on_them_unchanged(strategy: str, weights: Path, tmp_path: Path) -> None:
    result = clframe.fit(
        seen_stream(tmp_path),
        STRATEGIES[strategy],
        model(weights, name="resnet_rnn" if strategy == "er" else "resnet_t"),
        run_dir=False,
        progress=False,
        logger=None,
        max_steps=2,
        batch_size=4,
    )
    assert np.isfinite(result.matrix.values).all()


def test_a_run_that_is_killed_resumes_as_if_nothing_had_been(weights: Path, tmp_path: Path) -> None:
    def learn(place: str, lives: int) -> dict[str, Tensor]:
        folder = RunFolder(tmp_path / place)
        folder.saving = CheckpointSettings(every_n_steps=2)
        while True:
            settings = {"max_steps": 4, "batch_size": 4}
            prepared = prepare(
                seen_stream(tmp_path), [Kill(lives)], model(weights), trainer=settings
            )
            with contextlib.suppress(Killed):
                run(prepared.learner, prepared.stream, "killed", folder)
                return prepared.learner.state_dict()

    whole, pieces = learn("whole", 100), learn("pieces", 3)
    assert all(torch.equal(value, pieces[key]) for key, value in whole.items())


def test_checkpoints_hold_the_encoders_checksum_and_not_its_weights(
    weights: Path, tmp_path: Path
) -> None:
    first: Any = prepare(seen_stream(tmp_path), "naive", model(weights)).learner.model
    state = first.state_dict()
    assert not any("stem" in name for name in state)
    name = next(name for name in state if name.endswith("digest"))
    assert bytes(state[name].tolist()).hex() == read(weights)[1]
    assert (
        copy.deepcopy(first).features.encode.reader.encoder is first.features.encode.reader.encoder
    )
    other = small_net(tmp_path / "other.npz", 1)
    second = prepare(seen_stream(tmp_path), "naive", model(other)).learner.model
    with pytest.raises(SettingError, match="features of another frozen encoder"):
        second.load_state_dict(state)


def test_what_cannot_be_is_said(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="'vit_t' cannot use a frozen encoder"):
        prepare(seen_stream(tmp_path), "naive", model(weights, name="vit_t"))
    with pytest.raises(DataError, match="cannot read a keypoint network"):
        prepare(seen_stream(tmp_path), "naive", model(tmp_path / "nowhere.npz"))
    with pytest.raises(SettingError, match=r"model\.views must be at least 1"):
        prepare(seen_stream(tmp_path), "naive", model(weights, views=0))


def test_features_are_normalized_by_the_first_task_and_left_out_in_training_only(
    tmp_path: Path, weights: Path
) -> None:
    parts = prepare(
        seen_stream(tmp_path),
        "naive",
        model=model(weights, feature_dropout=0.5, state_noise=0.1, color=0, shift=0),
        max_epochs=1,
    )
    policy: Any = parts.learner.model
    reader = policy.features.encode.reader
    assert not reader.known.any()
    experiences = parts.stream.experiences
    first, second = (experience.data for experience in experiences[:2])
    assert reader.known.all()
    kept = first.gather(torch.arange(len(first)))
    for row, camera in enumerate(CAMERAS):
        frames = first.frames.to(torch.device("cpu"))[camera][:, 0].float()
        torch.testing.assert_close(reader.center[row], frames.mean(0))
        torch.testing.assert_close(reader.spread[row], frames.std(0, correction=0) + 0.02)
    before = reader.center.clone()
    second.gather(torch.arange(1))
    assert torch.equal(before, reader.center), "a later task moved what the policy is built on"
    x = first.transform(kept, torch.zeros(len(first), dtype=torch.long))
    seen: list[Tensor] = []
    handle = reader.inner[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    policy.eval()(x)
    plain = ((x[CAMERAS[0]][:, :, 0].float() - before[0]) / reader.spread[0]).clamp(-5, 5)
    torch.testing.assert_close(seen[-1], plain)
    assert torch.equal(reader.states(x)[0], x["place"])
    policy.train()(x)
    handle.remove()
    share = float((seen[-1] == 0).float().mean() - (plain == 0).float().mean())
    assert 0.2 < share < 0.6
    assert 0.05 < float((reader.states(x)[0] - x["place"]).std()) < 0.2
    assert set(policy.state_dict()) >= {
        f"features.encode.reader.{name}" for name in ("center", "spread", "known")
    }


def test_dropout_of_features_is_refused_without_them(tmp_path: Path) -> None:
    given = {"name": "resnet_t", "size": "small", "window": 3, "feature_dropout": 0.1}
    with pytest.raises(SettingError, match=r"feature_dropout is for .*encoder=frozen"):
        prepare(seen_stream(tmp_path), "naive", model=given, max_epochs=1)
