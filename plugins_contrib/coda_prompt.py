"""CODA-Prompt: prefixes that are weighted sums of components, weighted by attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import SettingError, hookimpl
from clframe.models.tuning.vit import PromptedViT, find_vit
from clframe.utils.setting_checks import check_at_least

from ._tuner import Compete, Tuner

if TYPE_CHECKING:
    from clframe import Experience, Learner, Stream

PARTS = ("components", "keys", "attention")


class Components(nn.Module):
    """The components of one block, their keys and attention vectors, by the task that learns them.

    Args:
        each: Components of a task.
        length: Tokens of a component; the first half become keys, the second values.
        width: Width of a token.
        slots: Number of tasks.
    """

    def __init__(self, each: int, length: int, width: int, slots: int) -> None:
        super().__init__()

        def parameters(*shape: int) -> nn.ParameterList:
            return nn.ParameterList(torch.empty(each, *shape).uniform_() for _ in range(slots))

        self.components = parameters(length, width)
        self.keys = parameters(width)
        self.attention = parameters(width)

    def known(self, name: str, slots: Sequence[int], trained: int | None) -> Tensor:
        """Return one of the three tensors for several tasks; at most one gets a gradient."""
        values: Any = getattr(self, name)
        return torch.cat([values[s] if s == trained else values[s].detach() for s in slots])

    def forward(self, query: Tensor, slots: Sequence[int], trained: int | None) -> Tensor:
        """Return prompts ``[n, length, width]``: sums of components weighted by cosines."""
        tensors = [self.known(name, slots, trained) for name in PARTS]
        return weighted(query, *tensors)

    def orthogonality(self, slots: Sequence[int], trained: int) -> Tensor:
        """Return how far the rows of each of the three are from orthonormal."""
        tensors = [self.known(name, slots, trained).flatten(1) for name in PARTS]
        return torch.stack([orthogonality(rows) for rows in tensors]).sum()

    @torch.no_grad()
    def begin(self, slot: int, before: Sequence[int]) -> None:
        """Make the rows of a task orthonormal, and orthogonal to those of earlier tasks."""
        for name in PARTS:
            values: Any = getattr(self, name)
            old = [values[s].flatten(1) for s in before]
            new = values[slot]
            new.copy_(orthonormal(new.flatten(1), torch.cat(old) if old else None).view_as(new))


def weighted(query: Tensor, components: Tensor, keys: Tensor, attention: Tensor) -> Tensor:
    """Return ``sum_m cos(q * A_m, K_m) P_m`` for each query, Eqs. 3 to 5 of the paper."""
    attended = functional.normalize(query[:, None] * attention, dim=2)
    weights = (attended * functional.normalize(keys, dim=1)).sum(2)
    return torch.einsum("nm,mlw->nlw", weights, components)


def orthogonality(rows: Tensor) -> Tensor:
    """Return the mean square difference of ``B B^T`` and the identity."""
    identity = torch.eye(len(rows), device=rows.device, dtype=rows.dtype)
    return (rows @ rows.T - identity).square().mean()


def orthonormal(rows: Tensor, others: Tensor | None) -> Tensor:
    """Return orthonormal rows for the part of these rows outside the span of the others."""
    columns = rows.T.double()
    if others is not None:
        basis = torch.linalg.qr(others.T.double()).Q
        columns = columns - basis @ (basis.T @ columns)
    made: Tensor = torch.linalg.qr(columns).Q.T.to(rows.dtype)
    return made


class CodaViT(PromptedViT):
    """A frozen vision transformer with weighted prefixes in some blocks.

    Args:
        vit: The network.
        blocks: Blocks with prompts.
        each: Components of a task.
        length: Tokens of a component.
        slots: Number of tasks.
    """

    def __init__(self, vit: Any, blocks: Sequence[int], each: int, length: int, slots: int) -> None:
        super().__init__(vit)
        self.blocks = tuple(blocks)
        self.half_length = length // 2
        self.prompts = nn.ModuleList(
            Components(each, length, self.width, slots) for _ in self.blocks
        )
        self.known: list[int] = []
        """The tasks whose components are used."""
        self.trained: int | None = None
        """The task whose components are learned."""

    def forward(self, x: Tensor) -> Tensor:
        """Return features of images."""
        tokens = self.embed(x)
        prefixes = {}
        if self.known:
            query = self.query(tokens)
            for block, prompt in zip(self.blocks, self.prompts, strict=True):
                made = prompt(query, self.known, self.trained)
                prefixes[block] = (made[:, : self.half_length], made[:, self.half_length :])
        features: Tensor = self.vit.fc_norm(self.run(tokens, prefixes)[:, 0])
        return features


class CODAPrompt(Tuner):
    """CODA-Prompt: components of prompts, summed with attention weights of the query.

    Smith et al. (2023): in each of the first blocks the prompt is p = sum_m a_m P_m with
    a_m = cos(q(x) * A_m, K_m) (Eqs. 3 to 5; q(x) is the class token's output of the frozen
    network), and is split into a prefix of keys and one of values. Every task adds components,
    those of earlier tasks stay fixed (section 4.2). The loss is

        cross-entropy + ortho * sum over blocks and B in {P, K, A} of |B B^T - I|^2    (Eqs. 6, 7)

    with the mean over the matrix's entries, as in the authors' program. New components begin
    orthonormal and orthogonal to the old ones.

    Args:
        components: Components of each task (the paper has 100 over the stream).
        length: Tokens of a component, half of them for keys.
        blocks: Blocks with prompts, counted from 0.
        ortho: Weight of the penalty (lambda; the paper has 0.1).
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task, as in the authors'
            program.

    Example:
        ``clframe fit strategy=coda_prompt model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.coda_prompt import CODAPrompt
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [CODAPrompt(blocks=(0, 1))], model="vit_tiny").strategy
        'coda_prompt'
    """

    name = "coda_prompt"
    paper = (
        "Smith et al., CODA-Prompt: COntinual Decomposed Attention-based Prompting for "
        "Rehearsal-Free Continual Learning, 2023"
    )
    capabilities = replace(Tuner.capabilities, needs_tokens=True)
    state = ("known",)

    def __init__(
        self,
        components: int = 10,
        length: int = 8,
        blocks: tuple[int, ...] = (0, 1, 2, 3, 4),
        ortho: float = 0.1,
        compete: Compete = "own",
    ) -> None:
        super().__init__(compete)
        self.components, self.length, self.blocks = components, length, tuple(blocks)
        self.ortho = ortho
        check_at_least(self, self.name, components=1, length=2, ortho=0)
        if length % 2:
            raise SettingError(f"coda_prompt.length must be even, got {length}")
        if not self.blocks:
            raise SettingError("coda_prompt.blocks is empty: name at least one block")

    def insert(self, learner: Learner, stream: Stream) -> list[Tensor]:
        """Insert all components."""
        parent, child, vit = find_vit(learner.model, self.name)
        outside = [block for block in self.blocks if not 0 <= block < len(vit.blocks)]
        if outside:
            raise SettingError(
                f"coda_prompt.blocks names block {outside[0]}, but this network has blocks 0 to "
                f"{len(vit.blocks) - 1}"
            )
        total = self.components * len(self.slots)
        if total > vit.embed_dim:
            raise SettingError(
                f"coda_prompt.components={self.components} for each of {len(self.slots)} tasks are "
                f"{total} keys, but only {vit.embed_dim} can be orthogonal in this network: set "
                f"{vit.embed_dim // len(self.slots)} at most"
            )
        self._vit = CodaViT(vit, self.blocks, self.components, self.length, len(self.slots))
        setattr(parent, child, self._vit)
        return []

    @property
    def known(self) -> list[int]:
        """The tasks whose components are used."""
        return self._vit.known

    @known.setter
    def known(self, slots: list[int]) -> None:
        self._vit.known = list(slots)

    def _known(self, learner: Learner) -> list[int]:
        return list(dict.fromkeys(self.slots.of(past) for past in learner.seen))

    # After plugins that copy the model as a teacher, which must not include this task.
    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Initialize the components of this task."""
        slot, before = self.slots.of(experience), self._known(learner)
        self._vit.trained = slot
        self._vit.known = before
        if slot not in before:
            for prompt in self._vit.prompts:
                prompt.begin(slot, before)  # type: ignore[operator]
            self._vit.known = [*before, slot]

    @hookimpl
    def penalty(self) -> Tensor:
        """Return the penalty that keeps components, keys and attention vectors orthonormal."""
        vit = self._vit
        of_blocks = [p.orthogonality(vit.known, vit.trained) for p in vit.prompts]  # type: ignore[operator]
        return self.ortho * torch.stack(of_blocks).sum()
