"""The batches that the host learns from, shown to plugins on their way to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from clframe.attached.host_data import check_main_process, items_of, labels_of
from clframe.attached.host_learner import AttachedLearner
from clframe.attached.torch_hooks import Passes
from clframe.data.sampler import epoch_order
from clframe.errors import SettingError


class ShownBatches:
    """Gives the host its batches, and counts epochs.

    Args:
        learner: The host's model and optimizer, with the plugins.
    """

    def __init__(self, learner: AttachedLearner) -> None:
        self.learner = learner
        self.passes = Passes(learner)
        self.epoch_steps = 0
        """Batches of the current epoch that :meth:`batches` has given."""
        self._given: Any = None

    def batches(self, batch_size: int | None = None, shuffle: bool = True) -> Iterator[Any]:
        """An epoch of the experience's data as ``(x, y)``, in the order of :func:`clframe.fit`.

        Args:
            batch_size: None for that of :func:`clframe.attach`.
            shuffle: By seed, experience and epoch, or as the data is.
        """
        passes, learner = self.passes, self.learner
        data, experience = passes.data, learner.experience
        if not passes.active or data is None or experience is None:
            raise SettingError("cl.batches gives the data of an experience: begin one with data=")
        size = batch_size or learner.engine.settings.batch_size
        self._begin_epoch()
        n = len(data)
        order = torch.arange(n)
        if shuffle:
            order = epoch_order(n, learner.seed, experience.index, learner.epoch)
        for batch in data.batches(order[self.epoch_steps * size :], size):
            if passes.hungry:
                passes.told.tell(batch.x, batch.y, batch.positions, batch)
            self.epoch_steps += 1
            yield batch.x, batch.y
        self._end_epoch(self.epoch_steps, n)

    def loader(self, loader: Iterable[Any]) -> Iterator[Any]:
        """An epoch of your own loader, of whose batches plugins are told.

        Args:
            loader: A ``DataLoader``, or anything that gives ``(x, y)`` or mappings with labels.
        """
        self._begin_epoch()
        passes, known = self.passes, self._is_of_experience(loader)
        steps = samples = 0
        for places, item in items_of(loader):
            if passes.hungry:
                x, y = labels_of(item)
                passes.told.tell(x, y, places if known else None)
                samples += len(y)
            steps += 1
            yield item
        self._end_epoch(steps, samples)

    def collate(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A collate function that tells plugins of each batch, for trainers that own the loader.

        Args:
            function: Yours.
        """

        def collated(items: Any) -> Any:
            check_main_process()
            item = function(items)
            if self.passes.active and self.passes.hungry:
                self.passes.told.tell(*labels_of(item))
            return item

        return collated

    def batch(self, x: Any, y: Tensor) -> None:
        """Tell plugins of the batch that goes through the model next.

        Args:
            x: Inputs.
            y: One label per sample.
        """
        if self.passes.hungry:
            self.passes.told.tell(x, y)

    def _is_of_experience(self, loader: Any) -> bool:
        """Whether positions in the loader's data set are those of the experience's data."""
        if not isinstance(loader, DataLoader) or self._given is None:
            return False
        dataset, given = loader.dataset, self._given
        if isinstance(dataset, TensorDataset) and isinstance(given, tuple | list):
            return len(given) == 2 and dataset.tensors[0] is given[0]
        return dataset is given

    def _begin_epoch(self) -> None:
        self.passes.told.waiting.clear()
        if self.passes.active:
            self.passes.begin_epoch()

    def _end_epoch(self, steps: int, samples: int) -> None:
        learner = self.learner
        if not self.passes.active:
            return
        with self.passes.plugins_at_work():
            learner.plugins.hook.after_epoch(
                learner=learner,
                experience=learner.experience,
                epoch=learner.epoch,
                logs={"steps": steps, "samples": samples},
            )
        learner.state.epoch += 1
        learner.state.samples += samples
        self.epoch_steps = 0
