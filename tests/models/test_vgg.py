from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from clframe.errors import SettingError
from clframe.models.vgg import vgg


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_parameters_are_those_of_the_paper() -> None:
    # Weights 9 * in * out and a bias per output, scale and shift of batch normalization; then the
    # three fully connected layers, by hand.
    widths = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    convolutions = sum(9 * a * b + b + 2 * b for a, b in itertools.pairwise(widths))
    dense = 512 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 121 + 121
    assert count(vgg((3, 50, 50), 121)) == convolutions + dense == 34_101_433


def test_convolutions_are_those_of_torchvision() -> None:
    torchvision = pytest.importorskip("torchvision")
    theirs = [m for m in torchvision.models.vgg16_bn().features if not list(m.children())]
    ours = list(vgg((3, 32, 32), 10, hidden=(8,)).features)[: len(theirs)]
    assert [type(m) for m in ours] == [type(m) for m in theirs]
    convolution = [tuple(p.shape) for m in ours for p in m.parameters()]
    assert convolution == [tuple(p.shape) for m in theirs for p in m.parameters()]
    # The same weights give the same maps.
    body, other = nn.Sequential(*ours).eval(), nn.Sequential(*theirs).eval()
    body.load_state_dict(other.state_dict())
    x = torch.rand(1, 3, 50, 50)
    with torch.no_grad():
        assert body(x).shape == (1, 512, 1, 1)
        assert torch.equal(body(x), other(x))


@pytest.mark.parametrize("shape", [(3, 32, 32), (4, 64, 64), (1, 40, 96)])
def test_it_takes_images_from_32_pixels_up(shape: tuple[int, ...]) -> None:
    model = vgg(shape, 5, hidden=(16, 16))
    assert model(torch.rand(2, *shape)).shape == (2, 5)
    assert model.head.in_features == 16


def test_what_it_does_not_take_is_refused() -> None:
    with pytest.raises(SettingError, match="at least 32 pixels a side, got \\(3, 31, 40\\)"):
        vgg((3, 31, 40), 5)
    with pytest.raises(SettingError, match="below 1, got 1"):
        vgg((3, 32, 32), 5, dropout=1.0)
