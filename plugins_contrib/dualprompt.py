"""DualPrompt: prefixes that all tasks share, and separate prefixes for each task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import SettingError, hookimpl
from clframe.models.tuning.vit import PromptedViT, find_vit
from clframe.utils.setting_checks import check_at_least

from ._tuner import Compete, Tuner, brings_samples

if TYPE_CHECKING:
    from clframe import Experience, Learner, Stream


class DualViT(PromptedViT):
    """A frozen vision transformer with shared prefixes in some blocks, the task's own in others.

    Args:
        vit: The network.
        general: Blocks with the general prefix.
        expert: Blocks with the task's own prefix.
        general_length: Number of keys, and of values, of the general prefix.
        expert_length: The same for a task's own prefix.
        slots: Number of tasks with their own prefix.
    """

    def __init__(
        self,
        vit: Any,
        general: Sequence[int],
        expert: Sequence[int],
        general_length: int,
        expert_length: int,
        slots: int,
    ) -> None:
        super().__init__(vit)
        self.general_blocks, self.expert_blocks = tuple(general), tuple(expert)
        shape = (len(self.general_blocks), 2, general_length, self.width)
        self.general = nn.Parameter(torch.empty(shape).uniform_(-1, 1))
        shape = (len(self.expert_blocks), 2, expert_length, self.width)
        # Separate parameters, so that other tasks' get no gradient and no optimizer moves them.
        self.experts = nn.ParameterList(torch.empty(shape).uniform_(-1, 1) for _ in range(slots))
        self.keys = nn.ParameterList(torch.empty(self.width).uniform_(-1, 1) for _ in range(slots))
        self.register_buffer("learned", torch.zeros(slots, dtype=torch.bool))
        self.learned: Tensor
        self.slot: int | None = None
        """The task that is being trained; None chooses for each sample by its query."""
        self.slots_of_samples: Callable[[], Tensor] | None = None
        """Returns the slot of each sample, in training on samples of several tasks."""

    def choose(self, query: Tensor) -> Tensor:
        """Return the learned task whose key is nearest in angle to each query; 0 before any is."""
        keys = functional.normalize(torch.stack(list(self.keys)), dim=1)
        cosine = functional.normalize(query, dim=1) @ keys.T
        return cosine.masked_fill(~self.learned, -2.0).argmax(1)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of images."""
        tokens = self.embed(x)
        query = self.query(tokens)
        n = len(query)
        learning = self.training and self.slot is not None
        if learning and self.slots_of_samples is None:
            expert = self.experts[self.slot].expand(n, -1, -1, -1, -1)  # type: ignore[index]
            key = self.keys[self.slot].expand(n, -1)  # type: ignore[index]
        else:
            own = self.slots_of_samples if learning else None
            slots = self.choose(query) if own is None else own()
            expert = torch.stack(list(self.experts))[slots]
            key = torch.stack(list(self.keys))[slots]
        cosine = functional.cosine_similarity(query, key, dim=1)
        self.trace.values["distance"] = (1 - cosine).mean()
        prefixes = {}
        for number, block in enumerate(self.general_blocks):
            both = self.general[number].expand(n, -1, -1, -1)
            prefixes[block] = (both[:, 0], both[:, 1])
        for number, block in enumerate(self.expert_blocks):
            prefixes[block] = (expert[:, number, 0], expert[:, number, 1])
        features: Tensor = self.vit.fc_norm(self.run(tokens, prefixes)[:, 0])
        return features


class DualPrompt(Tuner):
    """DualPrompt: general prefixes (G) for all tasks, and expert prefixes (E) for each task.

    Wang et al. (2022): prompts are prefixes of keys and values, MSA(h_Q, [p_K; h_K], [p_V; h_V])
    (Eq. 4; inserted after the projections, as in the authors' program). The first blocks have the
    G-prompt, later ones the E-prompt of the task: in training the sample's own, otherwise the one
    whose key is nearest in angle to the query q(x), the class token's output of the frozen
    network. The loss is

        cross-entropy + pull * (1 - cos(q(x), k_t))                                   (Eq. 6)

    Only learned tasks can be chosen. (The authors' program chooses among all keys, including those
    of future tasks.)

    Args:
        general: Blocks with the G-prompt, counted from 0.
        expert: Blocks with E-prompts.
        general_length: Number of keys, and of values, of a G-prompt (L_g).
        expert_length: The same for an E-prompt (L_e).
        pull: Weight of the keys' term (lambda).
        transfer: Initialize a task's E-prompt with the previous one, as in the authors' program.
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task, as in the authors'
            program.

    Example:
        ``clframe fit strategy=dualprompt model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.dualprompt import DualPrompt
        >>> from clframe.testing import prepare
        >>> strategy = [DualPrompt(general=(0,), expert=(1, 2))]
        >>> prepare("split_mnist", strategy, model="vit_tiny").strategy
        'dualprompt'
    """

    name = "dualprompt"
    paper = (
        "Wang et al., DualPrompt: Complementary Prompting for Rehearsal-free Continual Learning, "
        "2022"
    )
    capabilities = replace(Tuner.capabilities, needs_tokens=True)

    def __init__(
        self,
        general: tuple[int, ...] = (0, 1),
        expert: tuple[int, ...] = (2, 3, 4),
        general_length: int = 5,
        expert_length: int = 20,
        pull: float = 1.0,
        transfer: bool = True,
        compete: Compete = "own",
    ) -> None:
        super().__init__(compete)
        self.general, self.expert = tuple(general), tuple(expert)
        self.general_length, self.expert_length = general_length, expert_length
        self.pull, self.transfer = pull, transfer
        check_at_least(self, self.name, general_length=1, expert_length=1, pull=0)
        if both := set(self.general) & set(self.expert):
            raise SettingError(
                f"dualprompt.general and dualprompt.expert both name block {min(both)}; a block "
                "has one prefix"
            )
        if not self.expert:
            raise SettingError("dualprompt.expert is empty: name at least one block")

    def insert(self, learner: Learner, stream: Stream) -> list[Tensor]:
        """Insert all prompts."""
        parent, child, vit = find_vit(learner.model, self.name)
        depth = len(vit.blocks)
        for name, blocks in (("general", self.general), ("expert", self.expert)):
            outside = [block for block in blocks if not 0 <= block < depth]
            if outside:
                raise SettingError(
                    f"dualprompt.{name} names block {outside[0]}, but this network has blocks 0 to "
                    f"{depth - 1}"
                )
        lengths = (self.general_length, self.expert_length)
        self._vit = DualViT(vit, self.general, self.expert, *lengths, len(self.slots))
        setattr(parent, child, self._vit)
        # Task -1 finds the last row, for samples without a particular task.
        slot_of_task = torch.tensor([*self.slots.of_task, 0], device=learner.engine.device)
        if brings_samples(learner, self):
            self._vit.slots_of_samples = lambda: slot_of_task[learner.current_task]
        return []

    # After plugins that copy the model as a teacher, which must not include this task.
    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Make the task's prompt selectable, initialized with the previous one."""
        slot = self.slots.of(experience)
        vit = self._vit
        if self.transfer and learner.seen and not vit.learned[slot]:
            with torch.no_grad():
                vit.experts[slot].copy_(vit.experts[self.slots.of(learner.seen[-1])])
        vit.learned[slot] = True
        self._slot = slot

    @hookimpl(tryfirst=True)
    def before_epoch(self, learner: Learner) -> None:
        """Train the task's own prompt."""
        super().before_epoch(learner)
        self._vit.slot = self._slot

    @hookimpl(tryfirst=True)
    def after_epoch(self) -> None:
        """Choose by the query again."""
        self._vit.slot = None

    @hookimpl
    def penalty(self) -> Tensor:
        """Return the term that pulls the task's key to the queries."""
        return self.pull * self._vit.trace.values["distance"]
