"""Hooks on the host's model and optimizer, which act within its steps.

::

    out = model(x)        plugins' samples are appended to x, so that one pass serves all of them;
                          the host gets its own rows, and the plugins' terms join the graph next
                          to them, so that the host's backward pass reaches them, too
    loss.backward()       the host's
    optimizer.step()      before: gradients of penalties on parameters, then `after_backward`;
                          after: `after_step`
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from clframe.attached.checks import asks_for, implementation, needs_batches
from clframe.attached.host_data import Batches
from clframe.attached.host_learner import AttachedLearner
from clframe.core import hooks
from clframe.core.protocols import head_of
from clframe.core.step import Step
from clframe.data.dataset import Batch, Data, cat_inputs
from clframe.data.inputs import tensors_of
from clframe.errors import PluginError


class Passes:
    """The plugins' part in the host's steps.

    Args:
        learner: Learner with the host's model and the plugins.
    """

    def __init__(self, learner: AttachedLearner) -> None:
        self.learner = learner
        self.announced = Batches()
        self.active = False
        """Whether an experience is being learned."""
        self.busy = False
        """Whether plugins run the model or optimizer, instead of the host."""
        self.task = 0
        """Task of the samples that go through the model."""
        self.data: Data | None = None
        """Data of the experience, if known."""
        plugins = learner.plugins
        hungry = [plugin.name for plugin in plugins.ordered if needs_batches(plugin)]
        self.hungry = " and ".join(f"plugin '{name}'" for name in hungry)
        """Names of the plugins that need each batch; empty if none do."""
        self.on_backward = plugins.implements("after_backward")
        self.on_step = plugins.implements("after_step")
        penal = [p for p in plugins.ordered if implementation(p, "penalty")]
        self.of_outputs = tuple(p.name for p in penal if asks_for(p, "penalty", "step"))
        """Plugins whose penalty uses the step; the others' use only parameters."""
        self.of_parameters = tuple(p.name for p in penal if p.name not in self.of_outputs)
        norms = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
        self._each_pass = plugins.implements("before_epoch") and any(
            isinstance(module, norms) for module in learner.model.modules()
        )
        self._step: Step | None = None
        self._batches: list[Batch] | None = None
        self._joint: _Joint | None = None
        self._handles: list[Any] = []

    # ------------------------------------------------------------ installing

    def put_on(self) -> None:
        """Install the hooks on model and optimizer."""
        model: Any = self.learner.model
        handles = [
            model.register_forward_pre_hook(_Hook(self._before_pass), with_kwargs=True),
            model.register_forward_hook(_Hook(self._after_pass)),
        ]
        head = head_of(model)
        if head is not None:
            handles.append(head.register_forward_pre_hook(_Hook(self._before_head)))
        self._handles = handles
        self._put_on_optimizer()

    def _put_on_optimizer(self) -> None:
        optimizer = self.learner.optimizer
        assert optimizer is not None
        self._of_optimizer = [
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        ]

    def rebind(self, optimizer: torch.optim.Optimizer) -> None:
        """Act in the steps of another optimizer from now on."""
        for handle in self._of_optimizer:
            handle.remove()
        self.learner.takes_optimizer(optimizer)
        self._put_on_optimizer()

    def take_off(self) -> None:
        """Remove all hooks."""
        for handle in [*self._handles, *self._of_optimizer]:
            handle.remove()

    def plugins_at_work(self) -> contextlib.AbstractContextManager[None]:
        """Let passes and steps be the plugins' own in this context."""
        return self._work(busy=True)

    def host_at_work(self) -> contextlib.AbstractContextManager[None]:
        """Let passes and steps be the host's again in this context."""
        return self._work(busy=False)

    @contextlib.contextmanager
    def _work(self, busy: bool) -> Iterator[None]:
        before, self.busy = self.busy, busy
        try:
            yield
        finally:
            self.busy = before

    # ------------------------------------------------------------ a pass of the model

    def _before_pass(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        self._batches = None
        if self.busy or not (self.active and model.training and torch.is_grad_enabled()):
            return None
        learner = self.learner
        if self._each_pass:
            self.begin_epoch()
        if not self.hungry:
            return None
        if len(args) != 1:
            raise PluginError(
                f"{self.hungry} adds past samples to yours, but the model is called "
                f"with {len(args)} positional inputs: call it as model(x)"
            )
        x = args[0]
        batch = self._batch(x)
        with self.plugins_at_work():
            batches = hooks.extra_batches(learner, batch)
        if batch.loss is not None:
            raise PluginError(
                f"{self.hungry} replaces the loss of the current batch, which your own code "
                "computes"
            )
        self._batches = batches
        if len(batches) == 1:
            return None
        return (cat_inputs([part.x for part in batches]),), kwargs

    def _batch(self, x: Any) -> Batch:
        """Return the current batch, with its labels."""
        announced = self.announced.take(x, self.hungry)
        if announced.batch is not None:
            return announced.batch
        first = tensors_of(x)[0]
        task = torch.full((len(first),), self.task, dtype=torch.long, device=first.device)
        data = self.data if announced.positions is not None else None
        positions = None if announced.positions is None else announced.positions.to(first.device)
        return Batch(x, announced.y.to(first.device), task, data=data, positions=positions)

    def _before_head(self, head: nn.Module, args: tuple[Any, ...]) -> None:
        if self._batches is not None or self.learner.watching:
            self.learner.features = args[0]

    def _after_pass(self, model: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        learner, batches = self.learner, self._batches
        if self.busy:
            return None
        self._batches = None
        features, learner.features = learner.features, None
        if batches is None:
            if not learner.masks:
                return None
            rows = torch.full((len(output),), self.task, dtype=torch.long, device=output.device)
            return learner.mask_outputs(output, rows)
        if not isinstance(output, Tensor) or len(output) != sum(map(len, batches)):
            raise PluginError(
                f"{self.hungry} needs a model that returns one tensor with a row for each sample, "
                f"but {type(model).__name__} returns {type(output).__name__}"
            )
        tasks = (
            torch.cat([batch.task for batch in batches]) if len(batches) > 1 else batches[0].task
        )
        outputs = learner.mask_outputs(output, tasks)
        learner.set_task(tasks)
        if len(batches) == 1:
            self._step = Step(batches, [outputs], [features])
        else:
            sizes = [len(batch) for batch in batches]
            split = [None] * len(batches) if features is None else list(features.split(sizes))
            self._step = Step(batches, list(outputs.split(sizes)), split)
        self._joint = self._terms(self._step)
        own: Tensor = self._step.outputs[0]
        if self._joint.rest is None and self._joint.total == 1.0:
            return own
        return _Join.apply(own, self._joint.rest, self._joint)

    def _terms(self, step: Step) -> _Joint:
        """Return all terms of the step's loss except the host's own, as in ``Learner.loss_of``."""
        learner = self.learner
        with self.plugins_at_work():
            terms, added = hooks.penalties(learner, step, self.of_outputs)
            weighted = [(term.weight, term.value) for term in terms]
            parts = [
                (batch.weight, learner.part_loss(outputs, batch))
                for batch, outputs in zip(step.parts[1:], step.outputs[1:], strict=True)
                if batch.weight
            ]
        rest: Tensor | None = None
        total = 1.0
        for weight, value in [*parts, *weighted]:
            rest = weight * value if rest is None else rest + weight * value
            total += weight
        rest = None if rest is None else rest / total
        for value in added:
            rest = value if rest is None else rest + value
        return _Joint(rest, total)

    def whole_loss(self, loss: Tensor) -> Tensor:
        """Return the host's loss with the plugins' terms of the last pass."""
        joint = self._joint
        if joint is None:
            return loss
        joint.in_loss = True
        loss = loss / joint.total if joint.total != 1.0 else loss
        return loss if joint.rest is None else loss + joint.rest

    # ------------------------------------------------------------ a step of the optimizer

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self.busy or not self.active:
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self._finish_gradients()
            return None

        def with_plugins() -> Any:
            # The pass is within the step, so there are gradients only now.
            loss = closure()
            self._finish_gradients()
            return loss

        return (args[0], with_plugins), {k: v for k, v in kwargs.items() if k != "closure"}

    def _finish_gradients(self) -> None:
        """Add the gradients of penalties on parameters, then let plugins change all gradients."""
        learner = self.learner
        if self.hungry and self._step is None:
            raise PluginError(
                f"the optimizer takes a step, but {self.hungry} has seen no pass of the model in "
                "training mode since the last one"
            )
        if getattr(learner.optimizer, "grad_scale", None) is not None:
            raise PluginError(
                "a gradient scaler leaves unscaling to a fused optimizer, but plugins need "
                "unscaled gradients: make the optimizer with fused=False"
            )
        with self.plugins_at_work(), torch.enable_grad():
            if self.of_parameters:
                self._add_penalties()
            if self.on_backward:
                learner.plugins.hook.after_backward(learner=learner, step=self._step)

    def _add_penalties(self) -> None:
        step = self._step or Step([], [], [])
        terms, added = hooks.penalties(self.learner, step, self.of_parameters)
        if terms:
            raise PluginError(
                "a penalty without a step cannot take part in the weighted mean of the loss"
            )
        if not added:
            return
        value = added[0] if len(added) == 1 else torch.stack(added).sum()
        parameters = list(self.learner.named_trainable().values())
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
        have: list[Tensor] = []
        more: list[Tensor] = []
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is None:
                continue
            if parameter.grad is None:
                parameter.grad = gradient.detach().clone()
            else:
                have.append(parameter.grad)
                more.append(gradient)
        with torch.no_grad():
            torch._foreach_add_(have, more)

    def _after_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self.busy or not self.active:
            return
        learner, step = self.learner, self._step
        self._step = self._joint = None
        if self.on_step:
            with self.plugins_at_work():
                learner.plugins.hook.after_step(learner=learner, step=step)
        learner.state.global_steps += 1

    def begin_epoch(self) -> None:
        """Call the hook of an epoch's beginning."""
        learner = self.learner
        with self.plugins_at_work():
            learner.plugins.hook.before_epoch(
                learner=learner, experience=learner.experience, epoch=learner.epoch
            )


class _Joint:
    """The plugins' terms of one pass.

    Args:
        rest: All terms of the step's loss except the host's; None for nothing.
        total: Divisor of the host's part of the loss.
    """

    __slots__ = ("in_loss", "rest", "total")

    def __init__(self, rest: Tensor | None, total: float) -> None:
        self.rest = rest
        self.total = total
        self.in_loss = False
        """Whether the host has added the terms to its own loss."""


class _Join(torch.autograd.Function):
    """The host's rows, unchanged; their backward pass reaches the plugins' terms."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, rest: Tensor | None, joint: _Joint) -> Tensor:
        ctx.joint, ctx.has_rest = joint, rest is not None
        return own.view_as(own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        joint: _Joint = ctx.joint
        if joint.in_loss:
            return gradient, None, None
        if joint.total != 1.0:
            gradient = gradient / joint.total
        return gradient, torch.ones_like(joint.rest) if ctx.has_rest else None, None  # type: ignore[arg-type]


class _Hook:
    """A hook of a module that copies and saved files of the module do not get, such as a teacher.

    Args:
        function: Function to call.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __deepcopy__(self, memo: Any) -> Callable[..., None]:
        return no_hook

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _no_hook, ()


def no_hook(*args: Any) -> None:
    """Stand for a hook in a copy of a model."""


def _no_hook() -> Callable[..., None]:
    return no_hook
