"""Joint training on everything at once: the upper bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.data.concat import join
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Data


class Multitask(Plugin):
    """Joint training on all experiences, in the first one; the others add nothing.

    A budget in steps is multiplied by the number of experiences, so that the number of steps is
    the same as for a method that learns one experience after the other.

    Example:
        ``clframe fit strategy=multitask``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import Multitask
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [Multitask()]).strategy
        'multitask'
    """

    roles = ("training data", "joint training")
    excludes: ClassVar[Mapping[str, str]] = {
        "task weights": "all tasks are trained together, so none gets weights of its own"
    }
    capabilities = Capabilities(order_dependent=True)

    @hookimpl(tryfirst=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train once on all data."""
        if experience.index == 0:
            for other in learner.stream:
                learner.activate(other)
            everything = join([data, *(other.data for other in learner.stream.experiences[1:])])
            learner.train_on(everything, budget.times(len(learner.stream)))
        return True

    def revisited_data(self, stream: Stream, seen: Sequence[Experience]) -> Sequence[Data]:
        """Return the data of the whole stream."""
        return [experience.data for experience in stream]
