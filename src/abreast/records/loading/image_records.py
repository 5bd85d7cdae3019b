"""`ImageRecords`: a loader of packed images that Keras's `fit`, `evaluate` and `predict` take as they take a `PyDataset`.

It is its own Keras data adapter too: Keras shuffles the batches of any other `PyDataset` with a generator of its own, and
then nobody could know what comes next. Imports Keras, `loader`, and `backend` for plain TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from abreast.backend.reading import pipeline_of
from abreast.keras_private.data_adapters import DataAdapter, get_torch_dataloader, super_batch_iterator
from abreast.records.loading.loader import Loader


class ImageRecords(Loader, keras.utils.PyDataset, DataAdapter):  # type: ignore[misc]  # Keras has no types
    """Batches of packed images, for Keras and for loops of one's own.

    `batch_size` counts the rows of the global batch. `augment`: True takes a random part of each image, every second one
    mirrored; False takes the centre, to evaluate; `RandomCrop` and `CenterCrop` say it exactly. `targets` and `weights`
    name columns: one gives an array, several a dictionary. `shuffle` and `antialias` go with `augment` by default:
    shuffled to train, antialiased to evaluate. `smaller` names data sets of the same samples, packed with a smaller `size`:
    each part is then read where it is smallest and still has as many pixels as its place. `decoder`: "cpu", "gpu", or
    "auto" for what is measured to be faster. Raises `DataError`, and `DeviceError` where there is no GPU that could decode.
    """

    _goes_on = False  # whether Keras has asked for another iterator since it took a batch of the last one

    def get_numpy_iterator(self) -> Iterator[Any]:
        self._goes_on = True
        return self._for_keras()

    def _for_keras(self) -> Iterator[Any]:
        self._goes_on = False
        yield from map(_as_tuple, self._rest_of_epoch(may_only_look=True))  # which holds no batch

    def on_epoch_end(self) -> None:
        """Keras calls this behind an epoch, for which it then has asked for the next iterator already.

        It also calls this when it has looked at a first batch to build a model, and then it has not. Where that is the only
        batch, nothing else tells the two apart.
        """
        if self._goes_on:
            self._end_if_all_given()

    def get_jax_iterator(self, super_batch: int | None = None) -> Iterator[Any]:
        if keras.distribution.distribution() is not None:
            batches: Iterator[Any] = map(_as_tuple, self)  # Keras asks late, so that `on_epoch_end` could not tell
        else:
            batches = self.get_numpy_iterator()
        return batches if super_batch is None else super_batch_iterator(batches, super_batch)

    def get_torch_dataloader(self) -> Any:
        return get_torch_dataloader(self.get_numpy_iterator())

    def get_tf_dataset(self) -> Any:
        # Keras on TensorFlow looks at no batch beforehand, and asks for iterators when it takes the first batch.
        return pipeline_of(lambda: map(_as_tuple, self), _as_tuple(self._assembly.like()))


def _as_tuple(batch: Any) -> Any:
    return (batch,) if isinstance(batch, np.ndarray) else batch
