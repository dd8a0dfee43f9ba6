"""Hook specifications: every point at which a plugin can act, in the order in which they fire.

Read this first.

A run goes like this; names with parentheses are hooks, the rest is core::

    register(registry)                         once per module, when plugins are discovered
    configure(learner, stream)                 once, before the optimizer exists
    after_prepare(learner, stream, seconds)    the first data is there
    evaluation of every task                   fills the matrix row "before"
    for each experience of the stream:
        before_experience(learner, experience)
        extra_data(learner, experience)        data to learn together with the experience's own
        fit_experience(learner, experience, data, budget)        core's answer:
            for each epoch:
                before_epoch(learner, experience, epoch)
                for each step:
                    extra_batches(learner, batch)        samples to add to this step
                    task loss of every part              weighted mean
                    penalty(learner, step)               terms to add
                    backward
                    after_backward(learner, step)        change gradients here
                    optimizer step
                    after_step(learner, step)
                after_epoch(learner, experience, epoch, logs)
        after_experience(learner, experience, data)      Fisher, pruning, buffers, teachers
        task_context(learner, task)                      what must hold while it is measured
        evaluate_tasks(learner, tasks)                   all tasks in one pass, if possible
        for each task of the stream, otherwise:
            evaluate_task(learner, task)                 the evaluator asks, for each batch:
                predict(learner, x, task)
        after_evaluation(learner, row, results)          one row of the matrix
    on_metric(learner, name, step, values)   whenever a plugin has measured something
    on_progress(learner, unit, done, total, task)        now and then during long work
    metrics(result)                            numbers computed from the matrix
    after_run(learner, result)
    teardown(learner, error)                   always, however the run ended

Rules that hold for all hooks:

* A plugin is a subclass of :class:`clframe.Plugin` whose methods carry ``@hookimpl``. A method may
  ask for only the arguments it needs.
* Plugins are called in the order in which the strategy names them; ``@hookimpl(tryfirst=True)`` and
  ``trylast=True`` move one to the front or the back, ``wrapper=True`` goes around all others.
* Results are collected, in that order, unless a hook is marked *first result wins*.
* A hook without an implementation costs nothing: the loop skips it.
* A return value of the wrong type or shape raises an error with the plugin's name. This check never
  waits for a device.
* ``learner.log("my_plugin/norm", value)`` in any hook sends a number to every logger at the current
  step (``learner.log_dict`` sends several), as in a LightningModule: ``on_step``, ``on_epoch``,
  ``reduce_fx`` and ``batch_size`` mean the same as there. Pass tensors without ``.item()``: they
  are read from the device later, many at once. ``learner.log_media("my_plugin/seen", image)`` does
  the same for images, videos, tables and texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from torch import Tensor

    from clframe.core.hooks import TaskContext
    from clframe.core.learner import Learner
    from clframe.core.registry import Registry
    from clframe.core.results import Result
    from clframe.core.step import Step, Term
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Batch, Data

hookspec = pluggy.HookspecMarker("clframe")
hookimpl = pluggy.HookimplMarker("clframe")


class HookSpecs:
    """The contract between core and plugins, one method per hook."""

    # ---------------------------------------------------------------- discovery

    @hookspec
    def register(self, registry: Registry) -> None:
        """Add streams, models, metrics, loggers or optimizers to the registry.

        Called once for each discovered module: built in, installed under the entry-point
        group ``clframe.plugins``, or named by ``plugin_path=``. Implemented as a module-level
        function, because no learner exists yet. Plugin classes defined in the module are found
        without it. The return value is not used.
        """

    # ---------------------------------------------------------------- set-up

    @hookspec
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Prepare for a run: read shapes, make buffers, attach modules to the learner.

        Called once per run, before the optimizer is built, so modules attached to the learner
        here are trained with it. Raise :class:`clframe.PluginError` to refuse the stream or the
        model. The return value is not used.
        """

    @hookspec
    def after_prepare(self, learner: Learner, stream: Stream, seconds: float) -> None:
        """Act when the first experience's data is ready.

        ``seconds`` is the time that rendering, recording or downloading it took. The run folder
        exists. The return value is not used.
        """

    # ---------------------------------------------------------------- learning

    @hookspec
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Act before an experience is learned: copy a teacher, clear accumulators.

        ``learner.seen`` still lists only the experiences learned before this one. The return
        value is not used.
        """

    @hookspec
    def extra_data(self, learner: Learner, experience: Experience) -> Data | None:
        """Return data to be learned together with the experience's own, or None.

        Called once per experience. Everything returned is joined to the experience's data and
        shuffled with it. To *replace* the data, implement :meth:`fit_experience`.
        """

    @hookspec(firstresult=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool | None:
        """Learn one experience. First result wins.

        Core's implementation is :mod:`clframe.training.loop`, tried last. Return True if you have
        trained the experience, None to leave it to the next plugin. A plugin that needs the
        loop on other data or with another budget calls ``learner.train_on(data, budget)``.
        """

    @hookspec
    def before_epoch(self, learner: Learner, experience: Experience, epoch: int) -> None:
        """Act before an epoch. The return value is not used."""

    @hookspec
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | list[Batch] | None:
        """Return samples to learn in this step in addition to the current batch, or None.

        Each returned batch states its ``weight`` relative to the current batch's 1; the task loss
        is the weighted mean of the losses of all batches. A weight of ``t - 1`` gives the current
        batch 1/t of the loss, and a weight of ``len(extra) / len(batch)`` the mean over all
        samples. A batch may have its own ``loss``. All batches go through the model in one pass.
        """

    @hookspec
    def penalty(self, learner: Learner, step: Step) -> Tensor | Term | None:
        """Return a term of the loss, or None.

        Called after the forward pass; ``step.parts`` and ``step.outputs`` hold all batches (the
        current batch first) and the model's outputs, ``step.features`` the inputs of the
        head if the model exposes them. A tensor is added to the task loss;
        ``Term(value, weight)`` takes part in the weighted mean like an extra batch.
        """

    @hookspec
    def after_backward(self, learner: Learner, step: Step) -> None:
        """Change gradients: mask, project, add to them.

        Called between the backward pass and gradient clipping. The return value is not used.
        """

    @hookspec
    def after_step(self, learner: Learner, step: Step) -> None:
        """Act after the optimizer's step; gradients are still there.

        The return value is not used.
        """

    @hookspec
    def after_epoch(
        self, learner: Learner, experience: Experience, epoch: int, logs: dict[str, Any]
    ) -> None:
        """Act after an epoch; ``logs`` holds its mean loss, steps, samples and seconds.

        Add entries to ``logs`` to have them logged (use ``tryfirst=True`` so that loggers, which
        come last, see them). The return value is not used.
        """

    @hookspec
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Act when an experience has been learned and before it is evaluated.

        ``data`` is the experience's own training data, without what other plugins added. This is
        the place for Fisher estimates, buffer updates and further phases such as pruning and
        retraining. The return value is not used.
        """

    # ---------------------------------------------------------------- evaluation

    @hookspec
    def task_context(self, learner: Learner, task: Task) -> TaskContext | None:
        """Return the context in which a task must be measured, or None.

        For methods that choose parameters per task (PackNet): ``TaskContext(key, enter)``, where
        ``enter()`` makes a context manager that chooses them and restores the others. Core holds
        it around :meth:`evaluate_tasks` and :meth:`evaluate_task`. Tasks whose keys are equal for
        all plugins are measured in one pass.
        """

    @hookspec(firstresult=True)
    def evaluate_tasks(
        self, learner: Learner, tasks: Sequence[Task]
    ) -> dict[str, dict[str, float]] | None:
        """Measure the learner on several tasks in one pass. First result wins.

        Return measures by task name, or None to have the tasks measured one by one through
        :meth:`evaluate_task`. Core passes the data of all tasks through the model together. It
        returns None if a plugin evaluates or predicts in its own way.
        """

    @hookspec(firstresult=True)
    def evaluate_task(self, learner: Learner, task: Task) -> dict[str, float] | None:
        """Measure the learner on one task: a cell of the matrix. First result wins.

        Return a mapping from measure to value; the first measure fills the matrix. To
        choose parameters for the task, implement :meth:`task_context`.
        """

    @hookspec(firstresult=True)
    def predict(self, learner: Learner, x: Any, task: Task) -> Tensor | None:
        """Return a score for every output and sample, or None. First result wins.

        If every plugin returns None, the scores are the learner's own active outputs
        (``learner.predict``). A nearest-mean classifier replaces them. Called in inference mode.
        ``task`` is the :class:`clframe.Task` that is measured (``task.index``), the same for all
        samples, while ``batch.task`` in training is a tensor with the index of each sample's task;
        ``learner(x, task)`` takes either.
        """

    @hookspec
    def after_evaluation(
        self, learner: Learner, row: str, results: dict[str, dict[str, float]]
    ) -> None:
        """Act after a row of the matrix: ``results`` maps each task's name to its measures.

        ``row`` is "before" for the untrained model, else the name of the experience just learned.
        The return value is not used.
        """

    @hookspec
    def on_metric(self, learner: Learner, name: str, step: int, values: dict[str, float]) -> None:
        """Receive numbers that a plugin measured during training, besides the matrix rows.

        Plugins call this hook, not core: ``learner.plugins.hook.on_metric(learner=learner,
        name="mine", step=step, values={"task0": 0.5})``. The built-in plugins write an event and
        send ``mine/task0`` to every logger. ``step`` counts optimizer steps from the beginning of
        the run. The return value is not used.
        """

    @hookspec
    def on_progress(
        self, learner: Learner, unit: str, done: int, total: int | None, task: str
    ) -> None:
        """Show the progress of the current work; training must not depend on it.

        Core calls it during training, a few times a second at most (``unit`` is "steps", of this
        call of the loop), and before each measured task ("tasks"). Rollouts call it for
        "episodes". ``task`` is the name of the measured task, else empty. A plugin whose
        own work takes long may also call it: ``learner.plugins.hook.on_progress(learner=learner,
        unit="samples", done=500, total=6000, task="")``. The return value is not used.
        """

    # ---------------------------------------------------------------- end

    @hookspec
    def metrics(self, result: Result) -> dict[str, dict[str, Any]] | None:
        """Return metrics of the finished run as ``{family: {name: value}}``, or None.

        They appear in ``results.json`` under ``metrics``. ``None`` as a value means that the metric
        is not defined for this run. Values other than a number or a list of numbers (curves,
        tables) go into ``result.measured[name]`` and are written under ``measured``. The plugin's
        ``metric_info`` sets the direction that reports and comparisons show as better::

            metric_info = (MetricInfo("mine.error", higher_is_better=False, unit="%"),)

        (:class:`clframe.metrics.MetricInfo`; see docs/metrics.md.)
        """

    @hookspec
    def after_run(self, learner: Learner, result: Result) -> None:
        """Act after all results are written. The return value is not used."""

    @hookspec
    def teardown(self, learner: Learner, error: BaseException | None) -> None:
        """Clean up: end processes, close bars, files and loggers.

        Always called, once, when a run ends: after success (``error`` is None), after a failure
        and after Ctrl-C. Every plugin's hook is called, even if another one fails. The return
        value is not used.
        """


HOOKS: tuple[str, ...] = tuple(
    name for name in vars(HookSpecs) if hasattr(getattr(HookSpecs, name), "clframe_spec")
)
