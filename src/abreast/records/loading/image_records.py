"""`ImageRecords`: the loader of packed images as a `PyDataset` for Keras's `fit`, `evaluate` and `predict`.

It is also its own Keras data adapter. Keras shuffles the batches of any other `PyDataset` with its own generator, so that
the next batch could not be known. Not here: the place in an epoch where reading goes on (`loader.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

import keras
import numpy as np

from abreast.backend.reading import pipeline_of
from abreast.keras_private import distribution
from abreast.keras_private.data_adapters import DataAdapter, get_torch_dataloader, super_batch_iterator
from abreast.records.loading.loader import Loader
from abreast.records.loading.typed import Batch

if TYPE_CHECKING:
    from abreast.records.decoding.images import Pixels
    from abreast.records.loading import typed


class ImageRecords(Loader[Batch], keras.utils.PyDataset, DataAdapter, Generic[Batch]):  # type: ignore[misc]  # Keras has no types
    """Batches of packed images, for Keras and for loops of one's own.

    `batch_size` is the number of rows of the global batch. `augment=True` takes a random part of each image, and mirrors
    half of them, for training; `augment=False` takes the centre, for evaluation; `RandomCrop` and `CenterCrop` have
    settings. `targets` and `weights` name columns: one name gives an array, several names a dictionary. By default,
    batches are shuffled for training and antialiased for evaluation (`shuffle`, `antialias`). `smaller` names data sets of
    the same samples, packed with a smaller `size`: each part is read from the smallest one in which it has at least as many
    pixels as its place in the batch. `decoder` is "cpu", "gpu", or "auto" for the one that is measured to be faster. Raises
    `DataError`, and `DeviceError` if there is no GPU to decode on.
    """

    if TYPE_CHECKING:
        # The arguments are those of `Loader`; here they choose the type of the batches.
        @overload
        def __init__(
            self: ImageRecords[typed.WithTarget],
            folder: str | PathLike[str],
            batch_size: int,
            *,
            targets: str = "label",
            weights: None = None,
            **settings: Unpack[typed.Settings],
        ) -> None: ...
        @overload
        def __init__(
            self: ImageRecords[Pixels],
            folder: str | PathLike[str],
            batch_size: int,
            *,
            targets: None,
            weights: None = None,
            **settings: Unpack[typed.Settings],
        ) -> None: ...
        @overload
        def __init__(
            self: ImageRecords[typed.WithTargets],
            folder: str | PathLike[str],
            batch_size: int,
            *,
            targets: Sequence[str],
            weights: None = None,
            **settings: Unpack[typed.Settings],
        ) -> None: ...
        @overload
        def __init__(
            self: ImageRecords[typed.WithTargetAndWeights],
            folder: str | PathLike[str],
            batch_size: int,
            *,
            targets: str = "label",
            weights: str,
            **settings: Unpack[typed.Settings],
        ) -> None: ...
        @overload
        def __init__(
            self: ImageRecords[typed.WithWeights],
            folder: str | PathLike[str],
            batch_size: int,
            *,
            targets: None,
            weights: str,
            **settings: Unpack[typed.Settings],
        ) -> None: ...
        @overload
        def __init__(
            self: ImageRecords[typed.WithTargetsAndWeights],
            folder: str | PathLike[str],
            batch_size: int,
            *,
            targets: Sequence[str],
            weights: str,
            **settings: Unpack[typed.Settings],
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    _goes_on = False  # True if Keras has asked for another iterator since it took a batch of the last one

    def get_numpy_iterator(self) -> Iterator[Any]:
        self._goes_on = True
        return self._for_keras()

    def _for_keras(self) -> Iterator[Any]:
        self._goes_on = False
        yield from map(_as_tuple, self._rest_of_epoch(may_only_look=True))  # `map` holds no batch

    def on_epoch_end(self) -> None:
        """Keras calls this after an epoch, and also after it took the first batch to build a model.

        After an epoch it has asked for the next iterator already, and after building it has not. If an epoch has only one
        batch, there is no other difference.
        """
        if self._goes_on:
            self._end_if_all_given()

    def get_jax_iterator(self, super_batch: int | None = None) -> Iterator[Any]:
        if distribution.current() is not None:
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
