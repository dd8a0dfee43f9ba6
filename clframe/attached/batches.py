"""The host's batches, which plugins see before the host trains on them."""

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
    """Batches for the host, and a count of epochs.

    Args:
        learner: Learner with the host's model and optimizer, and the plugins.
    """

    def __init__(self, learner: AttachedLearner) -> None:
        self.learner = learner
        self.passes = Passes(learner)
        self.epoch_steps = 0
        """Batches of the current epoch that :meth:`batches` has yielded."""
        self._host_data: Any = None

    def batches(self, batch_size: int | None = None, shuffle: bool = True) -> Iterator[Any]:
        """Yield an epoch of the experience's data as ``(x, y)``, ordered as in :func:`clframe.fit`.

        Args:
            batch_size: Batch size; None for the one of :func:`clframe.attach`.
            shuffle: Shuffle by seed, experience and epoch; otherwise keep the order of the data.
        """
        passes, learner = self.passes, self.learner
        data, experience = passes.data, learner.experience
        if not passes.active or data is None or experience is None:
            raise SettingError("cl.batches yields the data of an experience: begin one with data=")
        size = batch_size or learner.engine.settings.batch_size
        self._begin_epoch()
        n = len(data)
        order = torch.arange(n)
        if shuffle:
            order = epoch_order(n, learner.seed, experience.index, learner.epoch)
        for batch in data.batches(order[self.epoch_steps * size :], size):
            if passes.hungry:
                passes.announced.announce(batch.x, batch.y, batch.positions, batch)
            self.epoch_steps += 1
            yield batch.x, batch.y
        self._end_epoch(self.epoch_steps, n)

    def loader(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yield an epoch of your own loader, and show its batches to plugins.

        Args:
            loader: A ``DataLoader``, or any iterable of ``(x, y)`` or mappings with labels.
        """
        self._begin_epoch()
        passes, of_experience = self.passes, self._is_of_experience(loader)
        steps = samples = 0
        for positions, item in items_of(loader):
            if passes.hungry:
                x, y = labels_of(item)
                passes.announced.announce(x, y, positions if of_experience else None)
                samples += len(y)
            steps += 1
            yield item
        self._end_epoch(steps, samples)

    def collate(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wrap a collate function to show each batch to plugins, for trainers that own the loader.

        Args:
            function: Your collate function.
        """

        def collated(items: Any) -> Any:
            check_main_process()
            item = function(items)
            if self.passes.active and self.passes.hungry:
                self.passes.announced.announce(*labels_of(item))
            return item

        return collated

    def batch(self, x: Any, y: Tensor) -> None:
        """Show plugins the batch that goes through the model next.

        Args:
            x: The inputs.
            y: One label per sample.
        """
        if self.passes.hungry:
            self.passes.announced.announce(x, y)

    def _is_of_experience(self, loader: Any) -> bool:
        """Return whether the loader's data set is the experience's data."""
        if not isinstance(loader, DataLoader) or self._host_data is None:
            return False
        dataset, host_data = loader.dataset, self._host_data
        if isinstance(dataset, TensorDataset) and isinstance(host_data, tuple | list):
            return len(host_data) == 2 and dataset.tensors[0] is host_data[0]
        return dataset is host_data

    def _begin_epoch(self) -> None:
        self.passes.announced.waiting.clear()
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
