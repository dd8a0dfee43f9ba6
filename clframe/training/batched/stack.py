"""The models of several learners as one: each parameter a tensor with a first dimension of seeds.

The learners keep their own parameters, optimizers and plugins; while they are stacked these look
into the shared tensors. So a plugin that reads a learner's parameters, adds to their gradients or
pulls on them acts on its seed's slice, and one forward pass, one backward pass and one optimizer
step serve all seeds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from clframe.core.learner import Learner
from clframe.errors import SettingError
from clframe.training.batched.perceptron import batched_pass
from clframe.training.optimizers import bare_optimizer

# Optimizers that treat every element by itself, so that a stack is nothing to them.
_BY_ELEMENT = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


def unsupported_learner(learner: Learner) -> str | None:
    """Why this learner cannot be one of a stack, or None."""
    kind = type(learner)
    if kind.task_loss is not Learner.task_loss or kind.run_model is not Learner.run_model:
        return f"learner {kind.__name__} computes its loss in a way of its own"
    for name, module in learner.model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
            return f"the model's layer '{name}' keeps running statistics"
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            return f"the model's layer '{name}' draws random numbers"
        if isinstance(module, nn.RNNBase):
            return f"the model's layer '{name}' is recurrent"
    optimizer = learner.make_optimizer([nn.Parameter(torch.zeros(1))])
    if not isinstance(optimizer, _BY_ELEMENT):
        return f"optimizer {type(optimizer).__name__} is not known to treat elements one by one"
    if learner.schedule is not None and learner.schedule.follows_loss:
        return "the scheduler gives each seed a learning rate of its own"
    return None


def copied(value: Any) -> Any:
    """A copy that shares nothing."""
    return value.clone() if isinstance(value, Tensor) else copy.copy(value)


class Stack:
    """Several learners' models, run and trained as one.

    From here on the learners' parameters are slices of the stack's tensors.

    Args:
        learners: With models of equal shape.
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
        """A pass of all models at once: a copy of the model takes the parameters it is given."""
        quick = batched_pass(self.learners[0].model)
        if quick is not None:
            return quick
        model: Any = copy.deepcopy(self.learners[0].model)
        split = hasattr(model, "features") and hasattr(model, "head")
        # Written straight into the modules: torch.func.functional_call costs more than a small
        # model's whole pass.
        slots = [
            (module._parameters, name, f"{prefix}.{name}" if prefix else name)
            for prefix, module in model.named_modules()
            for name in module._parameters
        ]

        def forward(parameters: dict[str, Tensor], x: Any) -> tuple[Tensor, ...]:
            for place, name, key in slots:
                place[name] = parameters.get(key)
            if not split:
                return (model(x),)
            features = model.features(x)
            return model.head(features), features

        batched: Callable[[dict[str, Tensor], Any], tuple[Tensor, ...]] = vmap(forward)
        return batched

    def run(self, x: Any) -> tuple[Tensor, Tensor | None]:
        """Outputs and features of every seed's model on its own inputs, seeds first."""
        outputs, *features = self._forward(self.tensors, x)
        return outputs, features[0] if features else None

    # ------------------------------------------------------------ training

    def take_optimizers(self) -> torch.optim.Optimizer:
        """One optimizer whose state is the stack of the learners' own; gradients are shared."""
        optimizers = [bare_optimizer(learner) for learner in self.learners]
        group = {k: v for k, v in optimizers[0].param_groups[0].items() if k != "params"}
        kind: Any = type(optimizers[0])
        stacked: torch.optim.Optimizer = kind([{"params": list(self.trained.values()), **group}])
        self._gradients = [torch.zeros_like(tensor) for tensor in self.trained.values()]
        for (name, tensor), gradient in zip(self.trained.items(), self._gradients, strict=True):
            tensor.grad = gradient
            for index, params in enumerate(self._params):
                params[name].grad = gradient[index]
            pairs = zip(optimizers, self._params, strict=True)
            states = [optimizer.state[params[name]] for optimizer, params in pairs]
            for key, first in states[0].items():
                by_element = isinstance(first, Tensor) and first.shape == tensor.shape[1:]
                stacked.state[tensor][key] = (
                    torch.stack([state[key] for state in states]) if by_element else copied(first)
                )
        return stacked

    def zero_grad(self) -> None:
        """Set all gradients to zero in place, since the learners look into them."""
        torch._foreach_zero_(self._gradients)

    def follow_schedule(self, stacked: torch.optim.Optimizer) -> None:
        """Take over the learning rate, which is the same for all seeds."""
        group = bare_optimizer(self.learners[0]).param_groups[0]
        stacked.param_groups[0].update({k: v for k, v in group.items() if k != "params"})

    def copy_optimizers(self, stacked: torch.optim.Optimizer) -> None:
        """Give every learner a copy of its part of the stacked optimizer's state."""
        for name, tensor in self.trained.items():
            pairs = zip(self.learners, self._params, strict=True)
            for index, (learner, params) in enumerate(pairs):
                state = bare_optimizer(learner).state[params[name]]
                for key, value in stacked.state[tensor].items():
                    by_element = isinstance(value, Tensor) and value.shape == tensor.shape
                    state[key] = copied(value[index] if by_element else value)

    def return_optimizers(self, stacked: torch.optim.Optimizer) -> None:
        """Give every learner its optimizer's state back, and end the sharing of gradients."""
        self.copy_optimizers(stacked)
        for name, tensor in self.trained.items():
            tensor.grad = None
            for params in self._params:
                params[name].grad = None
        self._gradients = []
