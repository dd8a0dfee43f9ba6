"""What is put into frozen networks: nothing changes at first, and the formulas hold."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import PluginError, SettingError
from clframe.models.backbone import backbone
from clframe.models.classifier import Classifier
from clframe.models.mlp import mlp
from clframe.models.tuning import peft_files
from clframe.models.tuning.adapter import put_adapters
from clframe.models.tuning.frozen import DIGEST, tune
from clframe.models.tuning.inserts import activate, inserts_of, put, without_inserts
from clframe.models.tuning.lora import LoRA, linears
from clframe.models.tuning.vit import attend, find_vit
from clframe.models.vit_tiny import WEIGHTS, make_vit, vit_tiny
from clframe.models.weights import put_weights, read_weights

SHAPE = (1, 8, 8)


def small_vit(outputs: int = 4) -> Classifier:
    torch.manual_seed(0)
    return Classifier(make_vit(SHAPE, patch=4, width=16, depth=2, heads=2), 16, outputs).eval()


def images(n: int = 3) -> Tensor:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(1))


def with_lora(model: nn.Module, slots: int = 1, **settings: Any) -> dict[str, nn.Linear]:
    layers = linears(model, None, "lora.targets")
    for layer in layers.values():
        put(layer, LoRA(layer, rank=3, alpha=6.0, slots=slots, **settings))
    return layers


def shake(model: nn.Module) -> None:
    """Give the inserted weights some values."""
    torch.manual_seed(3)
    for insert in inserts_of(model).values():
        for parameter in insert.parameters():
            nn.init.normal_(parameter, std=0.2)


def test_lora_and_adapters_change_nothing_at_first() -> None:
    plain = small_vit()(images())
    model = small_vit()
    with_lora(model)
    assert torch.equal(model(images()), plain)
    for place in ("parallel", "serial"):
        model = small_vit()
        put_adapters(model, "adapter", place, 5, 0.7)  # type: ignore[arg-type]
        assert torch.equal(model(images()), plain)
        shake(model)
        assert not torch.allclose(model(images()), plain, atol=1e-3)
        with without_inserts(model):
            assert torch.equal(model(images()), plain)


def test_lora_is_its_formula_and_merges_into_the_weight() -> None:
    layer = nn.Linear(6, 9)
    x = torch.randn(5, 6)
    plain = layer(x)
    for rows in (None, (3, 9)):
        changed = copy.deepcopy(layer)
        pair = LoRA(changed, rank=2, alpha=5.0, rows=rows)
        put(changed, pair)
        shake(changed)
        start, end = rows or (0, 9)
        a, b = pair.A[0].weight, pair.B[0].weight
        expected = plain.clone()
        expected[:, start:end] += 5.0 / 2 * (x @ a.T @ b.T)  # type: ignore[operator]
        assert torch.allclose(changed(x), expected, atol=1e-5)
        pair.merge_into(changed)
        with without_inserts(changed):
            assert torch.allclose(changed(x), expected, atol=1e-5)


def test_a_merged_network_is_the_unmerged_one() -> None:
    model = small_vit()
    layers = with_lora(model)
    shake(model)
    before = model(images())
    for layer in layers.values():
        layer.insert.merge_into(layer)  # type: ignore[union-attr,operator]
        layer.insert.reset()  # type: ignore[union-attr,operator]
    assert torch.allclose(model(images()), before, atol=1e-5)


def test_each_slot_has_weights_of_its_own() -> None:
    model = small_vit()
    with_lora(model, slots=2)
    plain = model(images())
    shake(model)
    activate(model, 0)
    first = model(images())
    activate(model, 1)
    second = model(images())
    assert not torch.allclose(first, second, atol=1e-3)
    assert not torch.allclose(first, plain, atol=1e-3)
    model(images()).sum().backward()
    for pair in inserts_of(model).values():
        assert pair.A[0].weight.grad is None  # type: ignore[index,union-attr]
        assert pair.A[1].weight.grad is not None  # type: ignore[index,union-attr]


def test_adapters_are_their_formulas() -> None:
    x = torch.randn(2, 5, 16)
    for place in ("parallel", "serial"):
        model = small_vit()
        block = model.features.blocks[0]  # type: ignore[index,union-attr]
        plain = block.mlp(x)  # type: ignore[union-attr,operator]
        put_adapters(model, "adapter", place, 5, 0.7)  # type: ignore[arg-type]
        shake(model)
        adapter: Any = block.mlp.insert  # type: ignore[union-attr]
        down, up = adapter.down[0], adapter.up[0]
        source = x if place == "parallel" else plain
        hidden = source @ down.weight.T + down.bias
        hidden = hidden.clamp(min=0) if place == "parallel" else functional.gelu(hidden)
        expected = plain + 0.7 * (hidden @ up.weight.T + up.bias)
        assert torch.allclose(block.mlp(x), expected, atol=1e-5)  # type: ignore[union-attr,operator]
        assert len(inserts_of(model)) == (2 if place == "parallel" else 4)


def test_copies_of_a_network_have_inserts_of_their_own() -> None:
    model = small_vit()
    with_lora(model)
    shake(model)
    teacher = copy.deepcopy(model)
    before = teacher(images())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(teacher(images()), before)


def test_prefix_attention_by_hand() -> None:
    attention: Any = small_vit().features.blocks[0].attn  # type: ignore[index,union-attr]
    x, keys, values = torch.randn(2, 5, 16), torch.randn(2, 3, 16), torch.randn(2, 3, 16)
    weight, bias = attention.qkv.weight, attention.qkv.bias
    out = torch.zeros(2, 5, 16)
    for n in range(2):
        projected = x[n] @ weight.T + bias
        query, key, value = projected[:, :16], projected[:, 16:32], projected[:, 32:]
        key, value = torch.cat([keys[n], key]), torch.cat([values[n], value])
        for head in range(2):
            part = slice(8 * head, 8 * head + 8)
            shares = (query[:, part] @ key[:, part].T / 8**0.5).softmax(1)
            out[n, :, part] = shares @ value[:, part]
    expected = out @ attention.proj.weight.T + attention.proj.bias
    assert torch.allclose(attend(attention, x, keys, values), expected, atol=1e-5)
    nothing = torch.zeros(2, 0, 16)
    assert torch.allclose(attend(attention, x, nothing, nothing), attention(x), atol=1e-5)


def test_a_saved_state_holds_what_is_trained_and_a_digest() -> None:
    model = small_vit()
    tune(model, lambda: with_lora(model) and [])
    state = model.state_dict()
    assert state[DIGEST].dtype == torch.uint8
    assert all("insert" in name or name.startswith("head.") or name == DIGEST for name in state)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == set(state) - {DIGEST}
    other = small_vit()
    tune(other, lambda: with_lora(other) and [])
    shake(model)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(images()), model(images()))
    with torch.no_grad():
        stranger = small_vit()
        stranger.features.cls_token.add_(1.0)  # type: ignore[union-attr,operator]
    tune(stranger, lambda: with_lora(stranger) and [])
    with pytest.raises(SettingError, match="tuned on other frozen weights"):
        stranger.load_state_dict(model.state_dict())


def test_targets_are_chosen_by_how_names_end() -> None:
    model = small_vit()
    assert len(linears(model, None, "lora.targets")) == 8
    names = list(linears(model, ["qkv", "mlp.fc1"], "lora.targets"))
    assert names == [f"features.blocks.{n}.{k}" for n in (0, 1) for k in ("attn.qkv", "mlp.fc1")]
    with pytest.raises(SettingError, match=r"called 'query'; there are attn.qkv, attn.proj"):
        linears(model, ["query"], "lora.targets")


def test_prompts_need_a_vision_transformer() -> None:
    with pytest.raises(
        PluginError, match=r"'l2p' needs a timm vision transformer.*the model is Classifier"
    ):
        find_vit(mlp((8,), 2), "l2p")
    with pytest.raises(PluginError, match="'adapter' needs transformer blocks for its adapters"):
        put_adapters(mlp((8,), 2), "adapter", "parallel", 4, 1.0)


# ---------------------------------------------------------------- files


def test_the_layout_of_peft_is_read_back_with_equal_outputs(tmp_path: Path) -> None:
    model = small_vit()
    with_lora(model)
    shake(model)
    peft_files.save(model, tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 3, 6.0)
    assert "blocks.0.attn.qkv" in config["target_modules"]
    stored = read_weights(tmp_path / "adapter" / "adapter_model.safetensors")
    # As peft applies it: x A^T B^T alpha / r, on the network without clframe's inserts.
    plain = small_vit()
    with torch.no_grad():
        for name, module in plain.features.named_modules():
            key = f"base_model.model.{name}"
            if f"{key}.lora_A.weight" in stored:
                up, down = stored[f"{key}.lora_B.weight"], stored[f"{key}.lora_A.weight"]
                module.weight += config["lora_alpha"] / config["r"] * up @ down  # type: ignore[operator]
        plain.head.weight.copy_(stored["base_model.model.head.weight"])
        plain.head.bias.copy_(stored["base_model.model.head.bias"])
    assert torch.allclose(plain(images()), model(images()), atol=1e-5)
    again = small_vit()
    with_lora(again)
    peft_files.load(again, tmp_path / "adapter")
    assert torch.equal(again(images()), model(images()))
    other = Classifier(make_vit(SHAPE, patch=4, width=8, depth=2, heads=2), 8, 4)
    with_lora(other)
    with pytest.raises(SettingError, match=r"lora_A.weight' is \[3, 16\] in .* and \[3, 8\] here"):
        peft_files.load(other, tmp_path / "adapter")
    with pytest.raises(SettingError, match=r"has no adapter_config.json"):
        peft_files.load(other, tmp_path)


def test_weights_come_from_a_file(tmp_path: Path) -> None:
    name = "test_vit"  # timm's smallest
    torch.manual_seed(0)
    source = backbone((3, 32, 32), 5, name)
    file = tmp_path / "vit.pt"
    whole = {**source.features.state_dict(), "head.weight": torch.zeros(3, 64)}
    torch.save({"state_dict": whole}, file)
    torch.manual_seed(1)
    model = backbone((3, 32, 32), 5, name, weights=str(file))
    loaded = model.features[1].state_dict()  # type: ignore[index]
    assert all(
        torch.equal(value, loaded[key]) for key, value in source.features.state_dict().items()
    )
    resized = backbone((3, 8, 8), 5, name, weights=str(file), size=32)
    assert resized(torch.rand(2, 3, 8, 8)).shape == (2, 5)
    with pytest.raises(
        SettingError, match=r"'pos_embed' is \[1, \d+, 64\] in .* and \[1, \d+, 64\]"
    ):
        backbone((3, 64, 64), 5, name, weights=str(file))
    with pytest.raises(SettingError, match="both load weights"):
        backbone((3, 32, 32), 5, name, pretrained=True, weights=str(file))


def test_a_file_that_is_something_else_is_one_sentence(tmp_path: Path) -> None:
    network = nn.Linear(2, 3)
    with pytest.raises(SettingError, match="there is no file"):
        put_weights(network, tmp_path / "none.pt")
    for name in ("text.pt", "text.safetensors"):
        (tmp_path / name).write_text("something else")
        with pytest.raises(SettingError, match=r"is neither safetensors|is damaged"):
            put_weights(network, tmp_path / name)
    torch.save({"weight": torch.zeros(3, 2)}, tmp_path / "half.pt")
    with pytest.raises(SettingError, match=r"has no weights 'bias' \(\[3\] here\)"):
        put_weights(network, tmp_path / "half.pt")
    torch.save({**network.state_dict(), "more": torch.zeros(1)}, tmp_path / "more.pt")
    with pytest.raises(SettingError, match="has weights 'more'"):
        put_weights(network, tmp_path / "more.pt")


def test_shipped_weights_are_small_and_fit() -> None:
    assert WEIGHTS.stat().st_size < 1_500_000
    model = vit_tiny((1, 28, 28), 10, weights="fashion")
    stored = read_weights(WEIGHTS)
    assert all(torch.equal(v, stored[k].float()) for k, v in model.features.state_dict().items())
    with pytest.raises(SettingError, match=r"'pos_embed' is \[1, 17, 64\]"):
        vit_tiny((1, 14, 14), 10, weights="fashion")
    with pytest.raises(SettingError, match="must divide"):
        vit_tiny((1, 30, 30), 10)


def test_lora_draws_its_factors_on_the_host_whatever_the_device() -> None:
    """So a run on a GPU starts every merged pair from the same numbers as a run on a CPU."""
    states = []
    for device in ("cpu", "meta"):
        torch.manual_seed(3)
        pair = LoRA(nn.Linear(6, 4), rank=2, alpha=2.0).to(device)
        pair.reset()
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
