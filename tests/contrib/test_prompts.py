"""L2P, DualPrompt and CODA-Prompt against calculations by hand and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from clframe_contrib.coda_prompt import CODAPrompt, CodaViT, orthogonality, orthonormal, weighted
from clframe_contrib.dualprompt import DualPrompt, DualViT
from clframe_contrib.l2p import L2P, PoolViT
from torch import Tensor

from clframe import PluginError, SettingError
from clframe.models.vit_tiny import make_vit
from clframe.plugins import Replay
from clframe.testing import check_plugin, prepare, prepare_toy, toy_run, toy_stream

SMALL: dict[str, Any] = {"general": (0,), "expert": (1,), "general_length": 2, "expert_length": 3}


def vit() -> Any:
    torch.manual_seed(0)
    return make_vit((1, 8, 8), patch=4, width=16, depth=2, heads=2).eval()


def images(n: int = 4) -> Tensor:
    return torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "plugin",
    [
        L2P(pool=4, length=2, top=2),
        DualPrompt(**SMALL),
        CODAPrompt(components=2, length=4, blocks=(0, 1)),
    ],
    ids=lambda plugin: plugin.name,
)
def test_keeps_the_contract_and_the_network(plugin: Any) -> None:
    check_plugin(plugin)
    stream = toy_stream("class", samples=10)
    built = prepare_toy([plugin], stream)
    before = {n: p.clone() for n, p in built.learner.model.named_parameters() if "head" not in n}
    from clframe.testing import run_built

    run_built(built)
    inner = dict(plugin._vit.vit.named_parameters())
    assert len(inner) == len(before)
    for name, value in inner.items():
        assert torch.equal(value, before[f"features.1.{name}"]), name


# ---------------------------------------------------------------- L2P


def test_the_query_is_the_class_token_of_the_network_without_prompts() -> None:
    network = vit()
    prompted = PoolViT(network, 5, 2, 3, average=True)
    tokens = prompted.embed(images())
    assert torch.allclose(prompted.query(tokens), network.forward_features(images())[:, 0])


@pytest.mark.parametrize("average", [True, False])
def test_l2p_by_hand(average: bool) -> None:
    prompted = PoolViT(vit(), 5, 2, 3, average=average).eval()
    x = images()
    features = prompted(x)
    with torch.no_grad():
        tokens = prompted.embed(x)
        queries = prompted.query(tokens).double().numpy()
    keys = prompted.keys.detach().double().numpy()
    total = 0.0
    for n, query in enumerate(queries):
        cosines = keys @ query / (np.linalg.norm(keys, axis=1) * np.linalg.norm(query))
        nearest = np.argsort(-cosines)[:3]
        total += (1 - cosines[nearest]).sum()
        chosen = torch.cat([prompted.prompts[int(k)] for k in nearest])
        sequence = torch.cat([chosen, tokens[n]])[None]
        seen = prompted.vit.norm(prompted.vit.blocks(sequence))[0]
        expected = seen[:6].mean(0) if average else seen[6]
        assert torch.allclose(features[n], expected, atol=1e-5)
    assert prompted.trace.values["distance"].item() == pytest.approx(total / len(queries), abs=1e-5)


def test_only_chosen_keys_are_pulled_and_the_network_gets_no_gradient() -> None:
    prompted = PoolViT(vit().requires_grad_(False), 5, 2, 1, average=True)
    prompted(images(1))
    prompted.trace.values["distance"].backward()
    assert prompted.keys.grad is not None
    chosen = prompted.choose(prompted.query(prompted.embed(images(1))))[0]
    moved = prompted.keys.grad.abs().sum(1) > 0
    assert moved.nonzero().flatten().tolist() == chosen.flatten().tolist()
    assert all(p.grad is None for p in prompted.vit.parameters())


# ---------------------------------------------------------------- DualPrompt


def test_dualprompt_chooses_the_nearest_learned_task() -> None:
    prompted = DualViT(vit(), (0,), (1,), 2, 3, slots=3).eval()
    x = images()
    query = prompted.query(prompted.embed(x))
    with torch.no_grad():
        prompted.keys[2].copy_(query[0])
        prompted.keys[0].copy_(-query[0])
    prompted.learned[:2] = True
    assert prompted.choose(query)[0] == 1  # the nearest key is of a task that is not learned yet
    prompted.learned[2] = True
    assert prompted.choose(query)[0] == 2


def test_dualprompt_puts_prefixes_into_their_blocks() -> None:
    from clframe.models.tuning.vit import attend

    prompted = DualViT(vit(), (0,), (1,), 2, 3, slots=2).train()
    x = images(2)
    prompted.slot = 1
    features = prompted(x)
    tokens = prompted.embed(x)
    for block, prefix in zip(
        prompted.vit.blocks, (prompted.general[0], prompted.experts[1][0]), strict=True
    ):
        both = prefix.expand(2, -1, -1, -1)
        tokens = tokens + attend(block.attn, block.norm1(tokens), both[:, 0], both[:, 1])
        tokens = tokens + block.mlp(block.norm2(tokens))
    assert torch.allclose(features, prompted.vit.norm(tokens)[:, 0], atol=1e-5)
    query = prompted.query(prompted.embed(x))
    cosine = (query @ prompted.keys[1]) / (query.norm(dim=1) * prompted.keys[1].norm())
    assert torch.allclose(prompted.trace.values["distance"], (1 - cosine).mean(), atol=1e-6)
    features.sum().backward()
    assert prompted.experts[0].grad is None  # another task's


def test_replayed_samples_train_the_prompts_of_their_own_tasks() -> None:
    plugin = DualPrompt(transfer=False, **SMALL)
    toy_run([plugin, Replay(size=20)], toy_stream("class", samples=10), max_epochs=1)
    assert plugin._vit.slots_of_samples is not None
    alone = DualPrompt(transfer=False, **SMALL)
    _, learner = toy_run([alone], toy_stream("class", samples=10), max_epochs=1)
    assert alone._vit.slots_of_samples is None
    assert learner.stream.scenario == "class"


# ---------------------------------------------------------------- CODA-Prompt


def test_coda_weights_and_orthogonality_in_numpy() -> None:
    generator = torch.Generator().manual_seed(0)
    query, p, k, a = (
        torch.randn(shape, generator=generator) for shape in ((3, 7), (4, 2, 7), (4, 7), (4, 7))
    )
    q, pn, kn, an = (tensor.double().numpy() for tensor in (query, p, k, a))
    expected = np.zeros((3, 2, 7))
    for n in range(3):
        for m in range(4):
            attended = q[n] * an[m]
            norms = np.linalg.norm(attended) * np.linalg.norm(kn[m])
            expected[n] += (attended @ kn[m] / norms) * pn[m]
    assert np.allclose(weighted(query, p, k, a).numpy(), expected, atol=1e-5)
    gram = kn @ kn.T - np.eye(4)
    assert float(orthogonality(k)) == pytest.approx((gram**2).mean(), rel=1e-5)
    new = orthonormal(k[:2], k[2:])
    assert torch.allclose(new @ new.T, torch.eye(2), atol=1e-5)
    assert float((new @ k[2:].T).abs().max()) < 1e-5
    assert float(orthogonality(new)) < 1e-10


def test_components_of_earlier_tasks_stay() -> None:
    prompted = CodaViT(vit(), (0, 1), each=2, length=4, slots=2).eval()
    plain = prompted.vit(images())
    assert torch.allclose(prompted(images()), plain, atol=1e-6)  # before any task
    for prompt in prompted.prompts:
        prompt.begin(0, [])  # type: ignore[operator]
        prompt.begin(1, [0])  # type: ignore[operator]
    prompted.known, prompted.trained = [0, 1], 1
    prompted(images()).square().sum().backward()
    for prompt in prompted.prompts:
        for part in ("components", "keys", "attention"):
            first, second = getattr(prompt, part)
            assert first.grad is None
            assert float(second.grad.abs().sum()) > 0


# ---------------------------------------------------------------- what cannot be


def test_refusals() -> None:
    for plugin in (L2P(), DualPrompt(), CODAPrompt()):
        built = prepare(toy_stream("class"), [plugin], {"name": "mlp", "hidden": [4]})
        with pytest.raises(PluginError, match=f"'{plugin.name}' needs a timm vision transformer"):
            plugin.configure(built.learner, built.stream)
    with pytest.raises(SettingError, match=r"l2p.top=5 is larger"):
        L2P(pool=3)
    with pytest.raises(SettingError, match="both name block 1"):
        DualPrompt(general=(0, 1), expert=(1,))
    with pytest.raises(SettingError, match="must be even"):
        CODAPrompt(length=3)
    built = prepare_toy([DualPrompt()], toy_stream("class"))
    with pytest.raises(
        SettingError, match="expert names block 2, but this network has blocks 0 to 1"
    ):
        built.learner.plugins.ordered[0].configure(built.learner, built.stream)  # type: ignore[attr-defined]
    built = prepare_toy([CODAPrompt(blocks=(0,))], toy_stream("class"))
    with pytest.raises(SettingError, match="only 16 can be orthogonal in this network: set 5"):
        built.learner.plugins.ordered[0].configure(built.learner, built.stream)  # type: ignore[attr-defined]
