"""LIBERO's three policies, on a point that is seen through two small cameras."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import clframe
from clframe.checkpoint.checkpointer import CheckpointSettings
from clframe.core.stream import Experience, Stream, Task
from clframe.data.observations import TASK, ObservationLayout
from clframe.errors import SettingError
from clframe.models.libero.augment import Augment
from clframe.models.libero.film_resnet import FiLM, SpatialSoftmax
from clframe.models.libero.policy import SequencePolicy
from clframe.models.libero.temporal import TemporalTransformer
from clframe.models.libero.transformer import Transformer, time_code
from clframe.models.libero_policies import libero_policy
from clframe.robot.stream import ImitationStream
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.testing import Kill, Killed, check_stream, prepare
from tests.helpers.seen_point import CAMERAS, SIDE, seen_stream

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

POLICIES = ("resnet_rnn", "resnet_t", "vit_t")


def stream_like(
    side: int = SIDE, task: int = 8, states: dict[str, int] | None = None
) -> ImitationStream:
    """A stream as far as a policy looks at it."""

    class Given(ImitationStream):
        layout = ObservationLayout(CAMERAS, side, states or {"gripper": 2, "joint": 7}, task)

    only = Task(0, "only", (0,))
    learned = Experience(0, "only", (only,), lambda: only.data)
    return Given("given", "task", [learned], [only], (1,), 1)


def sequences(n: int = 2, steps: int = 5, side: int = SIDE, task: int = 8) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    shape = (n, steps, 3, side, side)
    return {
        **{
            name: torch.randint(0, 256, shape, dtype=torch.uint8, generator=draw)
            for name in CAMERAS
        },
        "gripper": torch.randn(n, steps, 2, generator=draw),
        "joint": torch.randn(n, steps, 7, generator=draw),
        TASK: torch.randn(n, task, generator=draw),
    }


def at(x: dict[str, Tensor], steps: slice) -> dict[str, Tensor]:
    return {name: value if name == TASK else value[:, steps] for name, value in x.items()}


def small(name: Any, **settings: Any) -> SequencePolicy:
    torch.manual_seed(0)
    return libero_policy(name, stream_like(), 7, size="small", **settings).eval()


# ------------------------------------------------------------ as published


@pytest.mark.parametrize(
    ("name", "count"),
    [("resnet_rnn", 19_105_707), ("resnet_t", 5_383_307), ("vit_t", 7_917_963)],
)
def test_the_papers_sizes_have_the_published_numbers_of_parameters(name: Any, count: int) -> None:
    """Two cameras of 128 pixels, gripper 2, joints 7, an instruction of 768, actions of 7."""
    policy = libero_policy(name, stream_like(128, 768), 7)
    assert sum(p.numel() for p in policy.parameters()) == count


def test_neither_convolution_nor_linear_are_the_lstm_and_the_embeddings_alone() -> None:
    def others(name: Any) -> int:
        layers = (nn.Conv2d, nn.Linear, nn.BatchNorm2d, nn.LayerNorm)
        policy = libero_policy(name, stream_like(128, 768), 7)
        rest = [m for m in policy.modules() if not isinstance(m, layers)]
        return sum(p.numel() for m in rest for p in m.parameters(recurse=False))

    assert (others("resnet_rnn"), others("resnet_t"), others("vit_t")) == (13_291_520, 0, 16_896)


def test_film_scales_by_one_plus_gamma_and_shifts_by_beta() -> None:
    video = FiLM(1, 2)
    with torch.no_grad():
        video.linear.weight.zero_()
        video.linear.bias.copy_(torch.tensor([10.0, 20.0, 0.5, -1.0]))
    maps = torch.arange(8.0).reshape(1, 2, 2, 2)
    expected = torch.stack([1.5 * maps[:, 0] + 10, 0 * maps[:, 1] + 20], 1)
    torch.testing.assert_close(video(maps, torch.ones(1, 1)), expected)


def test_the_spatial_softmax_tells_where_the_mass_is() -> None:
    softmax = SpatialSoftmax(1, 1)
    with torch.no_grad():
        softmax.maps.weight.fill_(1.0)
        softmax.maps.bias.zero_()
    maps = torch.zeros(1, 1, 5, 5)
    maps[0, 0, 1, 4] = 100.0
    torch.testing.assert_close(softmax(maps), torch.tensor([[1.0, -0.5]]))


def test_the_time_code_has_base_ten() -> None:
    code = time_code(3, 4, torch.zeros(1))
    for step in range(3):
        slow = step / 10**0.5
        expected = [np.sin(step), np.sin(slow), np.cos(step), np.cos(slow)]
        np.testing.assert_allclose(code[step].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("name", POLICIES)
def test_the_loss_is_the_mean_over_all_steps(name: Any) -> None:
    policy, x = small(name), sequences()
    actions = torch.rand(2, 5, 7) * 2 - 1
    with torch.no_grad():
        outputs = policy(x)
        assert outputs.shape == (2, 5, 5 * (2 * 7 + 1))
        each = [policy.action_loss(outputs[:, t], actions[:, t]) for t in range(5)]
        torch.testing.assert_close(policy.action_loss(outputs, actions), torch.stack(each).mean())


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("part", [*CAMERAS, "gripper", "joint"])
def test_later_steps_do_not_change_earlier_answers(name: Any, part: str) -> None:
    policy, x = small(name), sequences()
    changed = dict(x)
    changed[part] = x[part].clone()
    changed[part][:, 3:] = 255 - x[part][:, 3:]
    with torch.no_grad():
        before, after = policy(x), policy(changed)
    apart = (before - after).abs().amax((0, 2))
    assert (apart[:3] < 1e-7).all()
    assert (apart[3:] > 1e-6).all()


def test_tokens_of_one_step_see_each_other() -> None:
    torch.manual_seed(0)
    temporal = TemporalTransformer(Transformer(8, 1, 2, 4, 16)).eval()
    tokens = torch.randn(1, 3, 4, 8)
    changed = tokens.clone()
    changed[:, 1, 3] = torch.randn(8)  # the last token of the second step
    with torch.no_grad():
        apart = (temporal(tokens) - temporal(changed)).abs().amax((0, 2))
    assert apart[0] == 0
    assert (apart[1:] > 1e-4).all()


def test_instructions_change_what_is_seen() -> None:
    for name in POLICIES:
        policy, x = small(name), sequences()
        with torch.no_grad():
            outputs = policy(x)
            other = policy({**x, TASK: -x[TASK]})
        assert not torch.allclose(outputs, other, atol=1e-3)


# ------------------------------------------------------------ acting


@pytest.mark.parametrize("name", POLICIES)
def test_acting_step_by_step_is_the_same_as_reading_the_sequence(name: Any) -> None:
    policy, x = small(name), sequences()
    with torch.no_grad():
        whole = policy(x)
        with policy.acting():
            policy.reset(torch.tensor([True, True]))
            steps = [policy(at(x, slice(t, t + 1))) for t in range(5)]
    torch.testing.assert_close(torch.stack(steps, 1), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("name", "seen"), [("resnet_t", len(CAMERAS)), ("vit_t", 1)])
def test_the_head_reads_all_tokens_of_a_step(name: Any, seen: int) -> None:
    policy, x = small(name, readout="all"), sequences()
    assert policy.head.layers[0].in_features == (1 + 2 + seen) * 64  # type: ignore[union-attr, index]
    changed = {**x, "joint": x["joint"].clone()}
    changed["joint"][:, 3:] += 1.0
    with torch.no_grad():
        for layer in policy.features.temporal.transformer.layers:  # type: ignore[union-attr]
            layer.attention.output.weight.zero_()  # type: ignore[union-attr, operator]
        apart = (policy(x) - policy(changed)).abs().amax((0, 2))
        assert (apart[:3] < 1e-7).all()
        assert (apart[3:] > 1e-4).all(), "the state needs no attention to reach the head"
        whole = policy(x)
        with policy.acting():
            policy.reset(torch.tensor([True, True]))
            steps = [policy(at(x, slice(t, t + 1))) for t in range(5)]
    torch.testing.assert_close(torch.stack(steps, 1), whole, atol=1e-5, rtol=1e-4)
    with pytest.raises(SettingError, match=r"model.readout is for transformers"):
        small("resnet_rnn", readout="all")
    with pytest.raises(SettingError, match=r"model.stem is for ResNets"):
        small("vit_t", stem="patch")


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_observation_twice_is_not_the_same(name: Any) -> None:
    """A hidden state that is lost at every step, as in LIBERO's code, would give it away."""
    policy, x = small(name), sequences(steps=1)
    with torch.no_grad(), policy.acting():
        policy.reset(torch.tensor([True, True]))
        first, second = policy(x), policy(x)
        assert not torch.allclose(first, second, atol=1e-4)
        policy.reset(torch.tensor([False, True]))
        third = policy(x)
    assert not torch.allclose(third[0], first[0], atol=1e-4)
    torch.testing.assert_close(third[1], first[1])


@pytest.mark.parametrize("name", POLICIES)
def test_rows_begin_their_episodes_at_different_times(name: Any) -> None:
    policy, x = small(name), sequences()
    late = {key: value[1:] for key, value in at(x, slice(2, 5)).items()}
    with torch.no_grad():
        whole = policy(late)
        with policy.acting():
            for t in range(5):
                policy.reset(torch.tensor([t == 0, t in (0, 2)]))
                now = policy(at(x, slice(t, t + 1)))
    torch.testing.assert_close(now[1], whole[0, -1], atol=1e-5, rtol=1e-4)


def test_a_transformer_looks_back_over_its_window_and_no_further() -> None:
    policy, x = small("resnet_t", window=3), sequences()
    with torch.no_grad():
        last = policy(at(x, slice(2, 5)))[:, -1]
        with policy.acting():
            policy.reset(torch.tensor([True, True]))
            for t in range(5):
                now = policy(at(x, slice(t, t + 1)))
    torch.testing.assert_close(now, last, atol=1e-5, rtol=1e-4)


def test_a_recurrent_policy_remembers_all_of_the_episode() -> None:
    policy, x = small("resnet_rnn", window=2), sequences()
    with torch.no_grad():
        last = policy(x)[:, -1]
        with policy.acting():
            policy.reset(torch.tensor([True, True]))
            for t in range(5):
                now = policy(at(x, slice(t, t + 1)))
    torch.testing.assert_close(now, last, atol=1e-5, rtol=1e-4)


def test_nothing_is_remembered_between_evaluations() -> None:
    policy, x = small("resnet_rnn"), sequences(steps=1)
    with torch.no_grad():
        answers = []
        for _ in range(2):
            with policy.acting():
                policy.reset(torch.tensor([True, True]))
                answers.append(policy(x))
        assert torch.equal(*answers)
        torch.testing.assert_close(policy(x)[:, 0], answers[0])


# ------------------------------------------------------------ images in training


def test_images_of_a_sample_are_moved_alike_and_only_in_training() -> None:
    torch.manual_seed(0)
    ramp = torch.arange(16.0).expand(16, 16) + 16 * torch.arange(16.0)[:, None]
    view = ramp.expand(4, 3, 3, 16, 16) / 256
    augment = Augment(0.0, 4)
    moved, same = augment([view, view.clone()])
    assert torch.equal(moved, same)
    for sample in moved:
        assert (sample == sample[:1, :1]).all()
    # Wherever the middle went, it came from at most four pixels away.
    shifts = ((moved[:, 0, 0, 8, 8] - view[0, 0, 0, 8, 8]) * 256).round().long()
    across = (shifts + 8) % 16 - 8
    assert across.abs().max() <= 4
    assert ((shifts - across) // 16).abs().max() <= 4
    assert len(shifts.unique()) > 1
    assert torch.equal(augment.eval()([view])[0], view)


def test_colors_change_alike_through_steps_and_cameras() -> None:
    torch.manual_seed(0)
    view = torch.rand(8, 1, 3, 8, 8).expand(8, 3, 3, 8, 8)
    changed, same = Augment(0.3, 0)([view, view])
    assert torch.equal(changed, same)
    assert torch.equal(changed[:, 0], changed[:, 2])
    apart = (changed - view).abs().amax((1, 2, 3, 4))
    assert (apart > 0.01).sum() >= 5  # nine of ten on average
    assert changed.min() >= 0
    assert changed.max() <= 1


# ------------------------------------------------------------ streams of sequences


def test_sequences_hold_every_step_once_and_repeat_the_last(tmp_path: Path) -> None:
    plain = seen_stream(tmp_path)
    stream = plain.sequences(4)
    check_stream(stream)
    data = stream.experiences[0].data
    demos = plain.read(0)
    assert len(data) == sum(len(demo) for demo in demos)
    last = len(demos[0]) - 1
    (batch,) = data.batches(torch.tensor([last - 1]), 1)
    actions = torch.from_numpy(demos[0].actions)
    assert torch.equal(batch.y[0], actions[[last - 1, last, last, last]])
    image = torch.from_numpy(demos[0].observations["front_rgb"][last]).permute(2, 0, 1)
    assert torch.equal(batch.x["front_rgb"][0, 1], image)
    assert batch.x["place"].shape == (1, 4, 2)
    assert batch.x[TASK].tolist() == [[1.0, 0.0]]
    stored = sum(value.nbytes for value in demos[0].observations.values())
    assert data.frames.nbytes < 3 * stored  # type: ignore[attr-defined]


STRATEGIES: dict[str, Any] = {
    "naive": "naive",
    "multitask": "multitask",
    "er": {"replay": {"size": 20}},
    "ewc": {"ewc": {"fisher": "batch", "weight": 10.0}},
    "packnet": {"packnet": {"prune": 0.6, "post_steps": 1}},
}


EACH_ONCE = [
    (strategy, POLICIES[number % len(POLICIES)]) for number, strategy in enumerate(STRATEGIES)
]
"""Every method and every policy once or twice; all others of the product are slow."""


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        pytest.param(*both, marks=() if both in EACH_ONCE else pytest.mark.slow)
        for both in itertools.product(STRATEGIES, POLICIES)
    ],
)
def test_methods_act_on_them_unchanged(name: str, strategy: str, tmp_path: Path) -> None:
    result = clframe.fit(
        seen_stream(tmp_path),
        STRATEGIES[strategy],
        {"name": name, "size": "small", "window": 3},
        run_dir=False,
        progress=False,
        logger=None,
        max_steps=2,
        batch_size=4,
    )
    assert result.matrix.measure == "success"
    assert np.isfinite(result.matrix.values).all()


@pytest.mark.parametrize("name", POLICIES)
def test_the_fisher_of_single_sequences_can_be_had(name: str, tmp_path: Path) -> None:
    prepared = prepare(seen_stream(tmp_path), "naive", {"name": name, "size": "small"})
    from clframe.plugins._fisher import fisher

    learner = prepared.learner
    learner.engine.bind(learner)
    data = prepared.stream.experiences[0].data.subset(torch.tensor([0, 5]))
    result = fisher(learner, data, "true")
    expected = {key: torch.zeros_like(p) for key, p in learner.named_trainable().items()}
    learner.eval()
    for batch in data.batches(torch.arange(2), 1):
        loss = learner.task_loss(learner(batch.x, batch.task), batch)
        grads = torch.autograd.grad(loss, list(learner.named_trainable().values()))
        for total, grad in zip(expected.values(), grads, strict=True):
            total += grad.square() / 2
    for key, value in result.items():
        torch.testing.assert_close(value, expected[key], rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_a_policy_learns_where_to_go_from_images(tmp_path: Path) -> None:
    result = clframe.fit(
        seen_stream(tmp_path, 1, 60, eval_episodes=20, horizon=30, num_envs=20),
        "naive",
        {"name": "resnet_t", "size": "small", "window": 2, "color": 0.0, "shift": 0}
        | {"act": "mode_mean"},
        optimizer={"name": "adamw", "lr": 1e-3},
        run_dir=False,
        progress=False,
        logger=None,
        max_steps=250,
        batch_size=32,
    )
    # Who does not look goes to no place in particular.
    assert result.matrix.values[0, 0] < 0.15
    assert result.matrix.learned[0, 0] > 0.25


def test_evaluations_are_the_same_each_time_and_leave_learning_alone(tmp_path: Path) -> None:
    def learn(**more: Any) -> Any:
        return clframe.fit(
            seen_stream(tmp_path, 1),
            "naive",
            {"name": "resnet_rnn", "size": "small", "window": 3},
            run_dir=False,
            progress=False,
            logger=None,
            max_epochs=2,
            limit_train_batches=2,
            batch_size=4,
            **more,
        )

    first, again = learn(), learn(check_val_every_n_epoch=1)
    assert (first.matrix.values == again.matrix.values).all()


FLOW = ("resnet_t", {"head": "flow", "chunk": 3, "execute": 2})
MIXTURE = ("resnet_rnn", {"head": "gmm", "chunk": 3, "grip": "bernoulli", "act": "draw_mode"})
BATCHES = {"ewc": {"fisher": "batch"}}


@pytest.mark.parametrize(
    ("method", "name", "head"),
    [
        (BATCHES, *FLOW),
        ("packnet", *MIXTURE),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in [
                ("replay", *FLOW),
                ("packnet", *FLOW),
                ("replay", *MIXTURE),
                (BATCHES, *MIXTURE),
            ]
        ),
    ],
)
def test_they_have_all_heads(name: str, head: dict[str, Any], method: Any, tmp_path: Path) -> None:
    prepared = prepare(
        seen_stream(tmp_path, eval_episodes=1),
        method,
        {"name": name, "size": "small", "window": 3, **head},
        trainer={"max_steps": 2, "batch_size": 4},
    )
    labels = prepared.stream.experiences[0].load().labels
    assert labels.shape[1:] == (3, 3, 3)  # steps of the window, actions of a chunk, numbers
    assert (labels[..., 0, -1] == 1).all()
    result = run(prepared.learner, prepared.stream, "heads")
    assert np.isfinite(result.matrix.learned[-1]).all()


@pytest.mark.parametrize("name", [pytest.param("resnet_rnn", marks=pytest.mark.slow), "vit_t"])
def test_a_run_that_is_killed_resumes_as_if_nothing_had_been(name: str, tmp_path: Path) -> None:
    def learn(place: str, lives: int) -> dict[str, Tensor]:
        folder = RunFolder(tmp_path / place)
        folder.saving = CheckpointSettings(every_n_steps=2)
        while True:
            prepared = prepare(
                seen_stream(tmp_path, eval_episodes=1),
                [Kill(lives)],
                {"name": name, "size": "small", "window": 3},
                trainer={"max_steps": 4, "batch_size": 4},
            )
            with contextlib.suppress(Killed):
                run(prepared.learner, prepared.stream, "killed", folder)
                return prepared.learner.state_dict()

    whole, pieces = learn("whole", 100), learn("pieces", 3)
    assert all(torch.equal(value, pieces[key]) for key, value in whole.items())


# ------------------------------------------------------------ what cannot be


def build(stream: Stream | dict[str, Any] | str, **model: Any) -> Any:
    return prepare(stream, "naive", {"name": "vit_t", "size": "small", **model})


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="'vit_t' needs robot observations, which stream"):
        build("split_mnist")
    with pytest.raises(SettingError, match="'vit_t' needs images, but stream 'point_robot'"):
        build({"name": "point_robot", "num_demos": 2})
    with pytest.raises(SettingError, match=r"set model\.window instead"):
        build(seen_stream(tmp_path, window=3))
    with pytest.raises(SettingError, match=r"model\.window must be at least 1"):
        build(seen_stream(tmp_path), window=0)
    with pytest.raises(SettingError, match="'size' must be one of paper, small"):
        build(seen_stream(tmp_path), size="huge")
    odd = stream_like(side=24)
    with pytest.raises(SettingError, match=r"in steps of 16; stream\.size is 24"):
        libero_policy("vit_t", odd, 7)


def test_a_policy_that_is_not_given_the_task_can_be_made(tmp_path: Path) -> None:
    prepared = prepare(
        seen_stream(tmp_path, task_input="none"), "naive", {"name": "resnet_t", "size": "small"}
    )
    (batch,) = prepared.stream.experiences[0].data.batches(torch.arange(2), 2)
    assert prepared.learner(batch.x, batch.task).shape[:2] == (2, 10)


def test_a_stream_prepared_for_sequences_is_otherwise_the_same(tmp_path: Path) -> None:
    plain = seen_stream(tmp_path)
    prepared = plain.sequences(3)
    assert [task.name for task in prepared.tasks] == [task.name for task in plain.tasks]
    for before, after in zip(plain.tasks, prepared.tasks, strict=True):
        evaluation = dataclasses.replace(after.evaluation, inputs=before.evaluation.inputs)
        assert evaluation == before.evaluation
    assert plain.experiences[0].data.labels.ndim == 2
