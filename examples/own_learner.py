"""Your own learner: a classifier with the focal loss.

clframe fit plugin_path=examples/own_learner.py learner=focal learner.gamma=1 strategy=replay
python examples/own_learner.py
"""

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

import clframe
from clframe import Batch, Learner, LearnerFactory, Registry, SettingError, Stream, hookimpl


class FocalLearner(Learner):
    """Learns by the focal loss (Lin et al., 2017), which gives easy samples less weight.

    Args:
        gamma: How much less; 0 is the cross-entropy.
    """

    def __init__(self, *arguments: Any, gamma: float, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.gamma = gamma

    def task_loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the loss of the logits that compete, mean over samples."""
        log_p = functional.log_softmax(outputs, 1).gather(1, batch.y[:, None])
        return -((1 - log_p.exp()) ** self.gamma * log_p).mean()


class Focal(LearnerFactory):
    """Classification by the focal loss.

    Args:
        gamma: How much less weight easy samples get; 0 is the cross-entropy.
    """

    def __init__(self, gamma: float = 2.0) -> None:
        if gamma < 0:
            raise SettingError(f"learner.gamma={gamma} must be at least 0")
        self.gamma = gamma

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Any) -> Stream:
        """Reject streams without classes, such as robot streams."""
        if stream.learner is not None:
            raise SettingError(f"learner=focal needs classes, which '{stream.name}' does not have")
        return stream

    def learner_class(self, stream: Stream) -> Callable[..., Learner]:
        """Return the constructor of the learner, with ``clframe.Learner``'s arguments."""
        return functools.partial(FocalLearner, gamma=self.gamma)


@hookimpl
def register(registry: Registry) -> None:
    """Register the learner."""
    registry.add("learner", "focal", Focal)


def main(max_epochs: int = 2) -> dict[float, float]:
    """Train with several values of gamma."""
    accuracy = {}
    short = {"max_epochs": max_epochs, "run_dir": False, "progress": False}
    for gamma in (0.0, 1.0, 4.0):
        learner = {"name": "focal", "gamma": gamma}
        result = clframe.fit("split_mnist", "er", learner=learner, plugin_path=__file__, **short)
        accuracy[gamma] = result.metrics["gem"]["acc"]
        print(f"gamma {gamma}: {accuracy[gamma]:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
