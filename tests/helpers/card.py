"""A GPU that is not there: what runs on it and what it writes down; see virtual.py.

Tensors are ordinary host tensors. Whether one is "on the card" is written on its storage, so views,
autograd, ``vmap`` and inference mode work as they always do. A dispatch mode sees every operation:

* it refuses operations whose tensors lie on different devices, as CUDA kernels do (numbers in
  0-dim host tensors are allowed, as there), and generators of another device;
* draws "on the card" move a generator state of its own, not the host's;
* it writes down every place at which the host would wait for the card: values that are read,
  results whose size depends on values, copies that are not out of pinned memory.

C++ sees the host throughout, so a tensor that C++ makes of its own accord takes the device of what
it is first used with (``_ANYWHERE``).
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import clframe_contrib
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import clframe

CARD, HOST = torch.device("cuda", 0), torch.device("cpu")
_ANYWHERE, _LIST = "anywhere", "list"
_functorch = torch._C._functorch

READS = frozenset(
    {"_local_scalar_dense", "is_nonzero", "equal", "allclose", "nonzero", "masked_select"}
    | {"_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"}
    | {"repeat_interleave", "bincount", "multinomial", "histc"}
    | {"linalg_eigh", "linalg_svd", "linalg_solve", "linalg_inv", "linalg_cholesky"}
)
"""Operations after which the host waits: they give values, or results of a size that depends on
values."""
NO_HOST_NUMBERS = frozenset(
    {"cat", "stack", "index_select", "index_copy_", "index_add_", "scatter_", "gather"}
)
"""Operations on the card that refuse even 0-dim tensors of the host."""
INDEXING = frozenset({"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"})
MAKERS = (
    *("zeros", "ones", "empty", "full", "arange", "eye", "linspace", "logspace", "empty_strided"),
    *("rand", "randn", "randint", "randperm", "normal", "tril_indices", "triu_indices"),
)
# Where the packages are, and not how their folders are called: the checkout may be called so, too.
PACKAGES = tuple(f"{Path(str(made.__file__)).parent}/" for made in (clframe, clframe_contrib))
CHECKPOINTS = f"{PACKAGES[0]}checkpoint/"
BETWEEN_STEPS = frozenset({"begin", "begin_epoch", "end_epoch", "end", "close"})


class StrayTensorError(RuntimeError):
    """Tensors or generators of different devices met in an operation."""


class Wait(NamedTuple):
    """A place at which the host waits for the card."""

    what: str
    where: str
    """The innermost frame of clframe or its plugins: file and function."""
    step: tuple[int, int, int] | None
    """Loop, epoch and step in which it happened; None outside a training step."""


def plain(tensor: Tensor) -> Tensor:
    """What is inside the wrappers of vmap and grad."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def place_of(tensor: Tensor) -> torch.device | str:
    try:
        storage = plain(tensor).untyped_storage()
    except (NotImplementedError, RuntimeError):  # without storage, such as sparse ones
        return HOST
    return getattr(storage, "clframe_place", HOST)


def put(tensor: Tensor, place: torch.device | str) -> Tensor:
    plain(tensor).untyped_storage().clframe_place = place  # type: ignore[attr-defined]
    return tensor


def on_card(tensor: Tensor) -> bool:
    """Whether a tensor is on the card."""
    return place_of(tensor) is CARD


def device_of(where: Any) -> torch.device:
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


def _step(loops: Any = (), orders: Any = (), **others: Any) -> tuple[int, int, int] | None:
    """Loop, epoch and step since the epoch was begun, from what ``run_epochs`` knows."""
    if not orders:
        return None
    loop = loops[0]
    begun_at = (loop.used - len(orders[0])) // loop.budget.batch_size
    return id(loop), loop.progress.epochs, loop.progress.steps - begun_at


def _caller() -> tuple[str, tuple[int, int, int] | None]:
    """The innermost frame of clframe, and the training step it belongs to."""
    where, step, below = "", None, ""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file.startswith(CHECKPOINTS):  # saving a run waits, and is meant to
            return where or f"{file.rsplit('/', 1)[-1]}:{name}", None
        if file.startswith(PACKAGES):
            where = where or f"{file.rsplit('/', 1)[-1]}:{name}"
            if name == "run_epochs" and step is None and below not in BETWEEN_STEPS:
                step = _step(**frame.f_locals)
        below, frame = name, frame.f_back
    return where, step


PLACES: dict[int, torch.device] = {}
"""Where generators are: dispatch gives the same C++ object in another Python one."""


@functools.cache
def _draws(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


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
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: list[Wait] = []
        self.generator = torch.Generator().manual_seed(0)
        self.own_generator = own_generator
        self.asked = 0
        """How many makers of tensors (torch.zeros, ...) Python is inside of."""

        self.warns = False
        """Whether waits are said as well: torch.cuda.set_sync_debug_mode."""

        self.pinned_by: set[str] = set()
        """Names of the threads that copied tensors into pinned memory."""

        self.quiet = 0
        """Inside of how many functions that only wait on the host's own tensors."""

    def wait(self, what: str) -> None:
        """Write down that the host waits."""
        if self.quiet:
            return
        if self.warns:
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
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
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if torch.is_inference_mode_enabled() and _is_composite(func):
            with self:  # in inference mode these arrive whole
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = func._opname
        if name in ("copy_", "_foreach_copy_"):
            return self._copy(func, args, kwargs)
        if name == "lift_fresh" and not self.asked:  # a list of indices that C++ made a tensor of
            return put(func(*args), _LIST)
        inputs = [*_tensors(args), *_tensors(kwargs.values())]
        place = self._place_of_result(name, args, kwargs, inputs)
        if place is CARD:
            self._write_down(name, args, kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = HOST
        pinned = kwargs.pop("pin_memory", None) if "pin_memory" in kwargs else None
        if _draws(func):
            with self._generator_of(name, (*args, *kwargs.values()), place):
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        known = {plain(t).untyped_storage()._cdata for t in inputs if t.layout == torch.strided}
        results = result if isinstance(result, list | tuple) else (result,)
        for made in _tensors(results):
            if made.layout == torch.strided and made.untyped_storage()._cdata not in known:
                if place is not HOST:
                    put(made, place)
                if pinned:
                    made.untyped_storage().clframe_pinned = True  # type: ignore[attr-defined]
        return result

    def _place_of_result(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Tensor]
    ) -> torch.device | str:
        """Where an operation runs; refuses tensors that do not go together."""
        asked = kwargs.get("device")
        if asked is not None and device_of(asked) is CARD:
            return CARD
        places = [place_of(t) for t in inputs]
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
                put(tensor, CARD)
        return CARD

    def _may_stay(self, name: str, args: tuple[Any, ...], tensor: Tensor) -> bool:
        """Whether an operation on the card takes this tensor of the host."""
        first = args[0] if args else None
        indexes = tensor.dtype in (torch.long, torch.int, torch.bool, torch.uint8)
        if name in INDEXING and indexes and isinstance(first, Tensor) and tensor is not first:
            self.wait(f"{name} with indices of the host")
            return on_card(first)
        writes = tensor is first and name.endswith("_")
        return tensor.dim() == 0 and name not in NO_HOST_NUMBERS and not writes

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
    def _generator_of(self, name: str, values: Any, place: torch.device | str) -> Iterator[None]:
        """The card's own default generator where an operation on it draws without one."""
        given: list[Any] = [value for value in values if isinstance(value, torch._C.Generator)]
        for generator in given:
            of = PLACES.get(generator._cdata, HOST)
            if (of is CARD) != (place is CARD):
                raise StrayTensorError(
                    f"{name}: Expected a '{'cuda' if place is CARD else 'cpu'}' device type for "
                    f"generator but found '{of.type}'"
                )
        if given or place is not CARD or not self.own_generator:
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
            to, of = place_of(target), place_of(source)
            if to is _ANYWHERE:
                put(target, of)
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
    return bool(getattr(plain(tensor).untyped_storage(), "clframe_pinned", False))
