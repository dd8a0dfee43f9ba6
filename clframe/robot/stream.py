"""A stream of robot tasks that are learned from demonstrations."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clframe.core.protocols import RobotStream
from clframe.core.stream import Experience, Task
from clframe.data.dataset import Data, TensorData
from clframe.data.observations import ObservationLayout
from clframe.errors import SettingError
from clframe.robot import demonstrations
from clframe.robot.demonstrations import Demonstration
from clframe.robot.evaluation import MEASURES, Evaluation, episodes_of
from clframe.robot.learner import ChoiceLearner, ImitationLearner
from clframe.robot.observation_windows import STATE, Normalizer, ObservationTransform, data_of
from clframe.robot.perturbation import PerturbSettings
from clframe.robot.prefetch_demos import Recorder
from clframe.robot.retries import without_retries
from clframe.robot.sequences import Encode, SequenceData, SequenceInputs, sequences_of
from clframe.robot.stopping import StopSettings
from clframe.robot.task import RobotTask
from clframe.robot.task_vectors import TEXTS, TaskInput, task_vectors
from clframe.robot.workers import RolloutPlace
from clframe.utils.setting_checks import at_least
from clframe.worlds.perturbation import Perturbation

Read = Callable[[int], Sequence[Demonstration]]
"""The demonstrations of a task, by its index."""


@dataclass(frozen=True)
class ImitationSettings(StopSettings):
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
        val_demos: So many of the demonstrations, the last ones, are not learned from; the loss on
            them is measured wherever the current task is.
        retries: Whether steps of attempts that the expert gave up are learned (``keep``) or left
            out (``cut``), where the demonstrations tell them.
        record_ahead: Record later tasks while the first is learned; None: if cores are free for it.
        rollouts: Where episodes that measure a task are acted: ``local``, or spread over a Ray
            cluster (``ray``). Results are the same.
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
    val_demos: int = 0
    retries: Literal["keep", "cut"] = "cut"
    record_ahead: bool | None = None
    rollouts: RolloutPlace = "local"

    def __post_init__(self) -> None:
        ones = ("num_demos", "eval_episodes", "horizon", "window", "num_envs", "language_size")
        for name in (*ones, "goal_seed", "num_workers", "val_demos"):
            at_least(getattr(self, name), 1 if name in ones else 0, f"stream.{name}")
        if self.val_demos >= self.num_demos:
            raise SettingError(
                f"stream.val_demos={self.val_demos} leaves nothing of stream.num_demos="
                f"{self.num_demos} to learn from"
            )
        if self.record_ahead and self.num_workers == 0:
            raise SettingError("stream.record_ahead=true needs workers, not stream.num_workers=0")


@dataclass(frozen=True, eq=False)
class ImitationStream(RobotStream):
    """A stream of demonstrations, for policies that take one vector or whole sequences.

    Args:
        read: The demonstrations of a task that are learned from.
        read_validation: Those that are not.
        sequence_inputs: What a policy for sequences is given.
        normalizer: Of the state; None where it is taken from demonstrations.
        chunk: Actions that are labels of each step.
    """

    read: Read = lambda index: ()
    read_validation: Read = lambda index: ()
    sequence_inputs: SequenceInputs | None = None
    normalizer: Normalizer | None = None
    chunk: int = 1

    @property
    def layout(self) -> ObservationLayout:
        """The parts of what a policy for sequences is given."""
        assert self.sequence_inputs is not None
        return self.sequence_inputs.layout

    def sequences(
        self, window: int, chunk: int = 1, encode: Encode | None = None
    ) -> ImitationStream:
        """The same stream for a policy that takes sequences of so many steps, and remembers.

        Args:
            window: Steps of a sequence.
            chunk: Actions that are predicted at each of them.
            encode: Makes features of images, once for each frame; None leaves images.

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

        def data(demos: Sequence[Demonstration], index: int) -> SequenceData:
            return sequences_of(demos, index, window, inputs, chunk, encode)

        return self._given(inputs, data)

    def with_chunks(self, chunk: int) -> ImitationStream:
        """The same stream, whose labels are the next so many actions; see ``robot/chunks.py``."""
        assert self.sequence_inputs is not None
        inputs = self.sequence_inputs.inputs

        def data(demos: Sequence[Demonstration], index: int) -> TensorData:
            return data_of(demos, index, inputs, self.discrete, chunk)

        return dataclasses.replace(self._given(inputs, data), chunk=chunk)

    def with_task_code(self) -> ImitationStream:
        """The same stream, whose vectors end with the one-hot code of the task's index.

        So a policy can choose its head, whatever else tells it the task (``task_input``).
        """
        assert self.sequence_inputs is not None
        inputs = self.sequence_inputs.inputs.with_task_code()

        def data(demos: Sequence[Demonstration], index: int) -> TensorData:
            return data_of(demos, index, inputs, self.discrete, self.chunk)

        return dataclasses.replace(self._given(inputs, data), input_shape=(inputs.size,))

    def perturbed(self, how: PerturbSettings) -> ImitationStream:
        """The same stream, whose tasks are measured under perturbations too.

        Raises:
            SettingError: There is no such perturbation, or it makes no difference.
        """
        if not how.perturb:
            return self
        wanted = how.perturbations
        first = episodes_of(self.tasks[0])
        for perturbation in wanted:  # so that what is wrong is said before anything is learned
            first.under(perturbation)
        return self._measured(
            lambda evaluation: dataclasses.replace(
                evaluation, perturbations=wanted, perturb_episodes=how.perturb_episodes
            )
        )

    def under(self, perturbation: Perturbation) -> ImitationStream:
        """The same stream, whose tasks are measured perturbed only."""
        if not all(isinstance(task.evaluation, Evaluation) for task in self.tasks):
            raise SettingError(f"stream '{self.name}' has no environments that could be perturbed")
        return self._measured(lambda evaluation: evaluation.under(perturbation))

    def _given(
        self,
        inputs: ObservationTransform | SequenceInputs,
        make: Callable[[Sequence[Demonstration], int], Data],
    ) -> ImitationStream:
        """The same tasks with other inputs, and data made of demonstrations and the index."""

        @functools.cache
        def data(index: int) -> Data:
            return make(self.read(index), index)

        @functools.cache
        def validation(index: int) -> Data:
            return make(self.read_validation(index), index)

        def measured(evaluation: Any) -> Any:
            more = {} if evaluation.validation is None else {"validation": validation}
            return dataclasses.replace(evaluation, inputs=inputs, **more)

        stream = self._measured(measured)
        experiences = [
            dataclasses.replace(experience, load=functools.partial(data, experience.tasks[0].index))
            for experience in stream.experiences
        ]
        return dataclasses.replace(stream, experiences=experiences)

    def _measured(self, change: Callable[[Any], Any]) -> ImitationStream:
        """The same stream, whose tasks are measured in another way."""
        tasks = [
            dataclasses.replace(task, evaluation=change(task.evaluation)) for task in self.tasks
        ]
        experiences = [
            dataclasses.replace(
                experience, tasks=tuple(tasks[task.index] for task in experience.tasks)
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
    images: Sequence[str] = (),
    image_size: int = 0,
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
        images: Observations that are images.
        image_size: Pixels of an image's side.
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
    how = (imitation.num_demos, imitation.goal_seed, imitation.num_workers, imitation.record_ahead)
    recorder = Recorder([tasks[number] for number in dict.fromkeys(order)], data_dir, *how)

    def collected(number: int) -> list[Demonstration]:
        path = recorder.need(tasks[number])
        demos = demonstrations.read(path, imitation.num_demos, (STATE, *images))
        numbers = 1 if discrete else action_size
        demonstrations.check_sizes(demos, path, {"actions": numbers, STATE: state_size})
        return without_retries(demos) if imitation.retries == "cut" else demos

    all_demos = read or collected

    def demos_of(number: int) -> Sequence[Demonstration]:
        demos = all_demos(number)
        return demos[: len(demos) - imitation.val_demos]

    def validation_demos(number: int) -> Sequence[Demonstration]:
        demos = all_demos(number)
        return demos[len(demos) - imitation.val_demos :]

    vectors = functools.partial(
        task_vectors,
        kind=imitation.task_input,
        size=imitation.language_size,
        file=imitation.language_file,
    )
    inputs = ObservationTransform(
        lambda: normalizer or Normalizer.of(demos_of(order[0])),
        state_size,
        vectors([task.language for task in tasks]),
        imitation.window,
        images,
        image_size,
    )

    @functools.cache
    def data(number: int) -> TensorData:
        return data_of(demos_of(number), number, inputs, discrete)

    @functools.cache
    def validation(number: int) -> TensorData:
        return data_of(validation_demos(number), number, inputs, discrete)

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
            },
            evaluation=Evaluation(
                robot,
                inputs,
                imitation.eval_episodes,
                imitation.horizon,
                imitation.num_envs,
                imitation.goal_seed,
                imitation.num_workers,
                measures,
                vectors if imitation.task_input in TEXTS else None,
                validation=validation if imitation.val_demos else None,
                stop=imitation.stop_rule(imitation.eval_episodes),
                rollouts=imitation.rollouts,
            ),
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
        read_validation=validation_demos,
        sequence_inputs=SequenceInputs(inputs, parts or {STATE: range(state_size)}, image_size),
        normalizer=normalizer,
        discrete=discrete,
        mask=mask,
    )


def _rounds(order: Sequence[int]) -> list[int]:
    """How often each experience's task has come up to then.

    >>> _rounds([0, 1, 0])
    [1, 1, 2]
    """
    return [list(order[: place + 1]).count(number) for place, number in enumerate(order)]
