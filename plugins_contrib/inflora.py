"""InfLoRA: low-rank changes in a subspace that does not interfere with earlier tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from clframe import SettingError, hookimpl
from clframe.models.tuning.inserts import put
from clframe.models.tuning.lora import LoRA, linears
from clframe.utils.setting_checks import check_at_least

from ._tuner import Compete, Tuner

if TYPE_CHECKING:
    from clframe import Data, Experience, Learner, Stream


def new_directions(scatter: Tensor, basis: Tensor, rank: int) -> Tensor:
    """Return the strongest directions of a task's inputs outside a subspace, as rows.

    Args:
        scatter: ``H H^T`` of the task's inputs H (a column for each token).
        basis: Orthonormal columns of the subspace; may be empty.
        rank: Number of directions.
    """
    beside = scatter - basis @ (basis.T @ scatter)
    rows: Tensor = torch.linalg.svd(beside).U[:, :rank].T
    return rows


def grown(basis: Tensor, scatter: Tensor, threshold: float, squared: bool) -> Tensor:
    """Extend a subspace until it holds a share of the energy of a task's inputs.

    Directions are added, the strongest first, until the energy in the subspace is at least
    ``threshold``.

    Args:
        basis: Orthonormal columns.
        scatter: ``H H^T`` of the task's inputs H.
        threshold: The share.
        squared: Whether the energy of a direction is its variance squared.
    """
    beside = scatter - basis @ (basis.T @ scatter)
    power = 2 if squared else 1
    total = torch.linalg.svdvals(scatter).pow(power).sum()
    svd = torch.linalg.svd(beside)
    energy = svd.S.pow(power)
    held = (total - energy.sum()) / total
    before = held + (energy.cumsum(0) - energy) / total
    added = int((before < threshold).sum())
    room = len(basis) - basis.shape[1]
    joined = torch.cat([basis, svd.U[:, : min(added, room)]], 1)
    # Rounding would make the columns drift apart over many experiences.
    columns: Tensor = torch.linalg.qr(joined).Q
    return columns


class InfLoRA(Tuner):
    """InfLoRA: a low-rank change ``B A x`` whose ``A`` avoids what earlier tasks use.

    Liang & Li (2024). Before task t its inputs H_t of each layer are computed once, and the rows
    of A_t are the first r left singular vectors of (I - M M^T) H_t (Eqs. 8 and 9), where the
    columns of M span the inputs (and so the gradients) of earlier tasks. A_t stays, B_t is trained
    from zero, and after the task the change is added to the layer's weight. M then grows until it
    holds the share ``threshold`` of the energy of the task's inputs; the share goes up to
    ``threshold_end`` over the stream. (The authors keep M or, where it is smaller, its complement;
    the subspace is the same.)

    In the attention of timm and clframe the keys and values of ``qkv`` are changed, as in the
    paper. The rows of A are divided by sqrt(3), as in the authors' program. There the energy of a
    direction is the square of its variance (``energy=program``); the paper's formula has the
    variance.

    Args:
        rank: r above.
        threshold: Share of the energy that is protected after the first task.
        threshold_end: The share at the end of the stream.
        energy: As above.
        targets: Endings of the names of the layers; None for ``qkv`` if there is one, otherwise
            every linear layer outside the head.
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task, as in the authors'
            program.

    Example:
        ``clframe fit strategy=inflora model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.inflora import InfLoRA
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [InfLoRA(rank=4)], model="vit_tiny").strategy
        'inflora'
    """

    name = "inflora"
    paper = (
        "Liang & Li, InfLoRA: Interference-Free Low-Rank Adaptation for Continual Learning, 2024"
    )
    excludes: ClassVar[Mapping[str, str]] = {
        **Tuner.excludes,
        "weight penalty": "its weights restart with each task, and a penalty would hold them "
        "to their old values",
    }
    state = ("bases",)

    def __init__(
        self,
        rank: int = 10,
        threshold: float = 0.98,
        threshold_end: float = 1.0,
        energy: Literal["program", "paper"] = "program",
        targets: list[str] | None = None,
        compete: Compete = "own",
    ) -> None:
        super().__init__(compete)
        self.rank, self.energy, self.targets = rank, energy, targets
        self.threshold, self.threshold_end = threshold, threshold_end
        check_at_least(self, self.name, rank=1)
        if not 0 < threshold <= threshold_end <= 1:
            raise SettingError(
                "inflora.threshold must be above 0 and at most inflora.threshold_end, which is at "
                f"most 1, got {threshold!r} and {threshold_end!r}"
            )
        self.bases: dict[str, Tensor] = {}
        """For each layer the subspace of its inputs that earlier tasks use, orthonormal columns."""

    def insert(self, learner: Learner, stream: Stream) -> list[Tensor]:
        """Insert a pair at each target, of which B is trained."""
        layers = linears(learner.model, None, "inflora.targets")
        targets = self.targets
        if targets is None and any(name.rpartition(".")[2] == "qkv" for name in layers):
            targets = ["qkv"]
        self._layers = linears(learner.model, targets, "inflora.targets")
        self._pairs: dict[str, LoRA] = {}
        for name, layer in self._layers.items():
            rank = min(self.rank, layer.in_features)
            out = layer.out_features
            rows = (out // 3, out) if name.rpartition(".")[2] == "qkv" else None
            pair = LoRA(layer, rank, float(rank), rows=rows)
            pair.A.requires_grad_(False)
            put(layer, pair)
            self._pairs[name] = pair
        self.bases = {
            name: torch.zeros(layer.in_features, 0, device=learner.engine.device)
            for name, layer in self._layers.items()
        }
        return [layer.weight for layer in self._layers.values()]

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Find the directions in which this task may change each layer."""
        scatters = self._scatters(learner, experience.data.to(learner.engine.device))
        for name, pair in self._pairs.items():
            basis = self.bases[name].to(scatters[name])
            rows = new_directions(scatters[name], basis, pair.rank)
            with torch.no_grad():
                weight: Any = pair.A[0].weight
                weight.copy_(rows / 3**0.5)
                nn.init.zeros_(pair.B[0].weight)  # type: ignore[arg-type]

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Protect the subspace of this task, and add its change to the weights."""
        scatters = self._scatters(learner, data)
        share = len(learner.seen) / len(learner.stream)
        threshold = self.threshold + (self.threshold_end - self.threshold) * share
        for name, pair in self._pairs.items():
            basis = self.bases[name].to(scatters[name])
            new = grown(basis, scatters[name], threshold, self.energy == "program")
            self.bases[name] = new.float()
            pair.merge_into(self._layers[name])
            nn.init.zeros_(pair.B[0].weight)  # type: ignore[arg-type]

    @torch.no_grad()
    def _scatters(self, learner: Learner, data: Data) -> dict[str, Tensor]:
        """Return ``H H^T`` of each layer's inputs, the mean over tokens, in one pass."""
        sums: dict[str, Tensor] = {}
        counts: dict[str, int] = {}

        def watch(name: str) -> Any:
            def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
                tokens = inputs[0].flatten(0, -2).double()
                product = tokens.T @ tokens
                sums[name] = sums[name] + product if name in sums else product
                counts[name] = counts.get(name, 0) + len(tokens)

            return hook

        handles = [m.register_forward_hook(watch(n)) for n, m in self._layers.items()]
        was_training = learner.training
        learner.eval()
        try:
            size = learner.engine.evaluation.eval_batch_size
            for batch in data.batches(torch.arange(len(data)), size):
                learner.run_model(batch.x, batch.task)
        finally:
            learner.train(was_training)
            for handle in handles:
                handle.remove()
        return {name: value / counts[name] for name, value in sums.items()}
