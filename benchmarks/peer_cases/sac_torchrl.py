"""Updates with torchrl's SACLoss, put together as its own script for SAC does, not compiled."""

from __future__ import annotations

from collections.abc import Callable

import torch
from sac_case import ACTIONS, BATCH, GAMMA, INPUTS, RATE, ROWS, TAU, serve
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.tensor_specs import Bounded
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SoftUpdate
from torchrl.objectives.sac import SACLoss


def make(hidden: list[int]) -> Callable[[int], int]:
    """The loss, its optimizers and a filled memory."""
    policy = nn.Sequential(
        MLP(INPUTS, 2 * ACTIONS, num_cells=hidden, activation_class=nn.ReLU),
        NormalParamExtractor(),
    )
    actor = ProbabilisticActor(
        TensorDictModule(policy, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=Bounded(-torch.ones(ACTIONS), torch.ones(ACTIONS)),
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -1.0, "high": 1.0, "tanh_loc": False},
    )
    critic = ValueOperator(
        MLP(INPUTS + ACTIONS, 1, num_cells=hidden, activation_class=nn.ReLU),
        in_keys=["action", "observation"],
    )
    loss = SACLoss(
        actor, critic, num_qvalue_nets=2, loss_function="l2", delay_actor=False, delay_qvalue=True
    )
    loss.make_value_estimator(gamma=GAMMA)
    follow = SoftUpdate(loss, tau=TAU)
    optimizers = [
        torch.optim.Adam(list(part.flatten_keys().values()), RATE)
        for part in (loss.actor_network_params, loss.qvalue_network_params)
    ]
    optimizers.append(torch.optim.Adam([loss.log_alpha], RATE))
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(ROWS), batch_size=BATCH)
    no = torch.zeros(ROWS, 1, dtype=torch.bool)
    following = {
        "observation": torch.randn(ROWS, INPUTS),
        "reward": torch.randn(ROWS, 1),
        **{name: no.clone() for name in ("done", "terminated")},
    }
    content = {
        "observation": torch.randn(ROWS, INPUTS),
        "action": torch.rand(ROWS, ACTIONS) * 2 - 1,
        "next": TensorDict(following, [ROWS]),
    }
    buffer.extend(TensorDict(content, [ROWS]))

    def block(n: int) -> int:
        for _ in range(n):
            found = loss(buffer.sample())
            (found["loss_actor"] + found["loss_qvalue"] + found["loss_alpha"]).backward()
            for optimizer in optimizers:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            follow.step()
        return n

    return block


if __name__ == "__main__":
    serve(make)
