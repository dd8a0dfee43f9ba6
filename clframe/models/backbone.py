"""Any timm backbone by name, as features before our head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.errors import ClframeError, SettingError, nearest
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier
from clframe.models.depth import COLORS, Normalize, add_stem, widen
from clframe.models.pretrained import PACKAGED, load_packaged
from clframe.models.weights import put_weights
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry

DepthMode = Literal["channel", "separate"]


def is_backbone(name: str) -> bool:
    """Return whether timm has a model of that name."""
    import timm

    return name in timm.list_models()


class Resize(nn.Module):
    """Scales images to a fixed side.

    Args:
        side: The side in pixels.
    """

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled images."""
        sides = (self.side, self.side)
        return functional.interpolate(x, sides, mode="bilinear", antialias=True)


def make_body(
    name: str,
    input_shape: tuple[int, ...],
    pretrained: bool,
    depth_stem: DepthMode = "channel",
    weights: str | None = None,
) -> tuple[nn.Module, int]:
    """Return a timm network without its head, and its number of features.

    Args:
        name: timm's name of the network.
        input_shape: Channels, height and width.
        pretrained: Load weights, and normalize inputs in 0..1 as these weights expect.
        depth_stem: How to use a fourth channel; see :func:`backbone`.
        weights: A file of weights to load instead; inputs are then normalized too.
    """
    import timm

    if weights is not None and pretrained:
        raise SettingError("model.weights and model.pretrained=true both load weights; remove one")

    if not is_backbone(name):
        raise SettingError(
            f"model.backbone: timm has no model '{name}'; "
            f"{nearest(name, timm.list_models()).split(', ')[0]}"
        )
    if len(input_shape) != 3:
        raise SettingError(
            f"model '{name}' needs images (channels, height, width), got {input_shape}"
        )
    with_depth = input_shape[0] == COLORS + 1
    if depth_stem == "separate" and not with_depth:
        raise SettingError(
            "model.depth_stem=separate needs inputs of four channels, colors and depth, got "
            f"{tuple(input_shape)}"
        )
    # timm spreads weights over four channels; our adaptation keeps the colors' weights.
    special = with_depth and (pretrained or depth_stem == "separate")
    try:
        body = _create(name, COLORS if special else input_shape[0], input_shape[1:], pretrained)
        if special:
            (widen if depth_stem == "channel" else add_stem)(body, name)
        if weights is not None:
            put_weights(body, weights)
        if pretrained or weights is not None:
            body = nn.Sequential(_normalize(body, name, input_shape[0]), body)
    except ClframeError:
        raise
    except Exception as error:
        which = f"model '{name}' " + ("with pretrained weights " if pretrained else "")
        own = "; download a file of weights and set model.weights to it" if pretrained else ""
        raise SettingError(
            f"cannot create {which}for inputs of shape {input_shape}: {_line(error)}{own}"
        ) from error
    try:
        with torch.no_grad():
            body.eval()
            width = body(torch.zeros(1, *input_shape)).shape[1]
            body.train()
    except Exception as error:
        raise SettingError(
            f"model '{name}' does not accept inputs of shape {input_shape}: {_line(error)}"
        ) from error
    return body, width


def _create(name: str, channels: int, size: tuple[int, ...], pretrained: bool) -> nn.Module:
    import timm

    packaged = pretrained and name in PACKAGED
    options: dict[str, Any] = {"in_chans": channels, "pretrained": pretrained, "num_classes": 0}
    if packaged and channels == COLORS:
        options.update(pretrained=False, num_classes=1000)
    elif packaged:
        raise SettingError(
            f"the packaged weights of '{name}' need images of three channels, or four with depth, "
            f"got {channels}; set model.pretrained=false"
        )
    try:
        body: nn.Module = timm.create_model(name, img_size=size, **options)
    except TypeError:  # most convolutional networks accept any size and lack this argument
        body = timm.create_model(name, **options)
    if packaged:
        load_packaged(body, name)
        body.reset_classifier(0)  # type: ignore[operator]
    return body


def _normalize(body: nn.Module, name: str, channels: int) -> Normalize:
    if name in PACKAGED:
        return Normalize(channels, PACKAGED[name].mean, PACKAGED[name].std)
    config: Any = body.pretrained_cfg
    return Normalize(channels, tuple(config["mean"]), tuple(config["std"]))


def _line(error: Exception) -> str:
    """Return the first line of a library's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def backbone(
    input_shape: tuple[int, ...],
    n_outputs: int,
    backbone: str = "resnet18",
    pretrained: bool = False,
    depth_stem: DepthMode = "channel",
    weights: str | None = None,
    size: int | None = None,
) -> Classifier:
    """A timm backbone by name, with a new head (``model=resnet18`` is short for it).

    Args:
        input_shape: Channels, height and width; any number of channels.
        n_outputs: Output units.
        backbone: timm's name of the backbone.
        pretrained: Load pretrained weights: for tf_efficientnet_lite0 from an installed package
            (the extra ``pretrained``), otherwise timm's, from the network or timm's cache. Inputs
            in 0..1 are then normalized as the weights expect.
        depth_stem: For inputs of colors and depth: a fourth ``channel`` of the first convolution
            (with pretrained weights, colors keep theirs and depth gets their mean), or a
            ``separate`` first layer for depth, whose output is added to that of the colors.
        weights: A file of weights of this backbone with timm's names: safetensors, or a file that
            ``torch.load(weights_only=True)`` reads. Inputs are normalized as for timm's own.
        size: Scale images to this side first; None does not scale them.
    """
    at_least(size, 1, "model.size")
    shape = input_shape
    if size is not None and len(input_shape) == 3:
        shape = (input_shape[0], size, size)
    body, width = make_body(backbone, shape, pretrained, depth_stem, weights)
    if size is not None:
        body = nn.Sequential(Resize(size), body)
    return Classifier(body, width, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Register the model."""
    registry.add("model", "timm", backbone)
