"""What a model, a policy and a stream of robot tasks may offer besides the necessary.

A model is any ``nn.Module``. What else it can do is declared here, with a default for each part, so
that nobody has to guess names: derive from :class:`Model` or :class:`Policy` and override.
Contracts of other parts are next to what uses them: :class:`clframe.core.learner.Learner`,
:class:`clframe.core.learner_factory.LearnerFactory`, :class:`clframe.recording.logger.RunLogger`
and :class:`clframe.worlds.environment.Environment`.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core.stream import Stream
from clframe.errors import PluginError, SettingError
from clframe.utils.overrides import check_overrides, members

if TYPE_CHECKING:
    from clframe.data.observations import ObservationLayout


class SplitModel(Protocol):
    """A model whose last layer is a module of its own, such as timm's and clframe's classifiers.

    ``forward(x)`` is ``head(features(x))``. Methods that work on features need such a model.
    """

    features: nn.Module
    head: nn.Module


def split_model(model: nn.Module) -> SplitModel | None:
    """Return the model if it has ``features`` and ``head``, else None.

    >>> from clframe.models.mlp import mlp
    >>> split_model(mlp((4,), 2)) is None, split_model(nn.Linear(4, 2)) is None
    (False, True)
    """
    found: Any = model
    return found if hasattr(model, "features") and hasattr(model, "head") else None


def head_of(model: nn.Module) -> nn.Module | None:
    """Return the model's head, None if it has none."""
    head = getattr(model, "head", None)
    return head if isinstance(head, nn.Module) else None


def features_of(model: nn.Module) -> nn.Module | None:
    """Return what comes before a split model's head, None if it is not one module."""
    split = split_model(model)
    return split.features if split is not None and isinstance(split.features, nn.Module) else None


def linear_head(model: nn.Module) -> nn.Linear | None:
    """Return the head of a split model if it is one linear layer, else None."""
    split = split_model(model)
    return split.head if split is not None and isinstance(split.head, nn.Linear) else None


def feature_width(model: nn.Module) -> int | None:
    """Return the length of a split model's features if the model tells it as ``n_features``."""
    width = getattr(model, "n_features", None)
    return width if isinstance(width, int) else None


class Model:
    """What a model may do besides ``forward``. Derive from it and ``nn.Module``.

    Overriding a method with other parameters is refused when the class is made.

    Example:
        >>> import dataclasses, clframe
        >>> class FirstExperienceOnly(clframe.Model, nn.Linear):
        ...     '''Learns the first experience of any stream.'''
        ...
        ...     def prepare_stream(self, stream, device):
        ...         return dataclasses.replace(stream, experiences=stream.experiences[:1])
        >>> stream = FirstExperienceOnly(4, 2).prepare_stream(clframe.stream("split_mnist"), "cpu")
        >>> len(stream)
        1
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_overrides(cls, [base for base in cls.__mro__[1:] if base.__module__ == __name__])

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """Return the stream that this model learns, such as one with features for inputs."""
        return stream


class Policy(Model):
    """A model that acts: what its outputs mean, and what it remembers within an episode.

    The defaults are those of a model whose outputs are the action: it learns by the mean squared
    error and remembers nothing. Any ``nn.Module`` that derives from nothing here is used this way.

    Example:
        >>> class Bang(Policy, nn.Linear):
        ...     '''Acts by the sign of its outputs.'''
        ...
        ...     def action_loss(self, outputs, actions):
        ...         return functional.soft_margin_loss(outputs, actions.sign())
        ...
        ...     def action_of(self, outputs, generator):
        ...         return outputs.sign()
        >>> Bang(4, 2).squared_error
        False
    """

    categorical: ClassVar[bool] = False
    """Whether outputs are logits of choices."""
    clones_outputs: ClassVar[bool] = False
    """Whether labels can be the outputs of another policy, as :meth:`law` gives them."""

    @property
    def acts(self) -> Mapping[str, Any]:
        """How the policy acts, for the results."""
        return {"head": "mse"} if self.squared_error else {}

    @property
    def squared_error(self) -> bool:
        """Whether outputs are actions that are learned by their squared error."""
        return type(self).action_loss is Policy.action_loss

    @property
    def steers(self) -> bool:
        """Whether outputs only steer further layers, so that keeping them keeps no actions."""
        return False

    @property
    def remembers(self) -> bool:
        """Whether the policy remembers its episode while it acts."""
        return type(self).acting is not Policy.acting

    def action_loss(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Return the loss of demonstrated actions, mean over samples."""
        return functional.mse_loss(outputs, actions)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the actions that outputs stand for."""
        return outputs

    def acting(self) -> contextlib.AbstractContextManager[None]:
        """Remember from one call to the next, each of which brings one observation."""
        return contextlib.nullcontext()

    def reset(self, begun: Tensor) -> None:
        """Forget the episodes of those rows of the batch that begin a new one."""

    def law(self, outputs: Tensor) -> Tensor:
        """Return what another policy clones with :meth:`action_loss`."""
        raise PluginError(f"{type(self).__name__} gives no outputs that a policy could clone")

    def single_gaussian(self, outputs: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return means and deviations if outputs are one Gaussian over actions, else None."""
        return None


_PLAIN = Policy()
"""How a model acts that is no :class:`Policy`. No default looks at the model itself."""


def policy_of(model: nn.Module) -> Policy:
    """Return how a model acts: the model itself, or the defaults of :class:`Policy`."""
    return model if isinstance(model, Policy) else _PLAIN


def check_model(model: nn.Module, acts: bool) -> None:
    """Refuse a model with methods of a contract that it does not derive from.

    They would never be called.

    Args:
        model: Any.
        acts: Whether it will act in environments.

    Raises:
        PluginError: Names the method and the class to derive from.
    """
    contract = Policy if acts else Model
    if isinstance(model, contract):
        return
    used = set(members(Model)) if isinstance(model, Model) else set()
    for name in members(contract):
        if name not in used and hasattr(type(model), name):
            kind = type(model)
            raise PluginError(
                f"{kind.__module__}.{kind.__name__} has '{name}' but does not derive from "
                f"clframe.{contract.__name__}, so it would not be used: write "
                f"class {kind.__name__}(clframe.{contract.__name__}, nn.Module)"
            )


@dataclass(frozen=True, eq=False)
class RobotStream(Stream, abc.ABC):
    """A stream of robot tasks, whose inputs can be made in several ways.

    Args:
        discrete: Whether an action is one of ``n_outputs`` choices, instead of that many numbers.
        mask: Which numbers of an input are 1 for a choice that is possible now and 0 for another;
            None if all are always possible.
    """

    discrete: bool = False
    mask: slice | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_overrides(cls, [RobotStream], inherited=False)

    def __new__(cls, *arguments: Any, **settings: Any) -> Self:
        """Refuse a class that leaves methods out.

        Raises:
            PluginError: Names the class and the methods.
        """
        missing = ", ".join(f"'{name}'" for name in sorted(cls.__abstractmethods__))
        if missing:
            raise PluginError(f"{cls.__module__}.{cls.__name__} has no {missing}")
        return super().__new__(cls)

    @property
    @abc.abstractmethod
    def layout(self) -> ObservationLayout:
        """What its sequences are made of."""

    @abc.abstractmethod
    def sequences(
        self, window: int, chunk: int = 1, encode: Callable[..., Any] | None = None
    ) -> Self:
        """Return the stream for a policy that reads sequences of ``window`` steps."""

    @abc.abstractmethod
    def with_chunks(self, chunk: int) -> Self:
        """Return the stream with the next ``chunk`` actions as labels."""

    @abc.abstractmethod
    def with_task_code(self) -> Self:
        """Return the stream whose inputs end with the one-hot code of the task's index."""


def robot_stream(stream: Stream | None, setting: str) -> RobotStream:
    """Return a stream of robot tasks.

    Raises:
        SettingError: It is another kind of stream; names the setting that needs it.
    """
    if isinstance(stream, RobotStream):
        return stream
    given = "none is given" if stream is None else f"'{stream.name}' is not"
    raise SettingError(f"{setting} needs a stream of robot tasks, which {given}")
