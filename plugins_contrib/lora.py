"""LoRA: low-rank changes of frozen linear layers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn

from clframe import PluginError, SettingError, TaskContext, hookimpl
from clframe.models.tuning import peft_files
from clframe.models.tuning.inserts import activate, put
from clframe.models.tuning.lora import LoRA as LowRank
from clframe.models.tuning.lora import linears
from clframe.utils.setting_checks import check_at_least

from ._tuner import Compete, Tuner, brings_samples

if TYPE_CHECKING:
    from clframe import Experience, Learner, Result, Stream, Task

Mode = Literal["shared", "per_task", "merged"]
FOLDER = "adapter"


class LoRA(Tuner):
    """LoRA: a low-rank change of each linear layer of a frozen network, trained with the head.

    Hu et al. (2021), Eq. 3: ``h = W x + alpha / r * B A x`` with Kaiming initialization of the
    ``r`` rows of ``A``, and ``B`` zero at first. Three modes for a stream:

    * ``shared``: one pair for all experiences, trained further in each.
    * ``per_task``: a pair for each experience, chosen by the task in prediction
      (task-incremental only).
    * ``merged``: after each experience the pair is added to the frozen weight and starts again.

    A checkpoint contains the pairs, the head and, in mode ``merged``, the changed layers; a digest
    represents all other weights.

    Args:
        rank: r above.
        alpha: Strength; None for the rank, so that the factor is 1.
        targets: Endings of the names of the layers, such as ``[qkv]`` or ``[attn.qkv, mlp.fc1]``;
            None for every linear layer outside the head.
        mode: One of the three above.
        dropout: Dropout of a pair's inputs, in training.
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task.
        start: A folder in the layout of the library peft, with initial pairs.
        export: Write the pairs into the run's folder ``adapter`` in that layout at the end.

    Example:
        ``clframe fit strategy=lora+replay model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.lora import LoRA
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [LoRA(rank=4), "replay"], model="vit_tiny").strategy
        'lora+replay'
    """

    name = "lora"
    paper = "Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021"

    def __init__(
        self,
        rank: int = 8,
        alpha: float | None = None,
        targets: list[str] | None = None,
        mode: Mode = "shared",
        dropout: float = 0.0,
        compete: Compete = "seen",
        start: str | None = None,
        export: bool = False,
    ) -> None:
        super().__init__(compete)
        self.rank, self.targets, self.mode, self.dropout = rank, targets, mode, dropout
        check_at_least(self, self.name, rank=1)
        if not 0 <= dropout < 1:
            raise SettingError(f"lora.dropout must be at least 0 and below 1, got {dropout!r}")
        self.alpha = float(rank) if alpha is None else alpha
        if not self.alpha > 0:
            raise SettingError(f"lora.alpha must be above 0, got {alpha!r}")
        if export and mode == "merged":
            raise SettingError("lora.export writes pairs, but lora.mode=merged keeps none")
        self.start, self.export = start, export

    def insert(self, learner: Learner, stream: Stream) -> list[Tensor]:
        """Insert a pair at each target, or one for each experience."""
        if self.mode == "per_task":
            self._check_tasks(learner, stream)
        for plugin in learner.plugins.ordered:
            if self.mode == "merged" and "weight penalty" in plugin.roles:
                raise PluginError(
                    f"lora.mode=merged restarts its pairs, which '{plugin.name}' would hold to "
                    "their old values: set lora.mode=shared"
                )
        layers = linears(learner.model, self.targets, "lora.targets")
        slots = len(self.slots) if self.mode == "per_task" else 1
        self._pairs: list[tuple[nn.Linear, LowRank]] = []
        for layer in layers.values():
            pair = LowRank(layer, self.rank, self.alpha, self.dropout, slots)
            put(layer, pair)
            self._pairs.append((layer, pair))
        if self.start is not None:
            for slot in range(slots):
                peft_files.load(learner.model, Path(self.start), slot)
        return [layer.weight for layer, _ in self._pairs] if self.mode == "merged" else []

    def _check_tasks(self, learner: Learner, stream: Stream) -> None:
        if stream.scenario != "task":
            raise PluginError(
                "lora.mode=per_task chooses weights by the task, but stream "
                f"'{stream.name}' is {stream.scenario}-incremental: set scenario=task or "
                "lora.mode=shared"
            )
        if other := brings_samples(learner, self):
            raise PluginError(
                f"lora.mode=per_task cannot be combined with '{other}': this task's weights would "
                "learn samples of other tasks; set lora.mode=shared"
            )

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Choose the pair that is trained."""
        if self.mode == "per_task":
            activate(learner.model, self.slots.of(experience))

    @hookimpl(trylast=True)
    def after_experience(self) -> None:
        """Merge the pairs, after other plugins have used the trained ones."""
        if self.mode == "merged":
            for layer, pair in self._pairs:
                pair.merge_into(layer)
                pair.reset()

    @hookimpl
    def task_context(self, learner: Learner, task: Task) -> TaskContext:
        """Measure a task with the weights of its experience."""
        if self.mode != "per_task":
            return TaskContext(None, contextlib.nullcontext)
        slot = self.slots.of_task[task.index]

        @contextlib.contextmanager
        def chosen() -> Iterator[None]:
            before = self._pairs[0][1].active
            activate(learner.model, slot)
            try:
                yield
            finally:
                activate(learner.model, before)

        return TaskContext(slot, chosen)

    @hookimpl
    def after_run(self, learner: Learner, result: Result) -> None:
        """Write the pairs for the library peft."""
        if not self.export or learner.state.run_dir is None:
            return
        folder = learner.state.run_dir / FOLDER
        for slot, name in enumerate(self.slots.names if self.mode == "per_task" else [""]):
            target = folder / name if name else folder
            peft_files.save(learner.model, target, slot)
