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
"""Returns the demonstrations of a task, given its index."""


@dataclass(frozen=True)
class ImitationSettings(StopSettings):
    """The settings that all demonstration streams share.

    Args:
        num_demos: Demonstrations per task.
        eval_episodes: Evaluation episodes per task, the same at every evaluation.
        horizon: Steps after which an episode ends.
        window: Observations that the policy sees.
        task_input: How the policy receives the task: its number as a ``one_hot`` code, its
            instruction as a vector of its words (``language``), of a frozen sentence encoder
            (``sentence``) or from a ``file``, the text "Task 5" instead of the instruction
            (``task_id``, LIBERO's "one-hot"), or not at all (``none``).
        goal_seed: The seed of the goals in demonstrations and evaluation.
        num_envs: Environments stepped at the same time.
        num_workers: Worker processes; 0 uses only the main process, None one per core. Results
            do not depend on it.
        language_size: Length of the instruction vector; None is 32 (words) or 256 (sentence).
        language_file: Instruction vectors, such as BERT's, for ``file`` and ``task_id``; see
            ``scripts/make_language_vectors.py``.
        val_demos: Hold out the last n demonstrations of each task; every evaluation measures the
            loss on them.
        retries: ``keep`` or ``cut`` the steps of attempts that the expert gave up, if the
            demonstrations mark them.
        record_ahead: Record later tasks while the first is learned; None: if cores are free.
        rollouts: Where evaluation episodes run: ``local``, or spread over a Ray cluster
            (``ray``). Results do not depend on it.
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
                f"stream.val_demos={self.val_demos} holds out all of stream.num_demos="
                f"{self.num_demos}; leave at least one to learn from"
            )
        if self.record_ahead and self.num_workers == 0:
            raise SettingError("stream.record_ahead=true needs workers, not stream.num_workers=0")


@dataclass(frozen=True, eq=False)
class ImitationStream(RobotStream):
    """A demonstration stream for policies that take one vector or whole sequences.

    Args:
        read: Returns the training demonstrations of a task.
        read_validation: Returns the held-out demonstrations of a task.
        sequence_inputs: The inputs of a sequence policy.
        normalizer: Normalizes the state; None fits one to demonstrations.
        chunk: Actions in each step's label.
    """

    read: Read = lambda index: ()
    read_validation: Read = lambda index: ()
    sequence_inputs: SequenceInputs | None = None
    normalizer: Normalizer | None = None
    chunk: int = 1

    @property
    def layout(self) -> ObservationLayout:
        """The layout of a sequence policy's inputs."""
        assert self.sequence_inputs is not None
        return self.sequence_inputs.layout

    def sequences(
        self, window: int, chunk: int = 1, encode: Encode | None = None
    ) -> ImitationStream:
        """Return the stream for a policy with memory that takes sequences.

        Args:
            window: Steps of a sequence.
            chunk: Actions predicted at each step.
            encode: Computes image features, once per frame; None keeps the images.

        Raises:
            SettingError: The stream already stacks observations into windows.
        """
        inputs = self.sequence_inputs
        assert inputs is not None
        if inputs.inputs.window != 1:
            raise SettingError(
                f"stream.window={inputs.inputs.window} is for policies that take one vector, but "
                "this one reads sequences; set model.window instead"
            )

        def data(demos: Sequence[Demonstration], index: int) -> SequenceData:
            return sequences_of(demos, index, window, inputs, chunk, encode)

        return self._with_inputs(inputs, data)

    def with_chunks(self, chunk: int) -> ImitationStream:
        """Return the stream with the next ``chunk`` actions as labels; see ``robot/chunks.py``."""
        assert self.sequence_inputs is not None
        inputs = self.sequence_inputs.inputs

        def data(demos: Sequence[Demonstration], index: int) -> TensorData:
            return data_of(demos, index, inputs, self.discrete, chunk)

        return dataclasses.replace(self._with_inputs(inputs, data), chunk=chunk)

    def with_task_code(self) -> ImitationStream:
        """Return the stream with the one-hot code of the task's index at the end of its vectors.

        The policy can then choose its head, with any ``task_input``.
        """
        assert self.sequence_inputs is not None
        inputs = self.sequence_inputs.inputs.with_task_code()

        def data(demos: Sequence[Demonstration], index: int) -> TensorData:
            return data_of(demos, index, inputs, self.discrete, self.chunk)

        return dataclasses.replace(self._with_inputs(inputs, data), input_shape=(inputs.size,))

    def perturbed(self, how: PerturbSettings) -> ImitationStream:
        """Return the stream with evaluation under perturbations, in addition to the normal one.

        Raises:
            SettingError: The stream has no such perturbation, or it has no effect.
        """
        if not how.perturb:
            return self
        perturbations = how.perturbations
        first = episodes_of(self.tasks[0])
        for perturbation in perturbations:  # an unknown perturbation must fail before training
            first.under(perturbation)
        return self._measured(
            lambda evaluation: dataclasses.replace(
                evaluation, perturbations=perturbations, perturb_episodes=how.perturb_episodes
            )
        )

    def under(self, perturbation: Perturbation) -> ImitationStream:
        """Return the stream with its tasks evaluated only under a perturbation."""
        if not all(isinstance(task.evaluation, Evaluation) for task in self.tasks):
            raise SettingError(f"stream '{self.name}' has no environments to perturb")
        return self._measured(lambda evaluation: evaluation.under(perturbation))

    def _with_inputs(
        self,
        inputs: ObservationTransform | SequenceInputs,
        make: Callable[[Sequence[Demonstration], int], Data],
    ) -> ImitationStream:
        """Return the same tasks with other inputs, and with data made from demonstrations."""

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
        """Return the stream with every task's evaluation changed."""
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
    """Build an imitation-learning stream from robot tasks.

    The scenario is ``task``: every task uses all outputs, and the task is known. Missing
    demonstrations are recorded when the first of them is needed. Tasks that no experience teaches
    are evaluated too.

    Args:
        name: Of the stream.
        tasks: Columns of the matrix.
        order: The task of each experience; a task may occur more than once.
        imitation: The settings.
        data_dir: The data folder.
        state_size: Length of an observation's state.
        action_size: Size of an action; the number of choices if the tasks are discrete.
        normalizer: Normalizes the state; None uses mean and deviation of the first experience's
            demonstrations, so that no later task leaks into it.
        seed: The stream's seed.
        source: Describes the data.
        images: Names of the image observations.
        image_size: Side of an image in pixels.
        parts: For policies that read the state in parts (hand, gripper): the indices of each part.
            They do not see the other numbers; None is one part with all numbers.
        read: Reads a task's demonstrations; None records missing ones with the expert.
        mask: The state's numbers that are 1 for each choice that is possible now, else 0.
        measures: Names of the measures; the first fills the matrix.
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
    """Return how often each experience's task has occurred so far.

    >>> _rounds([0, 1, 0])
    [1, 1, 2]
    """
    return [list(order[: position + 1]).count(number) for position, number in enumerate(order)]
