"""Adapters: small bottlenecks in the blocks of a frozen transformer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from clframe.models.tuning.adapter import Place, put_adapters
from clframe.utils.setting_checks import check_at_least

from ._tuner import Compete, Tuner

if TYPE_CHECKING:
    from clframe import Learner, Stream


class Adapter(Tuner):
    """Bottleneck adapters in each block of a frozen transformer, trained with the head.

    * ``parallel``, AdaptFormer (Chen et al. 2022, Eqs. 2 and 3): ``scale * relu(h D) U`` is added
      to the perceptron's output, with h its (normalized) input.
    * ``serial``, Houlsby et al. (2019), figure 2: after attention and after the perceptron, before
      each is added to its input, ``h + gelu(h D) U`` replaces h. (Their retraining of the layer
      norms is left out: all weights of the network stay fixed.)

    ``U`` starts at zero, so that the network starts unchanged.

    Args:
        hidden: Width of the bottleneck (AdaptFormer and PILOT's adapters: 64).
        place: Which of the two.
        scale: Factor of the added term (AdaptFormer: 0.1).
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task.

    Example:
        ``clframe fit strategy=adapter model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.adapter import Adapter
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [Adapter(hidden=16)], model="vit_tiny").strategy
        'adapter'
    """

    name = "adapter"
    paper = (
        "Chen et al., AdaptFormer: Adapting Vision Transformers for Scalable Visual Recognition, "
        "2022; Houlsby et al., Parameter-Efficient Transfer Learning for NLP, 2019"
    )
    capabilities = replace(Tuner.capabilities, needs_tokens=True)

    def __init__(
        self,
        hidden: int = 64,
        place: Place = "parallel",
        scale: float = 0.1,
        compete: Compete = "seen",
    ) -> None:
        super().__init__(compete)
        self.hidden, self.place, self.scale = hidden, place, scale
        check_at_least(self, self.name, hidden=1)

    def insert(self, learner: Learner, stream: Stream) -> list[Tensor]:
        """Insert an adapter in each place."""
        put_adapters(learner.model, self.name, self.place, self.hidden, self.scale)
        return []
