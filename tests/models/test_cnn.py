from __future__ import annotations

import pytest
import torch
from torch import nn

from clframe.errors import SettingError
from clframe.models.cnn import cnn


@pytest.mark.parametrize("down", ["pool", "stride"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_each_block_halves_the_sides(down, channels) -> None:  # type: ignore[no-untyped-def]
    model = cnn((channels, 64, 64), 10, channels=(8, 16, 24), features=12, down=down)
    maps = [m for m in model.features if isinstance(m, nn.Linear)]
    assert maps[0].in_features == 24 * 8 * 8
    assert model(torch.rand(2, channels, 64, 64)).shape == (2, 10)


def test_group_normalization_treats_each_sample_by_itself() -> None:
    torch.manual_seed(0)
    model = cnn((3, 16, 16), 4, channels=(8, 12), features=6, norm="group")
    assert [m.num_groups for m in model.features if isinstance(m, nn.GroupNorm)] == [8, 4]
    x = torch.rand(3, 3, 16, 16)
    assert torch.allclose(model(x)[:1], model(x[:1]), atol=1e-6)
    assert not list(model.buffers())


def test_batch_normalization_by_either_name() -> None:
    for norm in (True, "batch"):
        model = cnn((3, 16, 16), 4, channels=(8,), norm=norm)
        assert sum(isinstance(m, nn.BatchNorm2d) for m in model.features) == 1


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(SettingError, match="positive odd number, got 4"):
        cnn((3, 16, 16), 4, kernel=4)
