"""What an environment may offer besides Gymnasium's ``reset`` and ``step``, with defaults."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.utils.overrides import check_overrides

RATE = 20.0
"""Steps a second of an environment that does not tell."""


class Environment:
    """An environment that a policy acts in.

    ``info["success"]`` of a step says whether the goal holds now, and ``reset(seed=...)`` starts
    the same episode for the same seed. An observation is an array or a dictionary of arrays.
    Derive from it, or from ``gymnasium.Env`` and it, in this order. Other objects with ``reset``
    and ``step`` work as well (:func:`as_environment`).
    """

    observation_space: Any = None
    action_space: Any = None
    render_mode: str | None = None
    video_cameras: tuple[str, ...] = ()
    """Cameras of videos, the most important one first; see :meth:`image`."""
    rate: float = RATE
    """Steps a second."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_overrides(cls, [Environment])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        raise NotImplementedError

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action (a vector, or a choice): observation, reward, terminated, truncated, info.

        If another action was done than the given one, ``info["executed"]`` is that (float32).
        """
        raise NotImplementedError

    def measures(self) -> dict[str, float]:
        """Return what else is measured at the end of an episode, by name."""
        return {}

    def simulator_state(self) -> NDArray[np.float64] | None:
        """Return the simulator's whole state, for demonstrations; None if it cannot be read."""
        return None

    def model_file(self) -> str | None:
        """Return the simulated world as MuJoCo XML; None if there is none."""
        return None

    def render(self) -> NDArray[np.uint8] | None:
        """Return an image for people if ``render_mode`` is ``rgb_array``, else None."""
        return None

    def image(self, camera: str, size: int) -> NDArray[np.uint8]:
        """Return what one of ``video_cameras`` sees now, ``size`` pixels a side."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what the environment holds."""

    @property
    def innermost(self) -> Any:
        """The environment as it was made, for experts that know its class."""
        return self


class WrappedEnvironment(Environment):
    """An environment around another one, which it forwards to.

    Args:
        environment: The inner one.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.observation_space = environment.observation_space
        self.action_space = environment.action_space
        self.video_cameras = environment.video_cameras
        self.rate = environment.rate

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        return self.environment.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action."""
        return self.environment.step(action)

    def measures(self) -> dict[str, float]:
        """What the inner environment measures."""
        return self.environment.measures()

    def simulator_state(self) -> NDArray[np.float64] | None:
        """The inner environment's state."""
        return self.environment.simulator_state()

    def model_file(self) -> str | None:
        """The inner environment's world."""
        return self.environment.model_file()

    def render(self) -> NDArray[np.uint8] | None:
        """The inner environment's image."""
        return self.environment.render()

    def image(self, camera: str, size: int) -> NDArray[np.uint8]:
        """What a camera of the inner environment sees."""
        return self.environment.image(camera, size)

    def close(self) -> None:
        """Close the inner environment."""
        self.environment.close()

    @property
    def innermost(self) -> Any:
        """The innermost environment."""
        return self.environment.innermost


_OPTIONAL = (
    *("measures", "simulator_state", "model_file", "render", "image", "close"),
    *("observation_space", "action_space", "video_cameras", "rate", "metadata"),
)


class ForeignEnvironment(Environment):
    """An environment with ``reset`` and ``step`` that derives from nothing here.

    What else it has under the names of :class:`Environment` is used as well.

    Args:
        environment: The environment.
    """

    metadata: Any = None
    """Gymnasium's own, with the frames a second of videos."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        for name in _OPTIONAL:
            if hasattr(environment, name):
                setattr(self, name, getattr(environment, name))
        rate = self.metadata.get("render_fps") if isinstance(self.metadata, Mapping) else None
        self.rate = float(rate) if rate and rate > 0 else self.rate

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; an environment without options is not given any."""
        given = {} if options is None else {"options": options}
        started: tuple[Any, dict[str, Any]] = self.environment.reset(seed=seed, **given)
        return started

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action."""
        done: tuple[Any, Any, bool, bool, dict[str, Any]] = self.environment.step(action)
        return done

    @property
    def render_mode(self) -> str | None:
        """Whether :meth:`render` gives images."""
        mode: str | None = getattr(self.environment, "render_mode", None)
        return mode

    @render_mode.setter
    def render_mode(self, mode: str | None) -> None:
        self.environment.render_mode = mode

    @property
    def innermost(self) -> Any:
        """The environment itself."""
        return self.environment


def as_environment(made: Any) -> Environment:
    """Return an environment with all parts of :class:`Environment`.

    Raises:
        DataError: It is no environment; names the missing or wrong method.
    """
    where = f"{type(made).__module__}.{type(made).__name__}"
    for name in ("reset", "step"):
        if not _has(made, name):
            raise DataError(
                f"{where} is no environment: it has no '{name}'; see Gymnasium's Env or "
                "clframe.worlds.environment.Environment"
            )
    if isinstance(made, Environment):
        return made
    try:
        inspect.signature(made.reset).bind(seed=0)
    except TypeError as error:
        raise DataError(f"{where}.reset must take (seed=...): {error}") from error
    except ValueError:
        pass  # compiled code without a signature
    return ForeignEnvironment(made)


def _has(made: Any, name: str) -> bool:
    """Return whether an object has a method that is more than a base class's placeholder."""
    method = getattr(made, name, None)
    function = getattr(method, "__func__", method)
    home = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    placeholders = ((__name__, f"Environment.{name}"), ("gymnasium.core", f"Env.{name}"))
    return callable(method) and home not in placeholders
