"""The models of several learners as one, with a first dimension of seeds in each parameter.

The learners keep their own parameters, optimizers and plugins. While they are stacked, these are
views of the shared tensors. A plugin that reads a learner's parameters, adds to their gradients or
pulls on them therefore acts on its seed's slice. One forward pass, one backward pass and one
optimizer step serve all seeds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from clframe.core.learner import Learner
from clframe.core.protocols import split_model
from clframe.errors import SettingError
from clframe.training.batched.perceptron import batched_pass
from clframe.training.optimizers import bare_optimizer

# Optimizers that treat every element separately, so they work unchanged on a stack.
_BY_ELEMENT = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


def unsupported_learner(learner: Learner) -> str | None:
    """Return why this learner cannot be in a stack, or None."""
    for plugin in learner.plugins.ordered:
        if not plugin.capabilities.batched_seeds:
            return f"plugin '{plugin.name}' cannot be batched"
    settings = learner.engine.settings
    if settings.precision not in ("32-true", "32") or learner.engine.world_size > 1:
        return "mixed precision and several processes cannot be batched"
    if settings.compile or settings.cuda_graphs:
        return "a compiled model cannot be batched"
    kind = type(learner)
    if kind.task_loss is not Learner.task_loss or kind.run_model is not Learner.run_model:
        return f"learner {kind.__name__} computes its own loss"
    for name, module in learner.model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
            return f"the model's layer '{name}' keeps running statistics"
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            return f"the model's layer '{name}' draws random numbers"
        if isinstance(module, nn.RNNBase):
            return f"the model's layer '{name}' is recurrent"
    optimizer = learner.make_optimizer([nn.Parameter(torch.zeros(1))])
    if not isinstance(optimizer, _BY_ELEMENT):
        return f"optimizer {type(optimizer).__name__} may not treat elements one by one"
    if learner.schedule is not None and learner.schedule.follows_loss:
        return "the scheduler gives each seed its own learning rate"
    return None


class Stack:
    """The models of several learners, run and trained as one.

    The learners' parameters become slices of the stack's tensors.

    Args:
        learners: Learners with models of equal shape.
    """

    @torch.inference_mode(False)
    @torch.no_grad()
    def __init__(self, learners: Sequence[Learner]) -> None:
        self.learners = list(learners)
        self._params = [dict(learner.model.named_parameters()) for learner in learners]
        shapes = [{name: p.shape for name, p in params.items()} for params in self._params]
        if any(s != shapes[0] for s in shapes):
            raise SettingError("seeds can be trained together only if their models are equal")
        self.tensors: dict[str, Tensor] = {}
        for name, first in self._params[0].items():
            tensor = torch.stack([params[name] for params in self._params])
            for index, params in enumerate(self._params):
                params[name].data = tensor[index]
            self.tensors[name] = tensor.requires_grad_(first.requires_grad)
        self.trained = {name: t for name, t in self.tensors.items() if t.requires_grad}
        self._gradients: list[Tensor] = []
        self._forward = self._make_forward()

    def _make_forward(self) -> Callable[[dict[str, Tensor], Any], tuple[Tensor, ...]]:
        """Return a pass of all models at once; it puts the given parameters into a model copy."""
        quick = batched_pass(self.learners[0].model)
        if quick is not None:
            return quick
        model: Any = copy.deepcopy(self.learners[0].model)
        split = split_model(model) is not None
        # Write into the modules directly: the overhead of torch.func.functional_call is larger than
        # a small model's whole pass.
        slots = [
            (module._parameters, name, f"{prefix}.{name}" if prefix else name)
            for prefix, module in model.named_modules()
            for name in module._parameters
        ]

        def forward(parameters: dict[str, Tensor], x: Any) -> tuple[Tensor, ...]:
            for module_parameters, name, key in slots:
                module_parameters[name] = parameters.get(key)
            if not split:
                return (model(x),)
            features = model.features(x)
            return model.head(features), features

        batched: Callable[[dict[str, Tensor], Any], tuple[Tensor, ...]] = vmap(forward)
        return batched

    def run(self, x: Any) -> tuple[Tensor, Tensor | None]:
        """Return outputs and features of every seed's model on its own inputs, seeds first."""
        outputs, *features = self._forward(self.tensors, x)
        return outputs, features[0] if features else None

    # ------------------------------------------------------------ training

    def take_optimizers(self) -> torch.optim.Optimizer:
        """Return one optimizer of all learners' parameters with their own states; share gradients.

        It steps over the slices, not over the stack: the last elements of a tensor are rounded
        differently from the others, and which are last must not depend on the other seeds.
        """
        optimizers = [bare_optimizer(learner) for learner in self.learners]
        own = [[params[name] for name in self.trained] for params in self._params]
        group = {k: v for k, v in optimizers[0].param_groups[0].items() if k != "params"}
        kind: Any = type(optimizers[0])
        stacked: torch.optim.Optimizer = kind([{"params": [p for ps in own for p in ps], **group}])
        for optimizer, parameters in zip(optimizers, own, strict=True):
            for parameter in parameters:
                stacked.state[parameter] = optimizer.state[parameter]
        self._gradients = [torch.zeros_like(tensor) for tensor in self.trained.values()]
        for (name, tensor), gradient in zip(self.trained.items(), self._gradients, strict=True):
            tensor.grad = gradient
            for index, params in enumerate(self._params):
                params[name].grad = gradient[index]
        return stacked

    def zero_grad(self) -> None:
        """Set all gradients to zero in place, because the learners hold views of them."""
        torch._foreach_zero_(self._gradients)

    def follow_schedule(self, stacked: torch.optim.Optimizer) -> None:
        """Copy the learning rate, which is the same for all seeds."""
        group = bare_optimizer(self.learners[0]).param_groups[0]
        stacked.param_groups[0].update({k: v for k, v in group.items() if k != "params"})

    def end_sharing(self) -> None:
        """Release the gradients that all learners share."""
        for name, tensor in self.trained.items():
            tensor.grad = None
            for params in self._params:
                params[name].grad = None
        self._gradients = []
