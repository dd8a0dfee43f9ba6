"""Options that speed up a model's pass: ``torch.compile``, CUDA graphs, channels last.

They change the model in place. Parameters, their names and checkpoints stay the same, and a copy of
the model (a teacher) is an ordinary one.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from clframe.core.protocols import split_model
from clframe.errors import SettingError

if TYPE_CHECKING:
    from clframe.core.trainer import TrainerSettings


def check_options(settings: TrainerSettings, device: torch.device, processes: int) -> None:
    """Raise an error for options that cannot work here.

    Raises:
        SettingError: The message names what is missing.
    """
    if settings.cuda_graphs and device.type != "cuda":
        raise SettingError(
            f"trainer.cuda_graphs=true needs a CUDA device, and this run is on {device.type}; "
            "trainer.compile=true works on any device"
        )
    if not (settings.compile or settings.cuda_graphs):
        return
    if processes > 1:
        raise SettingError(
            f"trainer.compile=true works in one process, but trainer.devices asks for {processes}: "
            "leave one of them out"
        )
    if device.type == "cpu" and not _has_compiler():
        raise SettingError(
            "trainer.compile=true needs a working C++ compiler and found none: install g++ "
            "or name one with the environment variable CXX"
        )


def _has_compiler() -> bool:
    """Return whether torch.compile can compile code for the CPU."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        compiler = shutil.which(get_cpp_compiler())
    except (InvalidCxxCompiler, RuntimeError):
        return False
    return compiler is not None and _can_compile(compiler)


def _can_compile(compiler: str) -> bool:
    """Return whether a compiler can build a small library: some lack headers or a linker."""
    program = "#include <cmath>\ndouble root(double x) { return std::sqrt(x); }\n"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "root.so")
        command = [compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(command, input=program, text=True, capture_output=True, timeout=60)
        return library.exists()


def apply_options(model: nn.Module, settings: TrainerSettings) -> None:
    """Apply the settings' options to a model."""
    if settings.channels_last:
        # A convolution adopts the layout of its weights, so inputs need not be converted.
        model.to(memory_format=torch.channels_last)
    if settings.compile or settings.cuda_graphs:
        for module in parts_called(model):
            _compile(module, settings.cuda_graphs)


def parts_called(model: nn.Module) -> list[nn.Module]:
    """Return the modules that a learner calls: all before the head, or the whole model.

    A head is one linear layer, which a compiler cannot improve.

    >>> from clframe.models.mlp import mlp
    >>> [type(part).__name__ for part in parts_called(mlp((4,), 2))]
    ['Sequential']
    """
    split = split_model(model)
    if split is None:
        return [model]
    if isinstance(split.features, nn.Module):
        return [split.features]
    return [child for child in model.children() if child is not split.head]  # called by a method


def _compile(module: nn.Module, cuda_graphs: bool) -> None:
    """Compile a module in place, for training steps and for evaluation.

    Other calls stay uncompiled: per-sample gradients use evaluation mode with gradients on,
    hooks and ``torch.func``, which look inside the module.
    """
    # Dropout must draw the same numbers as without compilation.
    options: dict[str, Any] = {"fallback_random": True}
    if cuda_graphs:
        options["triton.cudagraphs"] = True
    plain: Callable[..., Any] = module._call_impl
    compiled = torch.compile(plain, options=options)
    from torch._dynamo.exc import TorchDynamoException  # imported by torch.compile

    def call(*inputs: Any, **named: Any) -> Any:
        if torch.is_grad_enabled() and not module.training:
            return plain(*inputs, **named)
        try:
            outputs = compiled(*inputs, **named)
        except TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            raise SettingError(
                f"trainer.compile=true: torch cannot compile {type(module).__name__} ({reason}); "
                "leave the setting out"
            ) from error
        # A graph writes its outputs to the same memory each time.
        return outputs.clone() if cuda_graphs else outputs

    # nn.Module.compile sets this attribute, which is dropped in copies and saved modules.
    module._compiled_call_impl = call
