"""Random changes of training images: each sample by itself, the same for a seed, never in tests."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2

import clframe
from clframe import SettingError, TensorData
from clframe.core.stream import Experience, Stream, Task
from clframe.data.augment import Augmented, Crop, Flip, Jitter, Rotate, make_steps
from clframe.data.buffer import Buffer
from clframe.data.concat import join
from clframe.data.dataset import TensorSource, keep_inputs, scale_images
from clframe.plugins.lwf import LwF
from clframe.plugins.replay import Replay
from clframe.testing import killed_run, prepare, run_built, toy_run, toy_stream
from clframe.training.augment_stream import augmented


def images(n: int = 64, channels: int = 3, side: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (n, channels, side, side), generator=generator).to(torch.uint8)


def image_stream() -> Stream:
    """Two experiences of two classes; tasks share the training data, as toy streams may."""
    x = images(80, 1)
    y = torch.arange(80) % 4
    x[y % 2 == 0] //= 4
    source = TensorSource(x)
    tasks, learned = [], []
    for i in range(2):
        indices = (y // 2 == i).nonzero().squeeze(1)
        data = TensorData(source, y[indices], i, indices)
        tasks.append(Task(i, f"t{i}", (2 * i, 2 * i + 1), lambda data=data: data))  # type: ignore[misc]
        learned.append(Experience(i, f"e{i}", (tasks[i],), lambda data=data: data))  # type: ignore[misc]
    return Stream("images", "task", learned, tasks, (1, 8, 8), 4)


# ------------------------------------------------------------ one by one


@pytest.mark.parametrize("step", [Crop(2), Flip(), Rotate(30.0), Jitter()])
def test_equal_samples_of_a_batch_become_different(step: Any) -> None:
    torch.manual_seed(0)
    same = images(1).expand(64, -1, -1, -1).contiguous()
    changed = step(same)
    assert changed.dtype == torch.uint8
    assert changed.shape == same.shape
    different = len({tuple(row.flatten().tolist()) for row in changed})
    assert different == 2 if isinstance(step, Flip) else different > 20


def test_a_crop_is_the_padded_image_at_the_drawn_place() -> None:
    x, step = images(5), Crop(2)
    drawn = torch.tensor([[0, 0], [2, 2], [4, 1], [3, 4], [2, 0]])
    changed = step.apply(x, drawn, True)
    wide = torch.nn.functional.pad(x, (2, 2, 2, 2))
    for i, (row, column) in enumerate(drawn.tolist()):
        assert torch.equal(changed[i], wide[i, :, row : row + 8, column : column + 8])


def test_a_flip_mirrors_the_chosen() -> None:
    x = images(2)
    changed = Flip().apply(x, torch.tensor([True, False]), True)
    assert torch.equal(changed[0], x[0].flip(2))
    assert torch.equal(changed[1], x[1])


def test_quarter_turns_are_exact() -> None:
    x = images(2)
    changed = Rotate(90.0).apply(x, torch.tensor([torch.pi / 2, 0.0]), True)
    assert torch.equal(changed[0], x[0].rot90(1, (1, 2)))
    assert torch.equal(changed[1], x[1])


def test_a_turn_keeps_lengths_in_images_that_are_not_square() -> None:
    x = torch.zeros(1, 1, 9, 21)
    x[:, :, 4, 8:13] = 1.0  # a bar of five in the middle
    changed = Rotate(90.0).apply(x, torch.tensor([torch.pi / 2]), True)
    assert changed[0, 0, 2:7, 10].tolist() == pytest.approx([1.0] * 5, abs=1e-5)
    assert float(changed.sum()) == pytest.approx(5.0, abs=1e-4)


def test_factors_of_color_are_what_they_say() -> None:
    x = images(1).float() / 512
    gray = (x * torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
    jitter = Jitter()
    brighter = jitter.apply(x, torch.tensor([[1.5, 1.0, 1.0]]), True)
    assert torch.allclose(brighter, 1.5 * x)
    flat = jitter.apply(x, torch.tensor([[1.0, 0.0, 1.0]]), True)
    assert torch.allclose(flat, gray.mean().expand_as(flat))
    pale = jitter.apply(x, torch.tensor([[1.0, 1.0, 0.0]]), True)
    assert torch.allclose(pale, gray.expand_as(pale))


@pytest.mark.parametrize("entry", ["flip", {"crop": {"padding": 3}}, {"rotate": {"degrees": 90}}])
def test_depth_and_masks_go_with_their_image(entry: Any) -> None:
    rgb = images(32, 3)
    x = {"rgb": rgb, "depth": rgb[:, 0].to(torch.int16), "label": torch.arange(32)}
    (step,) = make_steps([entry])
    if isinstance(step, Rotate):  # where the image is not a mean of pixels
        step.draw = lambda n, device: (torch.arange(n) % 4) * (torch.pi / 2)  # type: ignore[method-assign]
    changed = step(x)
    assert not torch.equal(changed["rgb"], rgb)
    assert torch.equal(changed["rgb"][:, 0].to(torch.int16), changed["depth"])
    assert torch.equal(changed["label"], x["label"])
    assert torch.equal(Jitter()(x)["depth"], x["depth"])


def test_a_transform_of_torchvision_changes_a_batch_alike() -> None:
    torch.manual_seed(0)
    rgb = images(1).expand(16, -1, -1, -1).contiguous()
    x = {"rgb": rgb, "depth": rgb[:, 0].to(torch.int16)}
    steps = make_steps(["RandomHorizontalFlip", {"RandomCrop": {"size": 8, "padding": 2}}])
    for _ in range(8):
        changed = x
        for step in steps:
            changed = step(changed)
        assert type(changed["rgb"]) is Tensor
        assert (changed["rgb"] == changed["rgb"][:1]).all()
        assert torch.equal(changed["rgb"][:, 0].to(torch.int16), changed["depth"])
    assert torch.equal(make_steps([v2.RandomHorizontalFlip(p=1.0)])[0](rgb), rgb.flip(3))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["flop"], "unknown augmentation 'flop'; did you mean 'flip'"),
        ([{"crop": {"paddding": 1}}], "unknown setting 'paddding'"),
        ([{"crop": {"padding": 0}}], r"crop\.padding must be at least 1"),
        ([{"flip": {"p": 2.0}}], r"flip\.p must be between 0 and 1"),
        ([{"flip": 3}], "'flip' takes settings by name, got 3"),
        ([3], "must list names"),
        ([{"RandomCrop": {}}], "'RandomCrop': "),
    ],
)
def test_what_is_wrong_is_said_at_the_start(entries: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        prepare("split_mnist", trainer={"augment": entries})


def test_streams_without_images_are_refused() -> None:
    with pytest.raises(SettingError, match=r"stream 'toy' has inputs of shape \(8,\)"):
        augmented(toy_stream(), ["flip"])
    flat = image_stream()
    stored = TensorData(torch.zeros(4, 64), torch.arange(4), transform=keep_inputs)
    learned = [dataclasses.replace(e, load=lambda: stored) for e in flat.experiences]
    changed = augmented(dataclasses.replace(flat, experiences=learned), ["flip"])
    with pytest.raises(SettingError, match="needs images that are stored as"):
        len(changed.experiences[0].data)


# ------------------------------------------------------------ in a run


def test_training_data_alone_is_changed() -> None:
    stream = augmented(image_stream(), ["flip", "crop"])
    first, second = (e.data for e in stream)
    assert isinstance(first.transform, Augmented)
    assert isinstance(join([first, second]), TensorData)
    assert first.transform is second.transform
    assert stream.tasks[0].data.transform is scale_images
    assert stream.experiences[0].tasks[0] is stream.tasks[0]


def test_a_run_without_it_is_as_before() -> None:
    stream = image_stream()
    assert augmented(stream, ()) is stream


def trained(plugins: list[clframe.Plugin], **trainer: Any) -> dict[str, Tensor]:
    _, learner = toy_run(plugins, image_stream(), **trainer)
    return learner.state_dict()


CHANGES = ["flip", {"crop": {"padding": 1}}, "RandomErasing"]


def test_a_seed_decides_and_evaluation_is_not_changed() -> None:
    one, two = (trained([Replay(8)], augment=CHANGES) for _ in range(2))
    plain = trained([Replay(8)])
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], plain[key]) for key in one)
    prepared = prepare(image_stream(), trainer={"max_steps": 0, "augment": ["flip"]})
    values = run_built(prepared).matrix.values
    plain_values = run_built(prepare(image_stream(), trainer={"max_steps": 0})).matrix.values
    assert (values == plain_values).all()


@pytest.mark.parametrize("plugin", [Replay(8), LwF()], ids=["replay", "lwf"])
def test_a_run_that_is_killed_continues_with_the_same_numbers(plugin: clframe.Plugin) -> None:
    whole = trained([copy.deepcopy(plugin)], augment=CHANGES)
    _, learner = killed_run([plugin], image_stream(), augment=CHANGES)
    assert all(torch.equal(value, learner.state_dict()[key]) for key, value in whole.items())


def test_lwf_does_not_keep_answers_to_images_that_change() -> None:
    kept: list[bool] = []

    class Look(clframe.Plugin):
        @clframe.hookimpl
        def after_epoch(self, learner: Any) -> None:
            (lwf,) = (p for p in learner.plugins.ordered if isinstance(p, LwF))
            kept.append(lwf.kept is not None)

    trained([LwF(), Look()], max_epochs=1)
    trained([LwF(), Look()], max_epochs=1, augment=["flip"])
    assert kept == [False, True, False, False]


def test_replay_keeps_images_as_stored_and_changes_them_anew() -> None:
    stream = augmented(image_stream(), ["flip"])
    data = stream.experiences[0].data
    buffer = Buffer(10)
    buffer.add(data, torch.Generator().manual_seed(0))
    stored = {tuple(row.flatten().tolist()) for row in data.gather(torch.arange(len(data)))}
    assert all(tuple(row.flatten().tolist()) in stored for row in buffer.inputs[:10])
    prepared = prepare(stream)
    rows = torch.zeros(64, dtype=torch.long)
    recalled = buffer.batch(prepared.learner, rows).x
    assert len({tuple(row.flatten().tolist()) for row in recalled}) == 2


def test_it_can_be_said_on_the_command_line_and_is_written_down(tmp_path: Any) -> None:
    from clframe.cli.main import main

    words = ["stream=split_mnist", "trainer.max_steps=2", "model.hidden=[8]", "logger=none"]
    augment = "trainer.augment=[flip,{crop:{padding:2}}]"
    assert main(["fit", *words, augment, f"run_dir={tmp_path / 'run'}"]) == 0
    written = (tmp_path / "run" / "config.yaml").read_text()
    assert "padding: 2" in written
    assert main(["fit", f"resume={tmp_path / 'run'}"]) == 0
