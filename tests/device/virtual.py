"""A GPU that is not there, for tests: loaded with runpy.

Tensors are ordinary host tensors. Whether one is "on the card" is written on its storage, so views,
autograd, ``vmap`` and inference mode work as they always do. A dispatch mode sees every operation:

* it refuses operations whose tensors lie on different devices, as CUDA kernels do (numbers in
  0-dim host tensors are allowed, as there), and generators of another device;
* draws "on the card" move a generator state of its own, not the host's;
* it writes down every place at which the host would wait for the card: values that are read,
  results whose size depends on values, copies that are not out of pinned memory.

Python sees the card through ``Tensor.device``, ``Tensor.to``, ``device=`` and ``torch.cuda``, which
are replaced while the card is there. C++ sees the host throughout, so a tensor that C++ makes of its
own accord takes the device of what it is first used with (``_ANYWHERE``).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

CARD, HOST = torch.device("cuda", 0), torch.device("cpu")
_ANYWHERE, _LIST = "anywhere", "list"
_functorch = torch._C._functorch

READS = frozenset(
    "_local_scalar_dense nonzero masked_select _unique2 _unique unique_dim unique_consecutive "
    "unique_dim_consecutive equal is_nonzero repeat_interleave bincount multinomial histc allclose "
    "linalg_eigh linalg_svd linalg_solve linalg_inv linalg_cholesky".split()
)
"""Operations after which the host waits: they give values, or results whose size depends on them."""
NO_HOST_NUMBERS = frozenset("cat stack index_select index_copy_ index_add_ scatter_ gather".split())
"""Operations on the card that refuse even 0-dim tensors of the host."""
INDEXING = frozenset("index index_put index_put_ _index_put_impl_ _unsafe_index".split())
MAKERS = (
    "zeros ones empty full arange rand randn randint randperm eye linspace logspace normal "
    "empty_strided tril_indices triu_indices"
).split()
BETWEEN_STEPS = frozenset("begin begin_epoch end_epoch end close".split())


class StrayTensorError(RuntimeError):
    """Tensors or generators of different devices met in an operation."""


class Wait(NamedTuple):
    """A place at which the host waits for the card."""

    what: str
    where: str
    """The innermost frame of clframe or its plugins: file and function."""
    step: tuple[int, int, int] | None
    """Loop, epoch and step in which it happened; None outside a training step."""


def _plain(tensor: Tensor) -> Tensor:
    """What is inside the wrappers of vmap and grad."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def _place(tensor: Tensor) -> torch.device | str:
    try:
        storage = _plain(tensor).untyped_storage()
    except (NotImplementedError, RuntimeError):  # without storage, such as sparse ones
        return HOST
    return getattr(storage, "clframe_place", HOST)


def _put(tensor: Tensor, place: torch.device | str) -> Tensor:
    _plain(tensor).untyped_storage().clframe_place = place  # type: ignore[attr-defined]
    return tensor


def on_card(tensor: Tensor) -> bool:
    """Whether a tensor is on the card."""
    return _place(tensor) is CARD


def _device(where: Any) -> torch.device:
    """CARD or HOST for anything that names a device."""
    if isinstance(where, int):
        return CARD
    return CARD if torch.device(where).type == "cuda" else HOST


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _caller() -> tuple[str, tuple[int, int, int] | None]:
    """The innermost frame of clframe, and the training step it belongs to."""
    where, step, below = "", None, ""
    frame = sys._getframe(2)
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if "/clframe/" in file or "/plugins_contrib/" in file:
            where = where or f"{file.rsplit('/', 1)[-1]}:{name}"
            if name == "run_epochs" and step is None and below not in BETWEEN_STEPS:
                loops = frame.f_locals.get("loops")
                if loops:
                    progress = loops[0].progress
                    step = (id(loops[0]), progress.epochs, progress.steps)
        below, frame = name, frame.f_back
    return where, step


@functools.cache
def _is_composite(func: Any) -> bool:
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    )


class Card(TorchDispatchMode):
    """The virtual card: what runs on it, and what was written down.

    Args:
        own_generator: Draws on the card have a state of their own; False shares the host's, so that
            a run draws the same numbers as on the CPU.
    """

    def __init__(self, own_generator: bool = True) -> None:
        super().__init__()
        self.waits: list[Wait] = []
        self.generator = torch.Generator().manual_seed(0)
        self.own_generator = own_generator
        self.asked = 0
        """How many makers of tensors (torch.zeros, ...) Python is inside of."""

        self.quiet = 0
        """Inside of how many functions that only wait on the host's own tensors."""

    def wait(self, what: str) -> None:
        """Write down that the host waits."""
        if self.quiet:
            return
        self.waits.append(Wait(what, *_caller()))

    def per_step(self) -> dict[str, float]:
        """Waits for each step by place, but for what only happens in the first step of an epoch."""
        steps: dict[str, set[tuple[int, int, int]]] = defaultdict(set)
        count: Counter[str] = Counter()
        for what, where, step in self.waits:
            if step is not None and step[2] > 0:
                steps[f"{where} {what}"].add(step)
                count[f"{where} {what}"] += 1
        return {place: count[place] / len(steps[place]) for place in count}

    # ------------------------------------------------------------ every operation

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if torch.is_inference_mode_enabled() and _is_composite(func):
            with self:  # in inference mode these arrive whole
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = func._schema.name.partition("::")[2]
        if name in ("copy_", "_foreach_copy_"):
            return self._copy(func, args, kwargs)
        if name == "lift_fresh" and not self.asked:  # a list of indices that C++ made a tensor of
            return _put(func(*args), _LIST)
        inputs = [*_tensors(args), *_tensors(kwargs.values())]
        place = self._place_of_result(name, args, kwargs, inputs)
        self._check_generators(name, (*args, *kwargs.values()), place)
        if place is CARD:
            self._write_down(name, args, kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = HOST
        pinned = kwargs.pop("pin_memory", None) if "pin_memory" in kwargs else None
        with self._generator_of(func, args, kwargs, place):
            result = func(*args, **kwargs)
        known = {_plain(t).untyped_storage()._cdata for t in inputs if t.layout == torch.strided}
        results = result if isinstance(result, list | tuple) else (result,)
        for made in _tensors(results):
            if made.layout == torch.strided and made.untyped_storage()._cdata not in known:
                if place is not HOST:
                    _put(made, place)
                if pinned:
                    made.untyped_storage().clframe_pinned = True  # type: ignore[attr-defined]
        return result

    def _place_of_result(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Tensor]
    ) -> torch.device | str:
        """Where an operation runs; refuses tensors that do not go together."""
        asked = kwargs.get("device")
        if asked is not None and _device(asked) is CARD:
            return CARD
        places = [_place(t) for t in inputs]
        if not places:
            return HOST if self.asked else _ANYWHERE
        if CARD not in places:
            return places[0] if all(p in (_ANYWHERE, _LIST) for p in places) else HOST
        for tensor, place in zip(inputs, places, strict=True):
            if place is HOST and not self._may_stay(name, args, tensor):
                found = ", ".join(
                    f"{'cpu' if p is HOST else 'cuda:0'} {tuple(t.shape)}"
                    for t, p in zip(inputs, places, strict=True)
                )
                raise StrayTensorError(
                    f"{name}: Expected all tensors to be on the same device, but found {found}"
                )
            if place is _LIST:
                self.wait(f"{name} with a list")
            if place in (_ANYWHERE, _LIST):
                _put(tensor, CARD)
        return CARD

    def _may_stay(self, name: str, args: tuple[Any, ...], tensor: Tensor) -> bool:
        """Whether an operation on the card takes this tensor of the host."""
        first = args[0] if args else None
        if name in INDEXING and isinstance(first, Tensor) and tensor is not first:
            if tensor.dtype in (torch.long, torch.int, torch.bool, torch.uint8):
                self.wait(f"{name} with indices of the host")
                return on_card(first)
        writes = tensor is first and name.endswith("_")
        return tensor.dim() == 0 and name not in NO_HOST_NUMBERS and not writes

    def _check_generators(self, name: str, values: Any, place: torch.device | str) -> None:
        for value in values:
            if isinstance(value, torch._C.Generator):
                of = _PLACES.get(value._cdata, HOST)
                if (of is CARD) != (place is CARD):
                    raise StrayTensorError(
                        f"{name}: Expected a '{'cuda' if place is CARD else 'cpu'}' device type for "
                        f"generator but found '{of.type}'"
                    )

    def _write_down(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if name in READS and kwargs.get("output_size") is None:
            self.wait(name)
        elif name in INDEXING:
            masks = [t for t in _tensors(args[1]) if t.dtype in (torch.bool, torch.uint8)]
            # One number for all that a mask selects is a masked_fill, which needs no size.
            one = name != "index" and len(args) > 2 and args[2].numel() == 1
            if masks and not one:
                self.wait(f"{name} with a mask")

    @contextlib.contextmanager
    def _generator_of(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: torch.device | str
    ) -> Iterator[None]:
        """The card's own default generator where an operation on it draws without one."""
        draws = torch.Tag.nondeterministic_seeded in func.tags and not any(
            isinstance(value, torch._C.Generator) for value in (*args, *kwargs.values())
        )
        if not (draws and place is CARD and self.own_generator):
            yield
            return
        host = torch.default_generator.get_state()
        torch.default_generator.set_state(self.generator.get_state())
        try:
            yield
        finally:
            self.generator.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(host)

    # ------------------------------------------------------------ copies

    def _copy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        targets, sources = args[0], args[1]
        no_wait = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        pairs = [(targets, sources)]
        if isinstance(targets, list | tuple):
            pairs = list(zip(targets, sources, strict=True))
        for target, source in pairs:
            to, of = _place(target), _place(source)
            if to is _ANYWHERE:
                _put(target, of)
            elif of not in (_ANYWHERE, _LIST):
                self.sent(source, of, to, no_wait)
        return func(*args, **kwargs)

    def sent(self, source: Tensor, of: Any, to: Any, no_wait: bool) -> None:
        """Write down what a copy between devices makes the host wait for."""
        if of is CARD and to is HOST:
            self.wait("copy to the host")
        elif of is HOST and to is CARD and not (no_wait and is_pinned(source)):
            self.wait("copy of pageable memory to the card")


def is_pinned(tensor: Tensor, device: Any = None) -> bool:
    """Whether a host tensor says that it is in pinned memory."""
    return bool(getattr(_plain(tensor).untyped_storage(), "clframe_pinned", False))


class _Move(torch.autograd.Function):
    """A copy to another device through which gradients come back to where the values were."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, to: Any, dtype: torch.dtype) -> Tensor:
        ctx.of, ctx.dtype = _place(source), source.dtype
        return _put(_OLD["to"](source, dtype, copy=True), to)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        return _put(_OLD["to"](gradient, ctx.dtype, copy=True), ctx.of), None, None


_OLD: dict[str, Any] = {"to": Tensor.to, "device": torch._C.TensorBase.device}
_PLACES: dict[int, torch.device] = {}
"""Where generators are: dispatch gives the same C++ object in another Python one."""


def _to(card: Card) -> Callable[..., Tensor]:
    def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        copy, other = kwargs.pop("copy", False), kwargs.pop("other", None)
        if args and isinstance(args[0], Tensor):
            other, args = args[0], args[1:]
        if other is not None:
            args = (other.device, other.dtype, *args)
        device, dtype, no_wait, layout = torch._C._nn._parse_to(*args, **kwargs)
        of, to = _place(self), None if device is None else _device(device)
        options: dict[str, Any] = {} if layout is None else {"memory_format": layout}
        if to is None or to is of:
            return _OLD["to"](self, dtype or self.dtype, copy=copy, **options)  # type: ignore[no-any-return]
        card.sent(self, of, to, no_wait)
        if self.requires_grad and torch.is_grad_enabled():
            return _Move.apply(self, to, dtype or self.dtype)  # type: ignore[no-any-return]
        return _put(_OLD["to"](self, dtype or self.dtype, copy=True, **options), to)

    return to


class _Generator(torch.Generator):
    """A generator that says where it is."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        made = super().__new__(cls, "cpu")
        _PLACES[made._cdata] = _device(device)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return _PLACES[self._cdata]


def _methods(card: Card) -> dict[str, Any]:
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
        copy = self.clone()
        copy.untyped_storage().clframe_pinned = True  # type: ignore[attr-defined]
        return copy

    def new(self: Tensor, data: Any, **kwargs: Any) -> Tensor:
        where = kwargs.pop("device", None) or self.device
        return to(_put(new_tensor(self, data, **kwargs), HOST), where)

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


def _functions(card: Card) -> dict[str, Any]:
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
        to = _device(map_location)

        def put(storage: Any, location: str) -> Any:
            storage.clframe_place = to
            return storage

        return load(file, map_location=put, **kwargs)

    functions: dict[str, Any] = {name: asking(getattr(torch, name)) for name in MAKERS}
    functions |= {name: of_data(getattr(torch, name)) for name in ("tensor", "as_tensor", "asarray")}
    return functions | {"Generator": _Generator, "load": load_there}


def _cuda(card: Card) -> dict[str, Any]:
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
        "synchronize": lambda device=None: card.wait("synchronize"),
        "is_current_stream_capturing": lambda: False,
        "get_rng_state": lambda device=None: card.generator.get_state(),
        "set_rng_state": lambda state, device=None: card.generator.set_state(state),
        "get_rng_state_all": lambda: [card.generator.get_state()],
        "set_rng_state_all": lambda states: card.generator.set_state(states[0]),
        "manual_seed": card.generator.manual_seed,
        "manual_seed_all": card.generator.manual_seed,
    }


class _Stream:
    """The one stream of the card."""

    def is_capturing(self) -> bool:
        return False


@contextlib.contextmanager
def virtual_card(own_generator: bool = True) -> Iterator[Card]:
    """A machine with one CUDA device, until the end of the block."""
    card = Card(own_generator)
    clone = torch.UntypedStorage.clone

    def clone_there(self: Any) -> Any:
        copy = clone(self)
        copy.clframe_place = getattr(self, "clframe_place", HOST)
        return copy

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
        (torch.cuda, _cuda(card)),
        (torch.accelerator, {"current_stream": lambda device=None: _Stream()}),
        (torch.nn.functional, {"one_hot": unchecked}),
        (torch.UntypedStorage, {"clone": clone_there}),
    ]
    missing = object()
    saved = [(h, n, vars(h).get(n, missing)) for h, values in plan for n in values]
    try:
        for holder, values in plan:
            for name, value in values.items():
                setattr(holder, name, value)
        with card:
            yield card
    finally:
        for holder, name, value in saved:
            if value is missing:
                delattr(holder, name)
            else:
                setattr(holder, name, value)
