"""PackNet: each task gets its own weights inside one network."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from clframe.core.capabilities import Capabilities
from clframe.core.hooks import TaskContext
from clframe.core.plugin import Plugin
from clframe.core.protocols import head_of
from clframe.errors import PluginError, SettingError
from clframe.hookspecs import hookimpl
from clframe.models.heads import TaskHeads
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Data

_CONVOLUTIONS = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm)


class PackNet(Plugin):
    """PackNet: each task's weights are pruned by magnitude, retrained and frozen.

    A task is trained on the weights that no earlier task owns, and uses those of earlier tasks.
    Then, in each convolution, linear layer, recurrent layer and embedding, the share ``prune`` of
    these weights with the smallest magnitude is set to zero and left to later tasks. The others are
    retrained and belong to the task from then on. A task uses only its own weights and those of
    earlier tasks. The rows of the head belong to the tasks whose outputs they are, and a policy's
    heads to their tasks (``model.heads=task``). Frozen weights stay bit-identical under any
    optimizer and weight decay.

    A task that comes back is not trained again: its weights are fixed, because later tasks depend
    on them.

    Args:
        prune: Share of a task's weights to release in each layer; None for 0.5 (``paper``) or 0.75
            (``libero``).
        post_epochs: Epochs of retraining; if ``post_steps`` is also None, half of the task's own
            training (``paper``), or as much (``libero``).
        post_steps: Steps of retraining.
        form: ``paper``: all other parameters (biases, norms, ...) are learned with the first task
            and then frozen. ``libero``, as in that benchmark's code: only convolutions and
            linear layers are pruned, their biases and norms are never trained, norms stay in
            evaluation mode, and any other parameter (recurrent layers, embeddings) keeps
            learning, so tasks may be forgotten.

    Example:
        ``clframe fit strategy=packnet scenario=task``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import PackNet
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [PackNet(prune=0.75)], scenario="task").strategy
        'packnet'
    """

    name = "packnet"
    paper = (
        "Mallya & Lazebnik, PackNet: Adding Multiple Tasks to a Single Network by Iterative "
        "Pruning, 2018"
    )
    scenarios = ("task",)
    roles = ("parameters", "task weights")
    capabilities = Capabilities(needs_boundaries=True, multi_pass=True, attachable=True)
    state = ("owners", "packs", "pack_of_task")

    def __init__(
        self,
        prune: float | None = None,
        post_epochs: int | None = None,
        post_steps: int | None = None,
        form: Literal["paper", "libero"] = "paper",
    ) -> None:
        if prune is not None and not 0 <= prune < 1:
            raise SettingError(f"packnet.prune must be at least 0 and below 1, got {prune!r}")
        at_least(post_epochs, 0, "packnet.post_epochs")
        at_least(post_steps, 0, "packnet.post_steps")
        self.prune = prune
        self.post_epochs = post_epochs
        self.post_steps = post_steps
        self.form = form
        self.owners: dict[str, Tensor] = {}
        """The pack number of each weight, 0 if free; for the head, of each row."""
        self.packs = 0
        self.pack_of_task: dict[int, int] = {}
        self._shown: int | None = None
        self._masks: list[tuple[Tensor, Tensor, Tensor]] = []
        self._fixed: list[tuple[Tensor, Tensor]] = []
        self._hold_norms = False

    @property
    def share(self) -> float:
        """The share of a task's weights that is released."""
        if self.prune is not None:
            return self.prune
        return 0.5 if self.form == "paper" else 0.75

    # ------------------------------------------------------------ set-up

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Find the layers to prune, the head and the rest."""
        model, device = learner.model, learner.engine.device
        self._head: nn.Linear | None = None
        self._rows_of_tasks = {task.index: list(task.outputs) for task in stream.tasks}
        head = head_of(model)
        if isinstance(head, TaskHeads):
            self._rows_of_tasks = {task.index: [*head.rows_of(task.index)] for task in stream.tasks}
            head = head.linear
        rows = [row for of_task in self._rows_of_tasks.values() for row in of_task]
        if len(rows) == len(set(rows)):
            if not isinstance(head, nn.Linear):
                raise PluginError(
                    "plugin 'packnet' needs a model whose last layer is a linear 'head' with one "
                    f"row per output, which {type(model).__name__} lacks"
                )
            self._head = head
        # If tasks share their outputs, the head is a layer like any other.
        self._pruned: dict[str, Tensor] = {}
        self._never: set[Tensor] = set()
        self._norms = [m for m in model.modules() if isinstance(m, _NORMS)]
        for name, module in model.named_modules():
            if isinstance(module, (nn.Linear, *_CONVOLUTIONS)) and module is not self._head:
                if all(module.weight is not weight for weight in self._pruned.values()):
                    self._pruned[name] = module.weight
                if self.form == "libero" and module.bias is not None:
                    self._never.add(module.bias)
            elif self.form == "paper" and isinstance(module, (nn.RNNBase, nn.Embedding)):
                for key, weight in module.named_parameters(name, recurse=False):
                    if weight.ndim == 2 and all(weight is not w for w in self._pruned.values()):
                        self._pruned[key] = weight
        if self.form == "libero":
            self._never.update(p for norm in self._norms for p in norm.parameters())
        if not self._pruned:
            raise PluginError(
                f"plugin 'packnet' finds no convolution or linear layer to prune in "
                f"{type(model).__name__} besides its head"
            )
        self.owners = {
            name: torch.zeros(weight.shape, dtype=torch.int16, device=device)
            for name, weight in self._pruned.items()
        }
        if self._head is not None:
            n_rows = self._head.out_features
            self.owners["(head)"] = torch.zeros(n_rows, dtype=torch.int16, device=device)

    # ------------------------------------------------------------ learning

    def _rows(self, experience: Experience) -> list[int]:
        """Return the rows of the head that belong to an experience's tasks."""
        return [row for task in experience.tasks for row in self._rows_of_tasks[task.index]]

    def _is_known(self, experience: Experience) -> bool:
        return all(task.index in self.pack_of_task for task in experience.tasks)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Give the experience all free weights, with a fresh optimizer as in a separate run."""
        if self._is_known(experience):
            return
        for name, weight in self._pruned.items():
            if not bool((self.owners[name] == 0).any()):
                raise PluginError(
                    f"plugin 'packnet' has no free weight left in layer '{name}' "
                    f"({weight.numel()} weights) for experience '{experience.name}' after "
                    f"{self.packs} tasks: raise prune (now {self.share:g}) or take a wider model"
                )
        if learner.seen:
            learner.engine.renew_optimizer(learner)
        self._open(learner, experience, 0)

    @hookimpl(tryfirst=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool | None:
        """Skip an experience whose tasks all have their weights."""
        return True if self._is_known(experience) else None

    def _open(self, learner: Learner, experience: Experience, pack: int) -> None:
        """Make the weights of one pack (0: the free ones) trainable and hold all others.

        The free ones include the experience's own rows of the head.
        """
        first = self.packs == 0 or (self.packs == 1 and pack == 1)
        open_parts: dict[Tensor, Tensor] = {}
        for name, weight in self._pruned.items():
            open_parts[weight] = self.owners[name] == pack
        if self._head is not None:
            rows = self.owners["(head)"]
            mine = torch.zeros_like(rows, dtype=torch.bool)
            mine[self._rows(experience)] = True
            mine &= (rows == 0) | (rows == pack)
            open_parts[self._head.weight] = mine[:, None].expand_as(self._head.weight)
            if self._head.bias is not None:
                open_parts[self._head.bias] = mine
        self._masks = [(p, mask, p.detach().clone()) for p, mask in open_parts.items()]
        fixed = list(self._never)
        if self.form == "paper" and not first:
            fixed = [p for p in learner.model.parameters() if p not in open_parts]
        self._fixed = [(p, p.detach().clone()) for p in fixed]
        self._hold_norms = self.form == "libero" or not first

    @hookimpl
    def before_epoch(self) -> None:
        """Keep the norms' running statistics of the first task."""
        if self._hold_norms:
            for norm in self._norms:
                norm.eval()

    @hookimpl(trylast=True)
    def after_backward(self) -> None:
        """Drop the gradients of frozen weights, whichever loss they come from."""
        for parameter, mask, _ in self._masks:
            if parameter.grad is not None:
                parameter.grad.mul_(mask)
        for parameter, _ in self._fixed:
            # Optimizers skip a parameter without gradient: no decay, no momentum.
            parameter.grad = None

    @hookimpl(tryfirst=True)
    def after_step(self) -> None:
        """Restore weights that weight decay or momentum moved."""
        with torch.no_grad():
            for parameter, mask, frozen in self._masks:
                torch.where(mask, parameter, frozen, out=parameter)
            for parameter, frozen in self._fixed:
                if parameter.grad is not None:  # a later plugin set a gradient
                    parameter.copy_(frozen)

    @hookimpl(tryfirst=True)
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Prune, retrain and freeze the kept weights, before other plugins use the model."""
        if self._is_known(experience):
            return
        self.packs += 1
        with torch.no_grad():
            for name, weight in self._pruned.items():
                self._prune_layer(weight, self.owners[name])
        self._open(learner, experience, self.packs)
        if self._head is not None:
            rows = self.owners["(head)"]
            own_rows = torch.tensor(self._rows(experience), device=rows.device)
            rows[own_rows] = torch.where(rows[own_rows] == 0, self.packs, rows[own_rows]).to(
                rows.dtype
            )
        for task in experience.tasks:
            self.pack_of_task.setdefault(task.index, self.packs)
        learner.engine.renew_optimizer(learner)
        learner.train_on(data, self._retraining(learner.engine.settings.budget))
        self._masks, self._fixed = [], []

    def _prune_layer(self, weight: Tensor, owner: Tensor) -> None:
        """Release the smallest of a layer's free weights; the new pack keeps the others."""
        free = (owner.flatten() == 0).nonzero().squeeze(1)
        release = round(self.share * len(free))
        order = weight.flatten()[free].abs().argsort(stable=True)
        owner.view(-1)[free[order[release:]]] = self.packs
        weight.masked_fill_(owner == 0, 0.0)

    def _retraining(self, budget: Budget) -> Budget:
        if self.post_epochs is not None or self.post_steps is not None:
            return dataclasses.replace(budget, epochs=self.post_epochs, steps=self.post_steps)
        if self.form == "libero":
            return budget
        epochs = None if budget.epochs is None else max(1, budget.epochs // 2)
        steps = None if budget.steps is None else max(1, budget.steps // 2)
        return dataclasses.replace(budget, epochs=epochs, steps=steps)

    # ------------------------------------------------------------ evaluation

    @contextlib.contextmanager
    def weights_of(self, task: Task) -> Iterator[None]:
        """Use only the weights of a task and of earlier ones, or all if it is not learned yet."""
        pack = self.pack_of_task.get(task.index)
        if pack is None or self._shown is not None:
            yield
            return
        saved = [(weight, weight.detach().clone()) for weight in self._pruned.values()]
        try:
            self._shown = task.index
            with torch.no_grad():
                for name, weight in self._pruned.items():
                    owner = self.owners[name]
                    weight.masked_fill_((owner == 0) | (owner > pack), 0.0)
            yield
        finally:
            self._shown = None
            with torch.no_grad():
                for weight, values in saved:
                    weight.copy_(values)

    @hookimpl
    def task_context(self, task: Task) -> TaskContext:
        """Measure a task with its weights; tasks of one pack, or of none, in one pass."""
        return TaskContext(self.pack_of_task.get(task.index), lambda: self.weights_of(task))
