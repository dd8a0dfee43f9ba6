"""The options that make a model's pass faster: ``torch.compile``, CUDA graphs, channels last.

They act on the model in place: parameters, their names and checkpoints stay what they are, and a
copy of the model (a teacher) is an ordinary one.
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
    """Refuse options that cannot work here.

    Raises:
        SettingError: With what is missing.
    """
    if settings.cuda_graphs and device.type != "cuda":
        raise SettingError(
            f"trainer.cuda_graphs=true needs a CUDA device, and this run is on {device.type}; "
            "trainer.compile=true works on any"
        )
    if not (settings.compile or settings.cuda_graphs):
        return
    if processes > 1:
        raise SettingError(
            f"trainer.compile=true works in one process, and trainer.devices asks for {processes}: "
            "leave one of them out"
        )
    if device.type == "cpu" and not _has_compiler():
        raise SettingError(
            "trainer.compile=true needs a C++ compiler, and none that works is found: install g++ "
            "or name one with the environment variable CXX"
        )


def _has_compiler() -> bool:
    """Whether what torch.compile makes for the CPU can be compiled."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        compiler = shutil.which(get_cpp_compiler())
    except (InvalidCxxCompiler, RuntimeError):
        return False
    return compiler is not None and _can_compile(compiler)


def _can_compile(compiler: str) -> bool:
    """Whether a compiler makes a library of a small program: some lack headers or a linker."""
    program = "#include <cmath>\ndouble root(double x) { return std::sqrt(x); }\n"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "root.so")
        words = [compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(words, input=program, text=True, capture_output=True, timeout=60)
        return library.exists()


def apply_options(model: nn.Module, settings: TrainerSettings) -> None:
    """Make a model's pass faster in the ways that the settings name."""
    if settings.channels_last:
        # A convolution takes the layout of its weights, so inputs need not be converted.
        model.to(memory_format=torch.channels_last)
    if settings.compile or settings.cuda_graphs:
        for part in parts_called(model):
            _compile(part, settings.cuda_graphs)


def parts_called(model: nn.Module) -> list[nn.Module]:
    """The modules that a learner calls: what comes before the head, or all of the model.

    A head is one linear layer, of which a compiler can make nothing better.

    >>> from clframe.models.mlp import mlp
    >>> [type(part).__name__ for part in parts_called(mlp((4,), 2))]
    ['Sequential']
    """
    split = split_model(model)
    if split is None:
        return [model]
    if isinstance(split.features, nn.Module):
        return [split.features]
    return [part for part in model.children() if part is not split.head]  # a method calls them


def _compile(module: nn.Module, cuda_graphs: bool) -> None:
    """Compile a module in place, for training steps and for evaluation.

    In between, per-sample gradients are taken in evaluation mode with gradients on, through hooks
    and ``torch.func``, which look inside the module: those calls stay as they are written.
    """
    # Dropout draws the numbers that it would draw uncompiled.
    options: dict[str, Any] = {"fallback_random": True}
    if cuda_graphs:
        options["triton.cudagraphs"] = True
    plain: Callable[..., Any] = module._call_impl
    compiled = torch.compile(plain, options=options)
    from torch._dynamo.exc import TorchDynamoException  # torch.compile has brought it

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
        # A graph writes its outputs to the same place each time.
        return outputs.clone() if cuda_graphs else outputs

    # What nn.Module.compile sets; left out when the module is copied or saved.
    module._compiled_call_impl = call
