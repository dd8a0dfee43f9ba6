"""EWC and PackNet inside stable-baselines3's SAC and Lightning's Trainer, the real packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Sampler, TensorDataset

import clframe
from clframe.data.sampler import epoch_order
from clframe.plugins import EWC, PackNet, Replay

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


# ---------------------------------------------------------------- stable-baselines3


def make_sac() -> Any:
    sac = pytest.importorskip("stable_baselines3").SAC
    return sac(
        "MlpPolicy",
        "Pendulum-v1",
        policy_kwargs={"net_arch": [16]},
        learning_starts=16,
        batch_size=16,
        buffer_size=500,
        learning_rate=3e-3,
        seed=0,
        device="cpu",
    )


def actor_loss(sac: Any) -> Tensor:
    """SB3's own, on a batch of its replay buffer."""
    observations = sac.replay_buffer.sample(32).observations
    actions, log_probability = sac.actor.action_log_prob(observations)
    q = torch.cat(sac.critic(observations, actions), dim=1).amin(1, keepdim=True)
    loss: Tensor = (sac.log_ent_coef.exp().detach() * log_probability.reshape(-1, 1) - q).mean()
    return loss


def sac_distance(weight: float) -> tuple[float, float]:
    """How far EWC let the actor go in a second experience, weighed by importance and plainly."""
    sac, ewc = make_sac(), EWC(weight=weight, fisher="batch")
    with clframe.attach(sac.actor, sac.actor.optimizer, [ewc]) as cl:
        for name in ("first", "second"):
            if ewc.quadratic:
                old = {k: v.clone() for k, v in ewc.quadratic.anchor.items()}
                strength = {k: v.clone() for k, v in ewc.quadratic.strength.items()}
            with cl.experience(name, importance=lambda: actor_loss(sac), importance_batches=8):
                sac.learn(40, reset_num_timesteps=False)
        assert cl.steps == sac._n_updates
    now = {k: v.detach() for k, v in sac.actor.named_parameters() if k in old}
    weighed = sum(float((strength[k] * (now[k] - old[k]).square()).sum()) for k in old)
    return weighed, sum(float((now[k] - old[k]).square().sum()) for k in old)


def test_ewc_holds_the_actor_of_sac() -> None:
    free, held = sac_distance(0.0), sac_distance(1e5)
    assert held[0] < 0.2 * free[0]
    assert held[1] < 0.5 * free[1]


def test_packnet_freezes_the_actor_of_sac() -> None:
    sac, packnet = make_sac(), PackNet(prune=0.5)
    actor = sac.actor
    observation = torch.tensor([[0.3, -0.2, 0.5]])

    def learn(budget: Any = None) -> None:
        sac.learn(40, reset_num_timesteps=False)

    with clframe.attach(actor, actor.optimizer, [packnet], scenario="task", max_steps=40) as cl:
        with cl.experience("first", retrain=learn):
            learn()
        with cl.task("first"), torch.no_grad():
            answer = actor(observation, deterministic=True)
        owners = {name: owner.clone() for name, owner in packnet.owners.items()}
        before = {name: p.detach().clone() for name, p in actor.named_parameters()}
        with cl.experience("second", retrain=learn):
            learn()
        with cl.task("first"), torch.no_grad():
            assert torch.equal(actor(observation, deterministic=True), answer)
    after = dict(actor.named_parameters())
    moved = 0
    for layer, owner in owners.items():
        name = f"{layer}.weight"
        assert torch.equal(after[name][owner == 1], before[name][owner == 1])
        moved += int((after[name] != before[name])[owner == 0].sum())
    assert moved > 0
    for name, p in after.items():
        if name.endswith("bias"):
            assert torch.equal(p, before[name])


# ---------------------------------------------------------------- Lightning


class Module(LightningModule):
    """What a user of Lightning has.

    Args:
        net: The model.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        # Made once, so that its state lives through several fits.
        self.optimizer = torch.optim.Adam(net.parameters(), lr=0.01, fused=True)

    def training_step(self, batch: Any, number: int) -> Tensor:
        x, y = batch
        return functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer


class Order(Sampler[list[int]]):
    """Clframe's order of an experience's samples, epoch after epoch.

    Args:
        experience: Of the toy stream.
    """

    def __init__(self, experience: Any) -> None:
        self.experience, self.epoch = experience, -1

    def __len__(self) -> int:
        return -(-len(self.experience.data) // 16)

    def __iter__(self) -> Iterator[list[int]]:
        self.epoch += 1
        n = len(self.experience.data)
        order = epoch_order(n, 0, self.experience.index, self.epoch)
        return iter([part.tolist() for part in order.split(16)])


def fit_by_lightning(pair: Any, collate: bool = False) -> nn.Module:
    """The stream, learned by a Trainer per experience with the strategy attached."""
    model, _, cl = pair.attached()
    cl.close()
    module = Module(model)
    settings = {"scenario": pair.stream.scenario, "batch_size": 16, "max_epochs": 2}
    if pair.stream.scenario == "task":
        settings["tasks"] = [task.outputs for task in pair.stream.tasks]
    with clframe.attach(model, module.optimizer, pair.plugins(), **settings) as cl:
        for experience in pair.stream:
            x, y = experience.data.source.to(torch.device("cpu")), experience.data.labels
            function = torch.utils.data.default_collate
            loader = DataLoader(
                TensorDataset(x, y),
                batch_sampler=Order(experience),
                collate_fn=cl.collate(function) if collate else function,
            )
            with cl.experience(experience.name, (x, y)):
                Trainer(max_epochs=2, **QUIET).fit(module, loader)
                cl.learner.state.epoch = 2  # PackNet's second phase goes on in clframe's order
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "scenario"),
    [
        (lambda: [EWC(weight=10.0)], "class"),
        (lambda: [PackNet(post_epochs=1)], "task"),
        (lambda: [Replay(size=20)], "class"),
    ],
    ids=["ewc", "packnet", "replay"],
)
def test_lightnings_trainer_ends_with_the_weights_of_fit(
    attaching: Any, make: Any, scenario: Any
) -> None:
    pair = attaching.Pair(make, scenario)
    model = fit_by_lightning(pair, collate=make()[0].name == "replay")
    assert attaching.equal(model.state_dict(), pair.expected)
