"""`ImageRecords`: a loader of packed images that Keras's `fit`, `evaluate` and `predict` take as they take a `PyDataset`.

It is its own Keras data adapter too: Keras shuffles the batches of any other `PyDataset` with a generator of its own, and
then nobody could know what comes next. Imports Keras, `loader`, and `backend` for plain TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from abreast.records.loader import Loader


class ImageRecords(Loader, keras.utils.PyDataset, DataAdapter):  # type: ignore[misc]  # Keras has no types
    """Batches of packed images, for Keras and for loops of one's own.

    `batch_size` counts the rows of the global batch. `augment`: True takes a random part of each image, every second one
    mirrored; False takes the centre, to evaluate; `RandomCrop` and `CenterCrop` say it exactly. `targets` and `weights`
    name columns: one gives an array, several a dictionary. `shuffle` and `antialias` go with `augment` by default:
    shuffled to train, antialiased to evaluate. Raises `DataError`.
    """

    def get_numpy_iterator(self) -> Iterator[Any]:
        return (_as_tuple(batch) for batch in self)

    def get_jax_iterator(self) -> Iterator[Any]:
        return self.get_numpy_iterator()

    def get_torch_dataloader(self) -> Any:
        return data_adapter_utils.get_torch_dataloader(self.get_numpy_iterator())

    def get_tf_dataset(self) -> Any:
        from abreast.backend.tensorflow_dataset import dataset

        return dataset(self.get_numpy_iterator, _as_tuple(self._assembly.like()))


def _as_tuple(batch: Any) -> Any:
    return (batch,) if isinstance(batch, np.ndarray) else batch
