"""Train on each experience with all earlier ones: the upper bound with unlimited memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.data.concat import join
from clframe.data.dataset import Data
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream


class Cumulative(Plugin):
    """Joint training on all data so far, at every experience.

    Example:
        ``clframe fit strategy=cumulative``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import Cumulative
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [Cumulative()]).strategy
        'cumulative'
    """

    roles = ("training data",)
    capabilities = Capabilities(batched_seeds=True, multi_pass=True)

    @hookimpl
    def extra_data(self, learner: Learner, experience: Experience) -> Data | None:
        """Return the data of all earlier experiences."""
        return join([past.data for past in learner.seen]) if learner.seen else None

    def revisited_data(self, stream: Stream, seen: Sequence[Experience]) -> Sequence[Data]:
        """Return the data of every experience so far."""
        return [past.data for past in seen]
