"""Your own model: a small convolutional network with a name and settings.

clframe fit plugin_path=examples/own_model.py model=tiny_conv model.width=8 strategy=replay
python examples/own_model.py
"""

import torch
from torch import Tensor, nn

import clframe
from clframe import Model, Registry, SettingError, Stream, hookimpl


class TinyConv(Model, nn.Module):
    """One convolution and a linear head.

    Args:
        channels: Channels of an image.
        n_outputs: Number of classes.
        width: Channels of the convolution.
    """

    def __init__(self, channels: int, n_outputs: int, width: int) -> None:
        super().__init__()
        self.n_features = 16 * width
        convolution = nn.Conv2d(channels, width, kernel_size=5, stride=2)
        self.features = nn.Sequential(convolution, nn.ReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten())
        self.head = nn.Linear(self.n_features, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit per class."""
        return self.head(self.features(x))

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """Return the stream unchanged, or raise an error if it has no images."""
        if len(stream.input_shape) != 3:
            raise SettingError(f"model=tiny_conv needs images, but '{stream.name}' has none")
        return stream


def tiny_conv(input_shape: tuple[int, ...], n_outputs: int, width: int = 16) -> TinyConv:
    """One convolution and a linear head.

    Args:
        input_shape: The shape of one sample, passed by clframe.
        n_outputs: The number of classes, passed by clframe.
        width: Channels of the convolution.
    """
    return TinyConv(input_shape[0], n_outputs, width)


@hookimpl
def register(registry: Registry) -> None:
    """Register the model."""
    registry.add("model", "tiny_conv", tiny_conv)


def main(max_epochs: int = 3) -> float:
    """Train with the model."""
    model = TinyConv(channels=1, n_outputs=10, width=16)
    short = {"max_epochs": max_epochs, "run_dir": False, "progress": False}
    result = clframe.fit("split_mnist", ["lwf", "replay"], model=model, **short)
    print(result)
    return result.metrics["gem"]["acc"]


if __name__ == "__main__":
    main()
