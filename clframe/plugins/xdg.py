"""Context-dependent gating: each task uses its own part of the hidden units."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.errors import PluginError, SettingError
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream

ACTIVATIONS = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.ELU,
    nn.GELU,
    nn.SiLU,
    nn.Hardswish,
    nn.Tanh,
    nn.Sigmoid,
)


class XdG(Plugin):
    """Context-dependent gating: a random, fixed mask of the hidden units for each task (XdG).

    In every hidden layer the outputs ``h`` of the activation become ``h * g_k`` with a gate ``g_k``
    of zeros and ones drawn once for each task k. Prediction needs the task. In convolutions,
    whole channels are gated.

    Args:
        gating: Share of the units of each layer that is masked (van de Ven & Tolias 2019 use 0.95
            on split MNIST).
        gate_seed: Seed of the gates, combined with the run's seed.

    Example:
        ``clframe fit strategy=xdg+si scenario=task``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import XdG
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [XdG(gating=0.8), "si"], scenario="task").strategy
        'xdg+si'
    """

    name = "xdg"
    paper = (
        "Masse, Grant & Freedman, Alleviating catastrophic forgetting using context-dependent "
        "gating and synaptic stabilization, 2018"
    )
    scenarios = ("task",)
    roles = ("units",)
    capabilities = Capabilities(
        task_gated=True,
        attachable="it looks for the layers to gate before the shape of inputs is known",
    )

    def __init__(self, gating: float = 0.95, gate_seed: int = 0) -> None:
        if not 0 <= gating < 1:
            raise SettingError(f"xdg.gating must be at least 0 and below 1, got {gating!r}")
        at_least(gate_seed, 0, "xdg.gate_seed")
        self.gating = gating
        self.gate_seed = gate_seed
        self.gates: dict[tuple[str, int], Tensor] = {}
        """By layer and width: a row of gates for each task, and a last row with all open."""

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Draw the gates and attach them to the activations of the hidden layers."""
        model = learner.model
        layers: dict[str, nn.Module] = {
            n: m for n, m in model.named_modules() if isinstance(m, ACTIVATIONS)
        }
        widths = _widths(model, layers, stream)
        if not widths:
            raise PluginError(
                f"plugin 'xdg' found no activation module to gate in {type(model).__name__}: it "
                f"looks for {', '.join(kind.__name__ for kind in ACTIVATIONS)}"
            )
        generator = torch.Generator().manual_seed(learner.seed * 1_000_003 + self.gate_seed)
        for layer, width in widths:
            masked = round(self.gating * width)
            gates = torch.ones(len(stream.tasks) + 1, width)
            for task in stream.tasks:
                gates[task.index, torch.randperm(width, generator=generator)[:masked]] = 0.0
            self.gates[layer, width] = gates.to(learner.engine.device)
        for name, module in layers.items():
            module.register_forward_hook(_gate(self.gates, name, learner))


def _width(output: Tensor) -> int:
    """Return the number of hidden units: the last dimension, or the channels of images."""
    return output.shape[1 if output.dim() == 4 else -1]


def _widths(
    model: nn.Module, layers: dict[str, nn.Module], stream: Stream
) -> list[tuple[str, int]]:
    """Return each activation with the widths of its outputs, by passing zeros through."""
    widths: dict[tuple[str, int], None] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            widths[name, _width(output)] = None

        return hook

    handles = [module.register_forward_hook(note(name)) for name, module in layers.items()]
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, *stream.input_shape))
    except Exception as error:
        raise PluginError(
            f"plugin 'xdg' cannot pass zeros of shape {stream.input_shape} through "
            f"{type(model).__name__} to find its hidden layers: {str(error).splitlines()[0]}"
        ) from error
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    return list(widths)


def _gate(gates: dict[tuple[str, int], Tensor], name: str, learner: Learner) -> Callable[..., Any]:
    """Return a hook that gates a layer's output: a plain function, which model copies keep."""

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
        task, table = learner.current_task, gates.get((name, _width(output)))
        if task is None or table is None:
            return None
        open_units = table[task].to(output.dtype)
        if output.dim() == 4:
            return output * open_units[:, :, None, None]
        return output * open_units.reshape(len(task), *[1] * (output.dim() - 2), -1)

    return hook
