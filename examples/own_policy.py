"""Your own policy: its actions have a Gaussian distribution.

clframe fit plugin_path=examples/own_policy.py stream=point_robot model=gaussian strategy=replay
python examples/own_policy.py
"""

import math
import tempfile

import torch
from torch import Tensor, nn
from torch.nn import functional

import clframe
from clframe import Policy, Registry, hookimpl


class Gaussian(Policy, nn.Module):
    """Its outputs are the mean and the logarithm of the deviation of each number of an action.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        width: Hidden units.
    """

    def __init__(self, inputs: int, actions: int, width: int) -> None:
        super().__init__()
        layers = (nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.features = nn.Sequential(nn.Flatten(), *layers)
        self.head = nn.Linear(width, 2 * actions)

    @property
    def acts(self) -> dict[str, str]:
        """The description of this policy's actions in ``results.json``."""
        return {"head": "gaussian"}

    def forward(self, x: Tensor) -> Tensor:
        """Return means and logarithms of deviations."""
        return self.head(self.features(x))

    def single_gaussian(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and deviations, from which EWC computes the exact Fisher information."""
        mean, logarithm = outputs.chunk(2, dim=-1)
        return mean, logarithm.clamp(-3, 1).exp()

    def action_loss(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Return the negative log-likelihood of demonstrated actions."""
        mean, deviation = self.single_gaussian(outputs)
        return functional.gaussian_nll_loss(mean, actions, deviation**2)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the mean."""
        return self.single_gaussian(outputs)[0]


def gaussian(input_shape: tuple[int, ...], n_outputs: int, width: int = 128) -> Gaussian:
    """A policy whose actions have a Gaussian distribution.

    Args:
        input_shape: The shape of one observation, passed by clframe.
        n_outputs: The numbers in an action, passed by clframe.
        width: Hidden units.
    """
    return Gaussian(math.prod(input_shape), n_outputs, width)


@hookimpl
def register(registry: Registry) -> None:
    """Register the policy."""
    registry.add("model", "gaussian", gaussian)


def main(max_steps: int = 300, eval_episodes: int = 10) -> float:
    """Learn four tasks from demonstrations."""
    stream = {"name": "point_robot", "eval_episodes": eval_episodes, "num_workers": 0}
    with tempfile.TemporaryDirectory() as folder:  # demonstrations are recorded here
        short = {"max_steps": max_steps, "run_dir": False, "progress": False, "data_dir": folder}
        result = clframe.fit(stream, "er", model="gaussian", plugin_path=__file__, **short)
    print(result)
    return result.metrics["gem"]["acc"]


if __name__ == "__main__":
    main()
