"""Scenarios: orders, regimes, recurring tasks, block lengths, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe import ClframeError
from clframe.core.stream import Stream
from clframe.data.concat import JoinedData
from clframe.data.dataset import TensorData, keep_inputs, scale_images
from clframe.streams.lifetime.plan import Regime, plan_by_order
from clframe.streams.lifetime.variation import Variation, Variations
from clframe.testing import check_stream

TWO: dict[str, Any] = {"name": "split_mnist", "n_experiences": 2}
DARK = {"name": "dark", "brightness": 0.4}


def lifetime(**settings: Any) -> Stream:
    return clframe.stream("scenario", **{"base": TWO, **settings})


def learned(stream: Stream) -> list[str]:
    return [e.tasks[0].name for e in stream]


@pytest.mark.parametrize("base", ["split_mnist", "permuted_mnist", "rotated_mnist"])
@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_scenarios_keep_the_contract(base: str, scenario: Any) -> None:
    check_stream(
        lifetime(
            base={"name": base, "n_experiences": 2},
            scenario=scenario,
            regimes=[{}, {"name": "hazy", "contrast": 0.5, "noise": 0.1}],
            block_length=2,
        )
    )


def test_orders() -> None:
    regimes = [{}, DARK]
    a, b, c, d = "task0_plain", "task0_dark", "task1_plain", "task1_dark"
    assert learned(lifetime(regimes=regimes, order="condensed")) == [a, b, c, d]
    assert learned(lifetime(regimes=regimes, order="dispersed")) == [a, c, b, d] * 2
    assert learned(lifetime(regimes=regimes, order="alternating")) == [a, b, a, b, c, d, c, d]
    permuted = lifetime(regimes=regimes, order="permuted", repetitions=3, seed=1)
    assert learned(permuted) != learned(lifetime(regimes=regimes, order="permuted", seed=2))
    for start in (0, 4, 8):
        assert sorted(learned(permuted)[start : start + 4]) == sorted([a, b, c, d])
    odd = plan_by_order("alternating", 3, [Regime("plain", {})], 2, None, 0)
    assert [block.column for block in odd.blocks] == [0, 1, 2, 0, 1, 2]


def test_every_order_teaches_each_task_equally_long() -> None:
    for order in ("condensed", "dispersed", "alternating", "permuted"):
        stream = lifetime(order=order, repetitions=3, block_length=4, samples_per_lx=10)
        for task in stream.tasks:
            experiences = [e for e in stream if e.tasks == (task,)]
            assert sum(len(e.data) for e in experiences) == 120
            assert sum(e.info["count"] for e in experiences) == 12


def test_rows_and_columns_need_not_be_equal() -> None:
    stream = lifetime(regimes=[{}, DARK], repetitions=3)
    assert (len(stream), len(stream.tasks)) == (12, 4)
    assert [e.name for e in stream][:3] == [
        "exp0_task0_plain",
        "exp1_task1_plain",
        "exp2_task0_dark",
    ]
    result = clframe.fit(
        lifetime(regimes=[{}, DARK], block_length=1),
        model={"name": "mlp", "hidden": [8]},
        run_dir=False,
        progress=False,
    )
    assert result.matrix.values.shape == (9, 4)
    assert result.metrics["gem"]["acc"] is not None


def test_a_task_that_comes_back_shows_new_samples_until_there_are_none() -> None:
    # 2500 training samples of each task; blocks of 1000: two and a half passes over them.
    stream = lifetime(repetitions=3, block_length=10, samples_per_lx=100)
    blocks = [set(e.data.indices.tolist()) for e in stream if e.tasks[0].index == 0]  # type: ignore[attr-defined]
    assert [len(e.data) for e in stream] == [1000] * 6
    assert [len(b) for b in blocks[:2]] == [1000, 1000]
    assert not blocks[0] & blocks[1]
    assert len(blocks[0] | blocks[1] | blocks[2]) == 2500
    longer = lifetime(order="condensed", repetitions=2)
    assert len(longer.experiences[0].data) == 5000


def test_a_stream_is_a_function_of_its_seed() -> None:
    settings: dict[str, Any] = {"regimes": [{"noise": 0.3}], "block_length": 1}
    first, again = lifetime(seed=3, **settings), lifetime(seed=3, **settings)
    other = lifetime(seed=4, **settings)

    def batch(stream: Stream) -> torch.Tensor:
        data = stream.experiences[1].data
        images: torch.Tensor = next(iter(data.batches(torch.arange(8), 8))).x
        return images

    assert torch.equal(batch(first), batch(again))
    assert not torch.equal(batch(first), batch(other))
    evaluated = [next(iter(s.tasks[0].data.batches(torch.arange(8), 8))).x for s in (first, other)]
    assert not torch.equal(*evaluated)  # the noise follows the seed too


def test_regimes_change_images_as_they_say() -> None:
    x = torch.randint(0, 256, (6, 1, 8, 8), dtype=torch.uint8)
    parameters = [{}, {"brightness": 0.5}, {"contrast": 0.0}, {"noise": 0.1}, {"brightness": 3.0}]
    vary = Variation(scale_images, [0] * 5, parameters)
    plain = scale_images(x, torch.zeros(6))

    def under(index: int) -> torch.Tensor:
        images: torch.Tensor = vary(x, torch.full((6,), index))
        return images

    assert torch.equal(under(0), plain)
    assert torch.equal(under(-1), plain)
    assert torch.allclose(under(1), plain / 2)
    assert torch.allclose(under(2), plain.mean((1, 2, 3), keepdim=True).expand_as(plain))
    assert torch.allclose(under(4), (plain * 3).clamp(max=1))
    noise = (under(3) - plain)[(plain > 0.4) & (plain < 0.6)]
    assert 0.05 < float(noise.std()) < 0.15
    assert float(under(3).min()) >= 0.0
    assert float(under(3).max()) <= 1.0


def test_noise_belongs_to_the_sample_not_to_the_batch() -> None:
    x = torch.randint(0, 256, (50, 1, 28, 28), dtype=torch.uint8)
    vary = Variation(scale_images, [0], [{"noise": 0.2}], seed=1)
    together = vary(x, torch.zeros(50, dtype=torch.long))
    alone = vary(x[7:8], torch.zeros(1, dtype=torch.long))
    assert torch.equal(together[7], alone[0])
    gray = torch.full((200, 1, 28, 28), 128, dtype=torch.uint8)
    gray[:, 0, 0, 0] = torch.arange(200, dtype=torch.uint8)
    noise = vary(gray, torch.zeros(200, dtype=torch.long))[:, 0, 1:] - 128 / 255
    assert abs(float(noise.mean())) < 0.01
    assert abs(float(noise.std()) - 0.2) < 0.01
    flat = noise.flatten(1)
    alike = torch.corrcoef(flat) - torch.eye(200)
    assert float(alike.abs().max()) < 0.3  # images that differ in one pixel have noise of their own


def test_the_base_transform_sees_its_own_task_index() -> None:
    base = clframe.stream("permuted_mnist", n_experiences=3)
    stream = clframe.stream(
        "scenario", base={"name": "permuted_mnist", "n_experiences": 3}, regimes=[{}, DARK]
    )
    order = torch.arange(4)
    for task in stream.tasks:
        x = next(iter(task.data.batches(order, 4))).x
        original = next(iter(base.tasks[task.index // 2].data.batches(order, 4))).x
        factor = task.info["params"].get("brightness", 1.0)
        assert torch.allclose(x, original * factor)
        assert task.data.tasks.unique().tolist() == [task.index]


def test_data_of_several_sources_can_be_renamed() -> None:
    """Joined data keeps its parts, on any device and in any subset."""
    parts = [TensorData(torch.full((3, 2), float(i)), torch.zeros(3).long(), 4) for i in (1, 2)]
    for part in parts:
        part.transform = keep_inputs
    given = Variations([0, 4], [{}, {}]).give(JoinedData(parts), 1)
    moved = given.to(torch.device("cpu")).subset(torch.tensor([0, 5]))
    assert moved.tasks.tolist() == [1, 1]
    x = next(iter(moved.batches(torch.arange(2), 2))).x
    assert x[:, 0].tolist() == [1.0, 2.0]


def test_samples_of_variants_can_be_replayed_together() -> None:
    """Data of all columns joins into one indexed data set, each sample under its own regime."""
    from clframe.data.concat import join

    stream = lifetime(regimes=[{}, DARK], block_length=1, samples_per_lx=4)
    joined = join([e.data for e in stream])
    assert isinstance(joined, TensorData)
    x = next(iter(joined.batches(torch.arange(len(joined)), len(joined)))).x
    bright = x.flatten(1).amax(1)
    dark = torch.tensor([stream.tasks[t].info["variant"] == "dark" for t in joined.tasks.tolist()])
    assert float(bright[dark].max()) <= 0.4 + 1e-6
    assert float(bright[~dark].min()) > 0.5


# ------------------------------------------------------------------------ files


def test_a_yaml_file_says_the_same_as_settings(tmp_path: Path) -> None:
    file = tmp_path / "lifetime.yaml"
    file.write_text(
        "base: {name: split_mnist, n_experiences: 2}\n"
        "order: alternating\nrepetitions: 3\nblock_length: 2\ndifficulty: 1-easy\n"
        "regimes: [{}, {name: dark, brightness: 0.4}]\n"
    )
    by_file = clframe.stream("scenario", scenario_file=str(file))
    by_hand = lifetime(order="alternating", repetitions=3, block_length=2, regimes=[{}, DARK])
    assert learned(by_file) == learned(by_hand)
    assert [len(e.data) for e in by_file] == [len(e.data) for e in by_hand]
    assert by_file.experiences[0].info["difficulty"] == "1-easy"


BLOCKS = [
    {"type": "test", "regimes": [{"task": "task2", "count": 1}]},
    {"type": "train", "regimes": [{"task": "task0", "count": 3}]},
    {"type": "train", "regimes": [{"task": "task1", "count": 2, "params": {"noise": 0.2}}]},
    {
        "type": "train",
        "regimes": [{"task": "task0_dark", "length": 1, "args": {"brightness": 0.5}}],
    },
    {"type": "train", "regimes": [{"task": "task0_dark"}, {"task": "task0"}]},
]


@pytest.mark.parametrize("form", ["list", "scenario", "blocks", "input_file"])
def test_an_l2_scenario_file(tmp_path: Path, form: str) -> None:
    file = tmp_path / "scenario.json"
    content: Any = {
        "list": BLOCKS,
        "scenario": {"logging_base_dir": "logs", "scenario": BLOCKS},
        "blocks": {"threads": 7, "blocks": BLOCKS},
        "input_file": {"author": "me", "scenario": "class", "input_file": {"scenario": BLOCKS}},
    }
    file.write_text(json.dumps(content[form]))
    stream = clframe.stream("scenario", scenario_file=str(file), samples_per_lx=10)
    names = ["task2_plain", "task0_plain", "task1_v1", "task0_dark"]
    assert [t.name for t in stream.tasks] == names
    assert learned(stream) == [
        "task0_plain",
        "task1_v1",
        "task0_dark",
        "task0_dark",
        "task0_plain",
    ]
    assert [len(e.data) for e in stream] == [30, 20, 10, 1000, 1000]
    check_stream(stream)


def test_tasks_of_a_foreign_file_get_names_of_the_base_stream(tmp_path: Path) -> None:
    file = tmp_path / "foreign.json"
    blocks = [{"type": "train", "regimes": [{"task": name}]} for name in ("TASK_A", "B")]
    file.write_text(json.dumps(blocks))
    stream = lifetime(scenario_file=str(file), tasks={"TASK_A": "task1", "B": "task0"})
    assert learned(stream) == ["task1_plain", "task0_plain"]


def test_a_runs_own_scenario_info_describes_it(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"regimes": [{}, DARK], "block_length": 1, "samples_per_lx": 8}
    stream = lifetime(**settings)
    clframe.fit(
        stream, model={"name": "mlp", "hidden": [4]}, run_dir=tmp_path / "run", progress=False
    )
    info = tmp_path / "run" / "log" / "scenario_info.json"
    again = lifetime(scenario_file=str(info), samples_per_lx=8)
    assert learned(again) == learned(stream)
    order = torch.arange(8)
    for new, old in zip(again, stream, strict=True):
        first, second = (next(iter(e.data.batches(order, 8))) for e in (new, old))
        assert torch.equal(first.x, second.x)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "does not exist"),
        ("a: [1, 2", "is neither YAML nor JSON (line 1)"),
        ("just words", "must hold settings by name or a list of blocks"),
        ("oder: condensed", "unknown key 'oder'; did you mean 'order'?"),
        ("order: sideways", "'order' must be one of condensed, dispersed, alternating, permuted"),
        ("repetitions: 0", "repetitions must be at least 1, got 0"),
        ("regimes: [{bright: 1}]", "unknown regime parameter 'bright'"),
        ("base: split_mnits", "did you mean 'split_mnist'?"),
        ("blocks: []", "'blocks' must be a list of blocks"),
        ("- {type: train}", "block 0 must have the keys 'type' and 'regimes'"),
        ("- {type: lern, regimes: [{task: task0}]}", "type must be train or test, got 'lern'"),
        ("- {type: train, regimes: [{task: task9}]}", "has no task 'task9'; did you mean"),
        ("- {type: train, regimes: [{tsk: a}]}", "unknown key 'tsk'; did you mean 'task'?"),
        ("- {type: train, regimes: [{count: 3}]}", "needs the name of its task, got None"),
        ("- {type: train, regimes: [{task: task0, count: 0}]}", "count must be a whole number"),
        ("- {type: train, regimes: [{task: task0_x}]}", "no regime is named 'x' ('task0_x')"),
        ("- {type: train, regimes: [{task: task0, params: {size: 5}}]}", "parameter 'size'"),
        ("- {type: test, regimes: [{task: task0}]}", "has no training block"),
        ("{order: condensed, blocks: [{type: train}]}", "so 'order' has no effect; remove it"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str | None, sentence: str) -> None:
    file = tmp_path / "bad.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ClframeError) as caught:
        clframe.stream("scenario", scenario_file=str(file))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"base": "split_mnits"}, "unknown stream 'split_mnits'; did you mean 'split_mnist'?"),
        ({"base": {"n_experiences": 2}}, "stream must be a name or a mapping with a name"),
        ({"base": {"name": "split_mnist", "n": 2}}, "unknown setting 'n' for stream 'split_mnist'"),
        ({"order": "sideways"}, "'order' must be one of condensed, dispersed"),
        ({"repetitions": 0}, "repetitions must be at least 1, got 0"),
        ({"block_length": 0}, "block_length must be at least 1, got 0"),
        ({"samples_per_lx": 0}, "samples_per_lx must be at least 1, got 0"),
        ({"regimes": [{"brightnes": 0.5}]}, "unknown regime parameter 'brightnes'; did you mean"),
        ({"regimes": [{"noise": -1}]}, "noise must be a number from 0 up, got -1"),
        ({"regimes": [{"noise": "loud"}]}, "noise must be a number from 0 up, got 'loud'"),
        ({"regimes": [{}, {}]}, "two regimes are named 'plain'"),
        ({"regimes": [{"name": "a_b"}]}, "a regime's name is letters and digits, got 'a_b'"),
        ({"regimes": "dark"}, "'regimes' must be a list"),
    ],
)
def test_bad_settings_are_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClframeError) as caught:
        clframe.stream("scenario", **settings)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_may_not_be_in_both_places(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("order: condensed")
    with pytest.raises(ClframeError, match="and the command line both set 'order'"):
        clframe.stream("scenario", scenario_file=str(file), order="permuted")


def test_regimes_need_images(tmp_path: Path) -> None:
    file = tmp_path / "blobs.py"
    file.write_text(
        "from clframe import hookimpl\n"
        "from clframe.testing import toy_stream\n"
        "@hookimpl\n"
        "def register(registry):\n"
        "    registry.add('stream', 'blobs', toy_stream)\n"
    )
    stream = clframe.stream("scenario", base="blobs", plugin_path=[file])
    assert len(stream) == 6
    with pytest.raises(ClframeError, match=r"brightness can only change images.*shape \(8,\)"):
        clframe.stream("scenario", base="blobs", plugin_path=[file], regimes=[DARK])


# ------------------------------------------------------------------------ experts' streams


def test_single_task_teaches_all_blocks_of_one_task() -> None:
    whole = {"name": "scenario", "base": TWO, "regimes": [{}, DARK], "block_length": 2}
    lived = lifetime(regimes=[{}, DARK], block_length=2)
    stream = clframe.stream("single_task", base=whole, task="task1_dark")
    check_stream(stream)
    experiences = [e for e in lived if e.tasks[0].name == "task1_dark"]
    assert [e.name for e in stream] == [e.name for e in experiences]
    order = torch.arange(16)
    for alone, shared in zip(stream, experiences, strict=True):
        first, second = (next(iter(e.data.batches(order, 16))) for e in (alone, shared))
        assert torch.equal(first.x, second.x)
        assert torch.equal(first.y, second.y)
        assert first.task.unique().tolist() == [0]
    with pytest.raises(ClframeError, match="no task 'task7_dark'; did you mean"):
        clframe.stream("single_task", base=whole, task="task7_dark")
