"""Lifelong-learning scenarios: any stream as a lifetime with recurring tasks and changing regimes.

After New, Baker, Nguyen, Vallabha, "Lifelong Learning Metrics" (2022): learning blocks of a task
under given parameters, each followed by an evaluation of all tasks. (This is not the setting
``scenario``, which selects task-, domain- or class-incremental learning.)
"""

from __future__ import annotations

import functools
import inspect
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clframe.core.factory import make_stream
from clframe.core.registry import Registry
from clframe.core.stream import Experience, Scenario, Stream, Task
from clframe.data.concat import join
from clframe.data.dataset import Data
from clframe.data.sampler import in_passes
from clframe.errors import SettingError, UnknownNameError, nearest
from clframe.streams.lifetime.plan import (
    Column,
    Order,
    Plan,
    clean,
    parse_regimes,
    plan_by_blocks,
    plan_by_order,
    read_file,
)
from clframe.streams.lifetime.variation import Variations
from clframe.utils import setting_checks

_IN_FILE = ("base", "order", "repetitions", "regimes", "block_length", "samples_per_lx", "tasks")


def scenario_stream(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    order: Order = "dispersed",
    repetitions: int = 2,
    regimes: list[dict[str, Any]] | None = None,
    block_length: int | None = None,
    samples_per_lx: int = 128,
    tasks: dict[str, str] | None = None,
    scenario_file: str | None = None,
) -> Stream:
    """A lifetime over another stream's tasks: blocks, recurrence, variants, regimes.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream, of the blocks' samples, of noise and of a permuted order.
        scenario: task, domain or class; None uses the base stream's scenario.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        order: condensed, dispersed, alternating or permuted.
        repetitions: How often each task is learned under each regime.
        regimes: Conditions, such as ``[{}, {name: dark, brightness: 0.4}]``; parameters are
            brightness and contrast (factors) and noise (standard deviation) of images in 0..1.
        block_length: Learning experiences (batches) per block; None shows all of a task's samples
            in each block.
        samples_per_lx: Samples of a learning experience; set trainer.batch_size to the same number.
        tasks: Maps task names in the scenario file to those of the base stream.
        scenario_file: A YAML or JSON file with these settings or with blocks.
    """
    where, blocks, about = "stream 'scenario'", None, {}
    if scenario_file is not None:
        where = f"scenario_file '{scenario_file}'"
        content = read_file(Path(scenario_file), _IN_FILE)
        blocks = content.pop("blocks", None)
        about = {key: content.pop(key) for key in list(content) if key not in _IN_FILE}
        settings = {"base": base, "order": order, "repetitions": repetitions, "regimes": regimes}
        settings |= {"block_length": block_length, "samples_per_lx": samples_per_lx, "tasks": tasks}
        chosen = _merged(settings, content, where, by_blocks=blocks is not None)
        base, order, repetitions = chosen["base"], chosen["order"], chosen["repetitions"]
        regimes, block_length = chosen["regimes"], chosen["block_length"]
        samples_per_lx, tasks = chosen["samples_per_lx"], chosen["tasks"]
    for name, value in (
        ("repetitions", repetitions),
        ("block_length", block_length),
        ("samples_per_lx", samples_per_lx),
    ):
        setting_checks.at_least(value, 1, f"{where}: {name}")
    named = parse_regimes(regimes or (), where)
    inner = base_stream(registry, base, scenario, seed, data_dir, download)
    if blocks is not None:
        labels = [clean(task.name) for task in inner.tasks]
        plan = plan_by_blocks(blocks, labels, named, tasks or {}, where)
    else:
        plan = plan_by_order(order, len(inner.tasks), named, repetitions, block_length, seed)
    plan.info.update(about)
    _check_images(plan, inner, where)
    return _lifetime(plan, inner, samples_per_lx, seed)


def single_task(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    task: str = "task0",
) -> Stream:
    """Everything another stream teaches of one task, to train its single-task expert.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream.
        scenario: task, domain or class; None uses the base stream's scenario.
        base: The stream: a name, or a mapping with ``name`` and settings.
        task: The name of one of its tasks.
    """
    inner = base_stream(registry, base, scenario, seed, data_dir, download)
    target = next((t for t in inner.tasks if t.name == task), None)
    if target is None:
        names = [t.name for t in inner.tasks]
        raise UnknownNameError(
            f"stream '{inner.name}' has no task '{task}'; {nearest(task, names)}"
        )
    teaching = [e for e in inner.experiences if target in e.tasks]
    if not teaching:
        raise SettingError(f"stream '{inner.name}' never teaches the task '{task}'")
    variations = Variations([target.index], [{}])
    only = Task(
        0,
        target.name,
        target.outputs,
        None if target.load is None else functools.cache(lambda: variations.give(target.data, 0)),
        target.info,
    )

    @functools.cache
    def training(number: int) -> Data:
        return variations.give(teaching[number].data, 0)

    experiences = [
        Experience(
            i,
            e.name,
            (only,),
            functools.partial(training, i),
            {**e.info, "scenario_type": "ste"},
        )
        for i, e in enumerate(teaching)
    ]
    return Stream(
        "single_task",
        inner.scenario,
        experiences,
        [only],
        inner.input_shape,
        inner.n_outputs,
        inner.source,
        seed,
    )


def base_stream(
    registry: Registry,
    base: str | dict[str, Any],
    scenario: Scenario | None,
    seed: int,
    data_dir: Path,
    download: bool,
) -> Stream:
    """Return the stream that another one is built on.

    Raises:
        SettingError: Its tasks have no labelled data.
    """
    stream = make_stream(registry, base, scenario, seed, data_dir, download)
    if stream.learner is not None:
        raise SettingError(
            f"stream '{stream.name}' is learned by {stream.learner.__name__}; use a base stream "
            "whose tasks are data with classes"
        )
    return stream


def _merged(
    settings: dict[str, Any], from_file: Mapping[str, Any], where: str, by_blocks: bool
) -> dict[str, Any]:
    """Merge settings of file and command line; reject duplicates and those without effect."""
    parameters = inspect.signature(scenario_stream).parameters
    changed = {key for key, value in settings.items() if value != parameters[key].default}
    for key in sorted(changed & set(from_file)):
        raise SettingError(f"{where} and the command line both set '{key}'; remove one of them")
    if by_blocks:
        for key in ("order", "repetitions", "block_length"):
            if key in changed | set(from_file):
                raise SettingError(f"{where} lists its blocks, so '{key}' has no effect; remove it")
    defaults = {key: value for key, value in settings.items() if key not in from_file}
    core = [key for key in parameters if key not in _IN_FILE]
    return {**defaults, **setting_checks.check(scenario_stream, from_file, where, given=core)}


def _check_images(plan: Plan, inner: Stream, where: str) -> None:
    """Reject image parameters for a stream without images."""
    changed = sorted({name for c in plan.columns for name in c.regime.parameters})
    images = len(inner.input_shape) == 3 and all(t.load is not None for t in inner.tasks)
    if changed and not images:
        raise SettingError(
            f"{where}: {', '.join(changed)} can only change images, but base stream "
            f"'{inner.name}' has inputs of shape {tuple(inner.input_shape)}"
        )


def _lifetime(plan: Plan, inner: Stream, samples_per_lx: int, seed: int) -> Stream:
    """Return the stream of a plan."""
    variations = Variations(
        [column.task for column in plan.columns],
        [column.regime.parameters for column in plan.columns],
        seed,
    )
    taught = [_teaching(column, inner) for column in plan.columns]
    for block in plan.blocks:
        if not taught[block.column]:
            name = inner.tasks[plan.columns[block.column].task].name
            raise SettingError(f"stream '{inner.name}' never teaches the task '{name}'")

    @functools.cache
    def evaluation(column: int) -> Data:
        return variations.give(inner.tasks[plan.columns[column].task].data, column)

    @functools.cache
    def whole(column: int) -> Data:
        return variations.give(join([e.data for e in taught[column]]), column)

    @functools.cache
    def training(number: int) -> Data:
        block, data = plan.blocks[number], whole(plan.blocks[number].column)
        n = len(data)

        def samples(length: int | None, passes: int) -> int:
            return passes * (n if length is None else length * samples_per_lx)

        count = samples(block.length, block.passes)
        before = [b for b in plan.blocks[:number] if b.column == block.column]
        start = sum(samples(b.length, b.passes) for b in before)
        if count == n and start % n == 0:
            return data
        # Use the name, not the index, so that a block does not depend on the other columns.
        name = columns[block.column].name
        return data.subset(in_passes(n, start, count, seed, zlib.crc32(name.encode())))

    columns: list[Task] = []
    for index, column in enumerate(plan.columns):
        base_task = inner.tasks[column.task]
        load = None if base_task.load is None else functools.partial(evaluation, index)
        name = f"{clean(base_task.name)}_{column.regime.name}"
        info = {"variant": column.regime.name, "params": column.regime.parameters}
        columns.append(Task(index, name, base_task.outputs, load, {**base_task.info, **info}))
    experiences = []
    for number, block in enumerate(plan.blocks):
        task = columns[block.column]
        about = {**task.info, **plan.info}
        if block.length is not None:
            about["count"] = block.length * block.passes
        name = f"exp{number}_{task.name}"
        load_block = functools.partial(training, number)
        experiences.append(Experience(number, name, (task,), load_block, about))
    return Stream(
        "scenario",
        inner.scenario,
        experiences,
        columns,
        inner.input_shape,
        inner.n_outputs,
        f"{inner.name}: {inner.source}",
        seed,
    )


def _teaching(column: Column, inner: Stream) -> list[Experience]:
    """Return the base stream's experiences that teach a column's task."""
    return [e for e in inner.experiences if inner.tasks[column.task] in e.tasks]


def add_streams(registry: Registry) -> None:
    """Register both streams; they look up their base stream in the same registry."""
    for name, factory, summary in (
        ("scenario", scenario_stream, "a lifetime over another stream's tasks: blocks and regimes"),
        ("single_task", single_task, "what another stream teaches of one task, for its expert"),
    ):
        registry.add("stream", name, factory, summary)
