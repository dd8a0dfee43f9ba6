"""A machine with one CUDA device that is not there, for tests.

Python sees the card through ``Tensor.device``, ``Tensor.to``, ``device=`` and ``torch.cuda``, which
are replaced while the card is there. What runs on it is in card.py.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from tests.helpers.card import (
    CARD,
    HOST,
    MAKERS,
    PLACES,
    Card,
    device_of,
    is_pinned,
    on_card,
    place_of,
    put,
)


class _Move(torch.autograd.Function):
    """A copy to another device through which gradients come back to where the values were."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, to: Any, dtype: torch.dtype) -> Tensor:
        ctx.of, ctx.dtype = place_of(source), source.dtype
        return put(_OLD["to"](source, dtype, copy=True), to)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return put(_OLD["to"](gradient, ctx.dtype, copy=True), ctx.of), None, None


_OLD: dict[str, Any] = {"to": Tensor.to, "device": torch._C.TensorBase.device}


def _to(card: Any) -> Callable[..., Tensor]:
    def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        copy, other = kwargs.pop("copy", False), kwargs.pop("other", None)
        if args and isinstance(args[0], Tensor):
            other, args = args[0], args[1:]
        if other is not None:
            args = (other.device, other.dtype, *args)
        device, dtype, no_wait, layout = torch._C._nn._parse_to(*args, **kwargs)
        of, to = place_of(self), None if device is None else device_of(device)
        options: dict[str, Any] = {} if layout is None else {"memory_format": layout}
        if to is None or to is of:
            return _OLD["to"](self, dtype or self.dtype, copy=copy, **options)  # type: ignore[no-any-return]
        card.sent(self, of, to, no_wait)
        if self.requires_grad and torch.is_grad_enabled():
            return _Move.apply(self, to, dtype or self.dtype)  # type: ignore[no-any-return]
        return put(_OLD["to"](self, dtype or self.dtype, copy=True, **options), to)

    return to


class _Generator(torch.Generator):
    """A generator that says where it is."""

    _cdata: int

    def __new__(cls, device: Any = "cpu") -> _Generator:
        make: Any = super().__new__  # torch's stub knows __init__ only
        made: _Generator = make(cls, "cpu")
        PLACES[made._cdata] = device_of(device)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return PLACES[self._cdata]


def _methods(card: Any) -> dict[str, Any]:
    """What tensors have while the card is there."""
    numpy, tolist, new_tensor = Tensor.numpy, Tensor.tolist, Tensor.new_tensor
    to = _to(card)

    def host_only(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if on_card(self):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        return numpy(self, *args, **kwargs)

    def read_all(self: Tensor) -> Any:
        if on_card(self):
            card.wait("tolist")
        return tolist(self)

    def device(self: Tensor) -> torch.device:
        real: torch.device = _OLD["device"].__get__(self)
        return CARD if real.type == "cpu" and on_card(self) else real

    def pin(self: Tensor, device: Any = None) -> Tensor:
        if on_card(self):
            raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors")
        card.pinned_by.add(threading.current_thread().name)
        copy = self.clone()
        copy.untyped_storage().clframe_pinned = True  # type: ignore[attr-defined]
        return copy

    def new(self: Tensor, data: Any, **kwargs: Any) -> Tensor:
        where = kwargs.pop("device", None) or self.device
        return to(put(new_tensor(self, data, **kwargs), HOST), where)

    return {
        "device": property(device),
        "is_cuda": property(on_card),
        "is_cpu": property(lambda self: not on_card(self)),
        "get_device": lambda self: 0 if on_card(self) else -1,
        "to": to,
        "cpu": lambda self, **kwargs: to(self, HOST),
        "cuda": lambda self, device=None, non_blocking=False: to(
            self, CARD, non_blocking=non_blocking
        ),
        "numpy": host_only,
        "tolist": read_all,
        "pin_memory": pin,
        "is_pinned": is_pinned,
        "new_tensor": new,
    }


def _functions(card: Any) -> dict[str, Any]:
    """What torch has while the card is there: makers that tell us whom Python asked."""

    def asking(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(make)
        def made(*args: Any, **kwargs: Any) -> Tensor:
            card.asked += 1
            try:
                return make(*args, **kwargs)
            finally:
                card.asked -= 1

        return made

    def of_data(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(make)
        def made(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
            wants_grad = kwargs.pop("requires_grad", False)
            tensor = asking(make)(data, *args, **kwargs)
            return (tensor if device is None else tensor.to(device)).requires_grad_(wants_grad)

        return made

    load = torch.load

    def load_there(file: Any, map_location: Any = None, **kwargs: Any) -> Any:
        to = device_of(map_location)

        def put(storage: Any, location: str) -> Any:
            storage.clframe_place = to
            return storage

        return load(file, map_location=put, **kwargs)

    functions: dict[str, Any] = {name: asking(getattr(torch, name)) for name in MAKERS}
    functions |= {
        name: of_data(getattr(torch, name)) for name in ("tensor", "as_tensor", "asarray")
    }
    return functions | {"Generator": _Generator, "load": load_there, "autocast": _Autocast}


def _cuda(card: Any) -> dict[str, Any]:
    """What ``torch.cuda`` has while the card is there."""
    return {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_capability": lambda device=None: (7, 5),
        "get_device_name": lambda device=None: "virtual card",
        "mem_get_info": lambda device=None: (1 << 33, 1 << 33),
        "max_memory_allocated": lambda device=None: 0,
        "reset_peak_memory_stats": lambda device=None: None,
        "empty_cache": lambda: None,
        "set_sync_debug_mode": lambda mode: setattr(card, "warns", mode == "warn"),
        "synchronize": lambda device=None: card.wait("synchronize"),
        "is_current_stream_capturing": lambda: False,
        "get_rng_state": lambda device=None: card.generator.get_state(),
        "set_rng_state": lambda state, device=None: card.generator.set_state(state),
        "get_rng_state_all": lambda: [card.generator.get_state()],
        "set_rng_state_all": lambda states: card.generator.set_state(states[0]),
        "manual_seed": card.generator.manual_seed,
        "manual_seed_all": card.generator.manual_seed,
    }


class _Autocast(torch.autocast):
    """Mixed precision on the card: the host's, since C++ sees tensors of the host."""

    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu" if device_type == "cuda" else device_type, *args, **kwargs)


class _Stream:
    """The one stream of the card."""

    def is_capturing(self) -> bool:
        return False


def _accelerator() -> dict[str, Any]:
    """What ``torch.accelerator`` has while the card is there."""
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "set_device_index": lambda device: None,
        "current_stream": lambda device=None: _Stream(),
    }


@contextlib.contextmanager
def virtual_card(own_generator: bool = True) -> Iterator[Any]:
    """A machine with one CUDA device, until the end of the block."""
    card = Card(own_generator)
    clone: Any = torch.UntypedStorage.clone

    def clone_there(self: Any) -> Any:
        copy = clone(self)
        copy.clframe_place = getattr(self, "clframe_place", HOST)
        return copy

    run_thread = threading.Thread.run

    def run_there(self: threading.Thread) -> None:
        with card:  # modes are of one thread
            run_thread(self)

    one_hot = torch.nn.functional.one_hot

    def unchecked(tensor: Tensor, num_classes: int = -1) -> Tensor:
        # Looks at the smallest and the largest value on the host only, if their number is given.
        card.quiet += num_classes > 0
        try:
            return one_hot(tensor, num_classes)
        finally:
            card.quiet -= num_classes > 0

    plan: list[tuple[Any, dict[str, Any]]] = [
        (Tensor, _methods(card)),
        (torch, _functions(card)),
        (torch.amp, {"autocast": _Autocast}),
        (torch.cuda, _cuda(card)),
        (threading.Thread, {"run": run_there}),
        (torch.accelerator, _accelerator()),
        (torch.nn.functional, {"one_hot": unchecked}),
        (torch.UntypedStorage, {"clone": clone_there}),
    ]
    missing = object()
    saved = [(h, n, vars(h).get(n, missing)) for h, values in plan for n in values]
    try:
        for holder, values in plan:
            for name, value in values.items():
                setattr(holder, name, value)
        # What asks for a driver, such as recurrent layers of cuDNN, is not to be taken.
        with torch.backends.cudnn.flags(enabled=False), card:
            yield card
    finally:
        for holder, name, value in saved:
            if value is missing:
                delattr(holder, name)
            else:
                setattr(holder, name, value)
