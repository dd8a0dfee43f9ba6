"""A stream of robot tasks that are learned from demonstrations."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import Data, TensorData
from clframe.data.observations import ObservationLayout
from clframe.errors import SettingError
from clframe.robot import collect, demonstrations, language, language_file, sentences
from clframe.robot.demonstrations import Demonstration
from clframe.robot.evaluation import MEASURES, Evaluation
from clframe.robot.learner import ChoiceLearner, ImitationLearner
from clframe.robot.retries import without_retries
from clframe.robot.sequences import SequenceData, SequenceInputs, sequences_of
from clframe.robot.task import RobotTask
from clframe.robot.windows import STATE, Normalizer, ObservationTransform, data_of
from clframe.utils.settings import at_least

TaskInput = Literal["one_hot", "task_id", "language", "sentence", "file", "none"]
Read = Callable[[int], Sequence[Demonstration]]
"""The demonstrations of a task, by its index."""


@dataclass(frozen=True)
class ImitationSettings:
    """The settings that all streams of demonstrations share.

    Args:
        num_demos: Demonstrations per task.
        eval_episodes: Episodes that measure a task; the same ones each time.
        horizon: Steps until an episode is given up.
        window: Observations that the policy sees.
        task_input: How the policy is given the task: its number as a ``one_hot`` code, its
            instruction as a vector, by its words (``language``), by a frozen sentence encoder
            (``sentence``) or from a ``file``, the words "Task 5" in place of the instruction
            (``task_id``, LIBERO's "one-hot"), or not at all (``none``).
        goal_seed: Which goals are drawn, for demonstrations and for evaluation.
        num_envs: Environments stepped at once.
        num_workers: Worker processes; 0 for this one alone, None for one per core. Results are
            the same.
        language_size: Length of an instruction's vector; None for 32 (words) or 256 (sentence).
        language_file: Vectors of instructions, such as BERT's, for ``file`` and ``task_id``; see
            ``scripts/make_language_vectors.py``.
        retries: Whether steps of attempts that the expert gave up are learned (``keep``) or left
            out (``cut``), where the demonstrations tell them.
    """

    num_demos: int = 50
    eval_episodes: int = 20
    horizon: int = 200
    window: int = 1
    task_input: TaskInput = "one_hot"
    goal_seed: int = 0
    num_envs: int = 6
    num_workers: int | None = None
    language_size: int | None = None
    language_file: str | None = None
    retries: Literal["keep", "cut"] = "cut"

    def __post_init__(self) -> None:
        for name, bound in (
            ("num_demos", 1),
            ("eval_episodes", 1),
            ("horizon", 1),
            ("window", 1),
            ("goal_seed", 0),
            ("num_envs", 1),
            ("num_workers", 0),
            ("language_size", 1),
        ):
            at_least(getattr(self, name), bound, f"stream.{name}")


@dataclass(frozen=True, eq=False)
class ImitationStream(Stream):
    """A stream of demonstrations, for policies that take one vector or whole sequences.

    Args:
        read: The demonstrations of a task.
        sequence_inputs: What a policy for sequences is given.
        normalizer: Of the state; None where it is taken from demonstrations.
        discrete: Whether an action is one of ``n_outputs`` choices, instead of that many numbers.
        mask: Which numbers of an input are 1 for a choice that is possible now and 0 for another;
            None where all are always possible.
    """

    read: Read = lambda index: ()
    sequence_inputs: SequenceInputs | None = None
    normalizer: Normalizer | None = None
    discrete: bool = False
    mask: slice | None = None

    @property
    def layout(self) -> ObservationLayout:
        """The parts of what a policy for sequences is given."""
        assert self.sequence_inputs is not None
        return self.sequence_inputs.layout

    def sequences(self, window: int) -> ImitationStream:
        """The same stream for a policy that takes sequences of so many steps, and remembers.

        Raises:
            SettingError: Observations are put together to windows already.
        """
        inputs = self.sequence_inputs
        assert inputs is not None
        if inputs.inputs.window != 1:
            raise SettingError(
                f"stream.window={inputs.inputs.window} is for policies that take one vector; this "
                "one reads sequences: set model.window instead"
            )

        @functools.cache
        def data(index: int) -> SequenceData:
            return sequences_of(self.read(index), index, window, inputs)

        return self._given(inputs, data)

    def with_task_code(self) -> ImitationStream:
        """The same stream, whose vectors end with the one-hot code of the task's index.

        So a policy can choose its head, whatever else tells it the task (``task_input``).
        """
        assert self.sequence_inputs is not None
        inputs = self.sequence_inputs.inputs.with_task_code()

        @functools.cache
        def data(index: int) -> TensorData:
            return data_of(self.read(index), index, inputs, self.discrete)

        return dataclasses.replace(self._given(inputs, data), input_shape=(inputs.size,))

    def _given(
        self, inputs: ObservationTransform | SequenceInputs, data: Callable[[int], Data]
    ) -> ImitationStream:
        """The same tasks with other inputs, to be learned from other data (by the task's index)."""
        tasks = [
            dataclasses.replace(
                task,
                info={
                    **task.info,
                    "evaluation": dataclasses.replace(task.info["evaluation"], inputs=inputs),
                },
            )
            for task in self.tasks
        ]
        experiences = [
            dataclasses.replace(
                experience,
                tasks=tuple(tasks[task.index] for task in experience.tasks),
                load=functools.partial(data, experience.tasks[0].index),
            )
            for experience in self.experiences
        ]
        return dataclasses.replace(self, tasks=tasks, experiences=experiences)


def imitation_stream(
    name: str,
    tasks: Sequence[RobotTask],
    order: Sequence[int],
    imitation: ImitationSettings,
    data_dir: Path,
    state_size: int,
    action_size: int,
    normalizer: Normalizer | None = None,
    seed: int = 0,
    source: str = "",
    pictures: Sequence[str] = (),
    picture_size: int = 0,
    parts: Mapping[str, Sequence[int]] | None = None,
    read: Read | None = None,
    mask: slice | None = None,
    measures: tuple[str, ...] = MEASURES,
) -> ImitationStream:
    """Put robot tasks together to a stream that is learned by imitation.

    Every task has all outputs, and which task it is is known: the scenario is ``task``. What is not
    there of the demonstrations is made when the first of them is asked for. Tasks that no
    experience teaches are measured all the same.

    Args:
        name: Of the stream.
        tasks: Columns of the matrix.
        order: The task of each experience; one may come back.
        imitation: The settings.
        data_dir: The data folder.
        state_size: Length of an observation's state.
        action_size: Numbers of an action; choices where the tasks are discrete.
        normalizer: Of the state; None takes mean and deviation of the first experience's
            demonstrations, so that nothing is known of later tasks.
        seed: What the stream was made with.
        source: Which data this is.
        pictures: Observations that are pictures.
        picture_size: Pixels of a picture's side.
        parts: For policies that take the state in parts (hand, gripper): which of its numbers each
            has. What is in no part they do not see; None is one part of all.
        read: Reads a task's demonstrations; None makes them with the expert where they are not
            there.
        mask: Which numbers of the state are 1 for a choice that is possible now and 0 for another.
        measures: What is measured, first what fills the matrix.
    """
    discrete = all(task.discrete for task in tasks)
    if not order or not all(0 <= number < len(tasks) for number in order):
        raise SettingError(f"stream '{name}' needs at least one task to learn")
    taught = [tasks[number] for number in dict.fromkeys(order)]

    def collected(number: int) -> list[Demonstration]:
        path = collect.path_of(tasks[number], data_dir, imitation.goal_seed)
        if not collect.has_enough(path, imitation.num_demos):
            collect.ensure(
                taught, data_dir, imitation.num_demos, imitation.goal_seed, imitation.num_workers
            )
        demos = demonstrations.read(path, imitation.num_demos, (STATE, *pictures))
        numbers = 1 if discrete else action_size
        demonstrations.check_sizes(demos, path, {"actions": numbers, STATE: state_size})
        return without_retries(demos) if imitation.retries == "cut" else demos

    demos_of = read or collected
    inputs = ObservationTransform(
        lambda: normalizer or Normalizer.of(demos_of(order[0])),
        state_size,
        _task_vectors(tasks, imitation),
        imitation.window,
        pictures,
        picture_size,
    )

    @functools.cache
    def data(number: int) -> TensorData:
        return data_of(demos_of(number), number, inputs, discrete)

    outputs = tuple(range(action_size))
    columns = [
        Task(
            index,
            robot.name,
            outputs,
            info={
                "language": robot.language,
                "taught": index in order,
                "num_demos": imitation.num_demos,
                "evaluation": Evaluation(
                    robot,
                    inputs,
                    imitation.eval_episodes,
                    imitation.horizon,
                    imitation.num_envs,
                    imitation.goal_seed,
                    imitation.num_workers,
                    measures,
                ),
            },
        )
        for index, robot in enumerate(tasks)
    ]
    rounds = _rounds(order)
    experiences = [
        Experience(
            position,
            columns[number].name
            if rounds[position] == 1
            else f"{columns[number].name} ({rounds[position]})",
            (columns[number],),
            functools.partial(data, number),
            {"language": tasks[number].language},
        )
        for position, number in enumerate(order)
    ]
    if mask is not None:  # of the newest observation in the window
        before = (imitation.window - 1) * state_size
        mask = slice(before + mask.start, before + mask.stop)
    return ImitationStream(
        name,
        "task",
        experiences,
        columns,
        (inputs.size,),
        action_size,
        source,
        seed,
        learner=ChoiceLearner if discrete else ImitationLearner,
        read=demos_of,
        sequence_inputs=SequenceInputs(inputs, parts or {STATE: range(state_size)}, picture_size),
        normalizer=normalizer,
        discrete=discrete,
        mask=mask,
    )


def _task_vectors(tasks: Sequence[RobotTask], settings: ImitationSettings) -> NDArray[np.float32]:
    kind, size, file = settings.task_input, settings.language_size, settings.language_file
    if file is not None and kind not in ("file", "task_id"):
        raise SettingError(
            "stream.language_file has a meaning only with stream.task_input=file or task_id"
        )
    if kind == "file" and file is None:
        raise SettingError("stream.task_input=file needs stream.language_file=FILE.npz")
    if size is not None and (kind in ("one_hot", "none") or file is not None):
        raise SettingError(
            "stream.language_size has a meaning only with stream.task_input=language, sentence or "
            "task_id, and without a file"
        )
    if kind == "one_hot":
        return np.eye(len(tasks), dtype=np.float32)
    texts = [
        language.task_name(index) if kind == "task_id" else task.language
        for index, task in enumerate(tasks)
    ]
    if kind == "none":
        return np.zeros((len(tasks), 0), np.float32)
    if file is not None:
        return language_file.embed(Path(file).expanduser(), texts)
    if kind == "sentence":
        return sentences.embed(texts, size or sentences.SIZE)
    return np.stack([language.embed(text, size or language.SIZE) for text in texts])


def _rounds(order: Sequence[int]) -> list[int]:
    """How often each experience's task has come up to then.

    >>> _rounds([0, 1, 0])
    [1, 1, 2]
    """
    return [list(order[: place + 1]).count(number) for place, number in enumerate(order)]
