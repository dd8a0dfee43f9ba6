"""FrankaKitchen's sub-tasks as environments that look alike.

Light on purpose: worker processes import it and have no use for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clframe.worlds.gym.environments import Source, create

if TYPE_CHECKING:
    import gymnasium

TASKS = (
    "bottom burner",
    "top burner",
    "light switch",
    "slide cabinet",
    "hinge cabinet",
    "microwave",
    "kettle",
)
"""In the order of Gymnasium-Robotics."""


def make(task: str) -> gymnasium.Env[Any, Any]:
    """The kitchen with one thing to be moved; observations are the robot's and all things' alone.

    What is achieved and asked for has another length in each sub-task, and says nothing within one
    that the observation does not.
    """
    from gymnasium.wrappers import TransformObservation

    inner = create(Source("gymnasium_robotics:FrankaKitchen-v1", {"tasks_to_complete": [task]}))
    space = inner.observation_space["observation"]
    return TransformObservation(inner, lambda seen: seen["observation"], space)
