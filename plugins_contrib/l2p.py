"""L2P: prompts that each sample chooses from a pool."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import SettingError, hookimpl
from clframe.models.tuning.vit import PromptedViT, find_vit
from clframe.utils.setting_checks import check_at_least

from ._tuner import Compete, Tuner

if TYPE_CHECKING:
    from clframe import Learner, Stream


class PoolViT(PromptedViT):
    """A frozen vision transformer with prompts of a pool before its tokens.

    Args:
        vit: The network.
        pool: Number of prompts.
        length: Tokens of a prompt.
        top: Prompts per sample.
        average: Whether the features are the mean over the prompts' outputs, or the class
            token's output.
    """

    def __init__(self, vit: Any, pool: int, length: int, top: int, average: bool) -> None:
        super().__init__(vit)
        self.top, self.average = top, average
        self.prompts = nn.Parameter(torch.empty(pool, length, self.width).uniform_(-1, 1))
        self.keys = nn.Parameter(torch.empty(pool, self.width).uniform_(-1, 1))

    def choose(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Return the prompts whose keys are nearest in angle to each query, and the cosines."""
        cosine = functional.normalize(query, dim=1) @ functional.normalize(self.keys, dim=1).T
        return cosine.topk(self.top, dim=1).indices, cosine

    def forward(self, x: Tensor) -> Tensor:
        """Return features of images."""
        tokens = self.embed(x)
        chosen, cosine = self.choose(self.query(tokens))
        self.trace.values["distance"] = (1 - cosine.gather(1, chosen)).sum(1).mean()
        prompts = self.prompts[chosen].flatten(1, 2)
        seen = self.run(torch.cat([prompts, tokens], 1), {})
        n_prompts = prompts.shape[1]
        pooled = seen[:, :n_prompts].mean(1) if self.average else seen[:, n_prompts]
        features: Tensor = self.vit.fc_norm(pooled)
        return features


class L2P(Tuner):
    """L2P: a pool of prompts with keys; each sample uses those with the nearest keys.

    Wang et al. (2022): the query q(x) is the class token's output of the frozen network. The N
    prompts with the smallest cosine distance of key and query (Eq. 3) are put before the tokens.
    The features are the mean over the prompts' outputs (section 4.1). The loss is

        cross-entropy + pull * sum over the N keys of (1 - cos(q(x), key))           (Eq. 5)

    Prompts have no position embedding. Every sample chooses its own, as in the paper. The authors'
    program instead uses the prompts that most of a batch have chosen, in evaluation too, which
    makes outputs depend on the rest of the batch; this is not available here. The optional table of
    frequencies of section 4.2 is left out, as in the program's settings.

    Args:
        pool: Number of prompts (M).
        length: Tokens of a prompt (L_p).
        top: Prompts per sample (N).
        pull: Weight of the keys' term (lambda).
        features: The mean over the ``prompts``' outputs, or the class ``token``'s.
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task, as in the authors'
            program.

    Example:
        ``clframe fit strategy=l2p model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.l2p import L2P
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [L2P(pool=10, top=3)], model="vit_tiny").strategy
        'l2p'
    """

    name = "l2p"
    paper = "Wang et al., Learning to Prompt for Continual Learning, 2022"
    capabilities = replace(Tuner.capabilities, needs_tokens=True)

    def __init__(
        self,
        pool: int = 10,
        length: int = 5,
        top: int = 5,
        pull: float = 0.5,
        features: Literal["prompts", "token"] = "prompts",
        compete: Compete = "own",
    ) -> None:
        super().__init__(compete)
        self.pool, self.length, self.top = pool, length, top
        self.pull, self.features = pull, features
        check_at_least(self, self.name, pool=1, length=1, top=1, pull=0)
        if top > pool:
            raise SettingError(f"l2p.top={top} is larger than l2p.pool={pool}")

    def insert(self, learner: Learner, stream: Stream) -> list[Tensor]:
        """Insert the pool."""
        parent, child, vit = find_vit(learner.model, self.name)
        self._vit = PoolViT(vit, self.pool, self.length, self.top, self.features == "prompts")
        setattr(parent, child, self._vit)
        return []

    @hookimpl
    def penalty(self) -> Tensor:
        """Return the term that pulls the chosen keys to the queries."""
        return self.pull * self._vit.trace.values["distance"]
