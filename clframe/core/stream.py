"""What a stream yields: experiences to learn from and tasks to evaluate.

Nothing is loaded here. A function that the stream provides makes the data on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from clframe.errors import PluginError, SettingError

if TYPE_CHECKING:
    from clframe.data.dataset import Data

Scenario = Literal["task", "domain", "class"]
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)


class TaskEvaluation:
    """How a task is evaluated if not on labelled data: the base class of such descriptions.

    An evaluator plugin that knows the subclass carries it out; see ``clframe.robot.evaluation``.
    """

    validation: Callable[[int], Data] | None = None
    """Makes held-out training data of the task with this index; None if there are none."""


@dataclass(frozen=True, eq=False)
class Task:
    """A unit of evaluation: one column of the matrix.

    Args:
        index: Position among the stream's tasks.
        name: Unique name, the column's heading.
        outputs: The output units that belong to this task.
        load: Makes the evaluation data; None if the task is an environment.
        info: Further metadata, such as factor, level or language instruction.
        evaluation: How the task is evaluated; None if on its data.

    Example:
        >>> import clframe
        >>> task = clframe.stream("split_mnist").tasks[1]
        >>> task.name, task.outputs
        ('task1', (2, 3))
    """

    index: int
    name: str
    outputs: tuple[int, ...]
    load: Callable[[], Data] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    evaluation: TaskEvaluation | None = None

    def __post_init__(self) -> None:
        if not (self.evaluation is None or isinstance(self.evaluation, TaskEvaluation)):
            raise PluginError(
                f"task '{self.name}': evaluation is a {type(self.evaluation).__name__}, which must "
                "derive from clframe.core.stream.TaskEvaluation"
            )

    @property
    def data(self) -> Data:
        """The evaluation data, made on first use."""
        if self.load is None:
            raise SettingError(
                f"task '{self.name}' has no evaluation data; an evaluator plugin must evaluate it"
            )
        return self.load()


@dataclass(frozen=True, eq=False)
class Experience:
    """A unit of learning: one row of the matrix.

    Args:
        index: Position in the stream.
        name: Unique name, the row's heading.
        tasks: The tasks this experience teaches; a task may return in a later experience.
        load: Makes the training data.
        info: Further metadata.
        units: The output units that its labels use, if not all units of its tasks.

    Example:
        >>> import clframe
        >>> experience = clframe.stream("split_mnist").experiences[0]
        >>> experience.name, [task.name for task in experience.tasks], experience.outputs
        ('exp0', ['task0'], (0, 1))
    """

    index: int
    name: str
    tasks: tuple[Task, ...]
    load: Callable[[], Data]
    info: Mapping[str, Any] = field(default_factory=dict)
    units: tuple[int, ...] | None = None

    @property
    def data(self) -> Data:
        """The training data, made on first use."""
        return self.load()

    @property
    def outputs(self) -> tuple[int, ...]:
        """The output units that the labels of this experience use, in order."""
        if self.units is not None:
            return tuple(sorted(self.units))
        return tuple(sorted({unit for task in self.tasks for unit in task.outputs}))


@dataclass(frozen=True, eq=False)
class Stream:
    """Experiences to learn in order, and tasks to evaluate.

    Args:
        name: Registered name.
        scenario: ``task`` (the task is known when predicting), ``domain`` (same classes, other
            inputs) or ``class`` (new classes, task unknown).
        experiences: The experiences in order of learning.
        tasks: The columns of the matrix.
        input_shape: Shape of one sample after its transform.
        n_outputs: Output units of the model.
        source: A description of the data for the output and results.json.
        seed: The seed that the stream was made with.
        learner: The class that learns it, a subclass of :class:`clframe.Learner`; None is that
            class itself, which classifies.
        boundaries: Whether tasks change only between experiences. If not, methods that need to know
            when a task ends are refused.
        column_order: Names of the tasks in the order of the matrix's columns, if it differs from
            the order of the tasks.

    Example:
        >>> import clframe
        >>> stream = clframe.stream("split_mnist", scenario="domain")
        >>> stream.scenario, len(stream.experiences), stream.n_outputs
        ('domain', 5, 2)
    """

    name: str
    scenario: Scenario
    experiences: Sequence[Experience]
    tasks: Sequence[Task]
    input_shape: tuple[int, ...]
    n_outputs: int
    source: str = ""
    seed: int = 0
    learner: type[Any] | None = None
    boundaries: bool = True
    column_order: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Make the data that learning starts with. Rendering or recording it may take minutes."""
        _ = self.experiences[0].data

    def __post_init__(self) -> None:
        if self.scenario not in SCENARIOS:
            raise SettingError(
                f"scenario must be one of {', '.join(SCENARIOS)}, got '{self.scenario}'"
            )
        kinds: tuple[tuple[str, Sequence[Experience | Task]], ...] = (
            ("experience", self.experiences),
            ("task", self.tasks),
        )
        for kind, items in kinds:
            if not items:
                raise SettingError(f"stream '{self.name}' has no {kind}")
            names = [item.name for item in items]
            if len(set(names)) != len(names):
                raise SettingError(f"stream '{self.name}' has two {kind}s with the same name")
            for position, item in enumerate(items):
                if item.index != position:
                    raise SettingError(
                        f"stream '{self.name}': {kind} '{item.name}' is at position "
                        f"{position} but has index {item.index}"
                    )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the tasks in the order of the matrix's columns."""
        return self.column_order or tuple(task.name for task in self.tasks)

    def __iter__(self) -> Iterator[Experience]:
        return iter(self.experiences)

    def __len__(self) -> int:
        return len(self.experiences)
