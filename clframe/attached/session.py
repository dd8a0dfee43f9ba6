"""The user's handle: experiences, batches and the state of an attached strategy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from clframe.attached import checkpoint
from clframe.attached.batches import ShownBatches
from clframe.attached.checks import check_data
from clframe.attached.host_data import Losses, as_data
from clframe.attached.host_learner import UNNAMED, AttachedLearner, Retrain
from clframe.core import hooks
from clframe.core.stream import Experience, Task
from clframe.data.dataset import Data
from clframe.errors import DataError, PluginError, SettingError, nearest
from clframe.utils.setting_checks import at_least


class Attachment(ShownBatches):
    """A strategy attached to other training code; made by :func:`clframe.attach`.

    Args:
        learner: Learner with the host's model and optimizer, and the plugins.
        resume_within: Keep the state that is needed to resume within an experience.
        release: Called on close.
    """

    def __init__(
        self,
        learner: AttachedLearner,
        resume_within: bool,
        release: Callable[[], None],
    ) -> None:
        super().__init__(learner)
        self.resume_within = resume_within
        self.closed = False
        self._release = release
        self.within: dict[str, Any] | None = None
        """The state at the beginning of the current experience."""
        self.pending: dict[str, Any] | None = None
        """A state saved within an experience, until that experience begins again."""
        learner.host_engine.hand_over = self.passes.host_at_work
        self.passes.put_on()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.close(error)

    def close(self, error: BaseException | None = None) -> None:
        """Remove all hooks from model and optimizer; the trained weights stay."""
        if self.closed:
            return
        self.closed = True
        self.passes.take_off()
        self._release()
        hooks.teardown(self.learner, error)

    # ------------------------------------------------------------ progress

    @property
    def seen(self) -> list[str]:
        """The names of the experiences learned so far."""
        return [experience.name for experience in self.learner.seen]

    @property
    def steps(self) -> int:
        """The optimizer steps so far, within experiences."""
        return self.learner.global_steps

    @property
    def epoch(self) -> int:
        """The epoch of the current experience, as :meth:`batches` and :meth:`loader` count it."""
        return self.learner.epoch

    # ------------------------------------------------------------ experiences

    @contextlib.contextmanager
    def experience(
        self,
        name: str,
        data: Any = None,
        *,
        outputs: Sequence[int] | None = None,
        task: str | None = None,
        importance: Callable[[], Tensor] | None = None,
        importance_batches: int = 32,
        retrain: Retrain | None = None,
        last: bool = False,
    ) -> Iterator[Experience]:
        """Train one experience in this context; plugins act at its beginning and its end.

        An exception ends the experience without learning it, and plugins do not act at its end.

        Args:
            name: Name of the experience, and of its task.
            data: The training data: clframe's :class:`clframe.Data`, a pair of inputs and
                labels, or a map-style ``torch.utils.data.Dataset`` of ``(input, label)``. Methods
                that estimate importance or remember samples need it.
            outputs: ``scenario="class"``: the output units it has labels for; None for those in
                the data.
            task: The task that it continues, unless it is a new one.
            importance: Instead of data, for ``ewc`` with ``fisher=batch``: returns the loss of a
                mini-batch of your choice, with its graph.
            importance_batches: Number of calls of ``importance``.
            retrain: Trains your way for a :class:`clframe.Budget`, for methods with a phase after
                training (``packnet``); None trains on the data with clframe's loop.
            last: Whether it is the last, so that importance need not be estimated at its end.

        Raises:
            ClframeError: Something that a plugin needs is missing.
        """
        learner, passes = self.learner, self.passes
        self._check_open(name)
        at_least(importance_batches, 1, "importance_batches")
        if importance is not None and data is not None:
            raise SettingError("importance replaces data: give only one of them")
        of_task = self.place_of(task or name)
        own = None if data is None else as_data(data, of_task.index, f"experience '{name}'")
        own = None if own is None else own.to(learner.engine.device)
        self._check_data(name, own, importance is not None, retrain is not None, of_task)
        experience = self._begin(name, of_task, own, self._units(name, outputs, own))
        engine = learner.host_engine
        engine.retrain, learner.last = retrain, last
        passes.data, passes.task, self._host_data = own, of_task.index, data
        passes.announced.waiting.clear()
        with passes.plugins_at_work():
            self._before_experience(experience)
        passes.active = True
        try:
            passes.begin_epoch()
            yield experience
            left: Any = own
            if importance is not None:
                size = self._batch_size()
                left = Losses(importance, importance_batches, size, engine.device)
            with passes.plugins_at_work(), _modes_kept(learner):
                learner.seen.append(experience)
                learner.plugins.hook.after_experience(
                    learner=learner, experience=experience, data=left
                )
            self.within = None
        finally:
            passes.active = False
            engine.retrain = None

    def _check_open(self, name: str) -> None:
        if self.closed:
            raise SettingError(f"experience '{name}': this attachment has been closed")
        if self.passes.active:
            current = self.learner.experience
            raise SettingError(
                f"experience '{name}' begins within experience "
                f"'{current.name if current else ''}': end that one first"
            )

    def _check_data(
        self, name: str, data: Data | None, losses: bool, retrained: bool, task: Task
    ) -> None:
        learner = self.learner
        for plugin in learner.plugins.ordered:
            check_data(plugin, name, data is not None, losses, retrained)
            floats = data is not None and data.labels.is_floating_point()
            if plugin.capabilities.needs_class_labels and floats:
                raise PluginError(
                    f"plugin '{plugin.name}' needs labels that are classes, but those of "
                    f"experience '{name}' are numbers"
                )
        if data is None:
            return
        if not len(data):
            raise DataError(f"experience '{name}' has no sample")
        if losses or data.labels.is_floating_point() or data.labels.ndim != 1:
            return
        if int(data.tasks.max()) >= len(learner.stream.tasks):
            raise DataError(
                f"experience '{name}' has samples of task {int(data.tasks.max())}, but "
                f"tasks= allows only {len(learner.stream.tasks)}"
            )

    def place_of(self, name: str) -> Task:
        """Return the task of this name; a new task takes the next free index."""
        tasks: Any = self.learner.stream.tasks
        for index, task in enumerate(tasks):
            if task.name == name:
                return task  # type: ignore[no-any-return]
            if task.name.startswith(UNNAMED):
                tasks[index] = Task(index, name, task.outputs)
                return tasks[index]  # type: ignore[no-any-return]
        raise SettingError(
            f"task '{name}' is one more than the {len(tasks)} allowed tasks: attach with tasks="
        )

    def _units(
        self, name: str, outputs: Sequence[int] | None, data: Data | None
    ) -> tuple[int, ...] | None:
        stream = self.learner.stream
        if stream.scenario != "class":
            if outputs is not None:
                raise SettingError(
                    f"experience '{name}': outputs= is for scenario=class; set the outputs of "
                    "tasks with tasks= of attach"
                )
            return None
        if outputs is None and (data is None or data.labels.is_floating_point()):
            raise SettingError(
                f"experience '{name}': scenario=class needs to know which outputs it has "
                "labels for: give data= or outputs="
            )
        units = data.labels.unique().tolist() if outputs is None else sorted(outputs)  # type: ignore[union-attr]
        if units[0] < 0 or units[-1] >= stream.n_outputs:
            raise SettingError(
                f"experience '{name}' has labels from {units[0]} to {units[-1]}, but the model has "
                f"{stream.n_outputs} outputs; if that is not so, attach with n_outputs="
            )
        return tuple(units)

    def _begin(
        self, name: str, task: Task, data: Data | None, units: tuple[int, ...] | None
    ) -> Experience:
        """Make the experience the current one, or continue the interrupted one."""
        learner, stream = self.learner, self.learner.stream
        experiences: Any = stream.experiences

        def load() -> Data:
            if data is None:
                raise PluginError(f"a plugin needs the data of experience '{name}': give data=")
            return data

        if self.pending is not None:
            current = experiences[-1]
            if name != current.name:
                raise SettingError(
                    f"the loaded state is within experience '{current.name}', but '{name}' begins"
                )
            experiences.pop()
        experience = Experience(len(experiences), name, (task,), load, {}, units)
        if learner.plugins.hook.fit_experience(
            learner=learner, experience=experience, data=data, budget=learner.engine.settings.budget
        ):
            raise PluginError(
                f"the strategy learns nothing in experience '{name}', because the parameters of "
                f"task '{task.name}' are fixed: leave it out"
            )
        experiences.append(experience)
        return experience

    def _before_experience(self, experience: Experience) -> None:
        learner, hook = self.learner, self.learner.plugins.hook
        learner.begin(experience)
        if self.pending is not None:
            checkpoint.begin_again(self, experience)
            return
        self.epoch_steps = 0
        self.within = checkpoint.beginning(learner) if self.resume_within else None
        hook.before_experience(learner=learner, experience=experience)

    def _batch_size(self) -> int:
        """Return the nominal size of mini-batches with a loss of the host's."""
        for plugin in self.learner.plugins.ordered:
            if (size := plugin.capabilities.batch_losses) is not None:
                return size or self.learner.engine.settings.batch_size
        return self.learner.engine.settings.batch_size

    @contextlib.contextmanager
    def task(self, name: str) -> Iterator[None]:
        """Measure a task in this context: with its outputs and, for ``packnet``, its weights.

        Args:
            name: Name of a task that has begun.
        """
        tasks = {t.name: t for t in self.learner.stream.tasks if not t.name.startswith(UNNAMED)}
        if name not in tasks:
            raise SettingError(f"there is no task '{name}'; {nearest(name, tasks)}")
        before, self.passes.task = self.passes.task, tasks[name].index
        try:
            with hooks.in_task(self.learner, tasks[name]):
                yield
        finally:
            self.passes.task = before

    # ------------------------------------------------------------ loss and optimizer

    def loss(self, loss: Tensor) -> Tensor:
        """Return your loss with the terms of plugins that use outputs (replay, LwF, DER).

        The backward pass adds these terms in any case. Add them to the loss in order to log it or
        scale it (a gradient scaler, accumulated steps), or to get the same bits as
        :func:`clframe.fit` if the weights of the terms are not powers of two.

        Args:
            loss: Loss of your own samples.
        """
        return self.passes.whole_loss(loss)

    def rebind(self, optimizer: torch.optim.Optimizer) -> None:
        """Act in the steps of another optimizer, after the trainer has made a new one.

        Args:
            optimizer: An optimizer of the same model.
        """
        self.passes.rebind(optimizer)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all plugins as tensors and plain values, for your checkpoint.

        Call it between two steps. It excludes model and optimizer, which you save as usual.
        """
        return checkpoint.capture(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of :meth:`state_dict`, before the first experience begins.

        Skip the experiences in :attr:`seen`. An interrupted one begins again under its name.

        Args:
            state: The saved state.
        """
        checkpoint.restore(self, state)


@contextlib.contextmanager
def _modes_kept(model: nn.Module) -> Iterator[None]:
    """Keep the training mode of every module."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
