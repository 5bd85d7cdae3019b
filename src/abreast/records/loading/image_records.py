"""`ImageRecords`: the loader of packed images as a `PyDataset` for Keras's `fit`, `evaluate` and `predict`.

It is also its own Keras data adapter. Keras shuffles the batches of any other `PyDataset` with its own generator, so the next
batch could not be known. Not here: the place in an epoch where reading continues (`loader.py`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

import keras
import numpy as np

from abreast.backend.reading import pipeline_of
from abreast.feed import Part
from abreast.feed.jump import ended_early
from abreast.keras_private import distribution
from abreast.keras_private.data_adapters import DataAdapter, get_torch_dataloader, super_batch_iterator
from abreast.records.loading import fit_callback
from abreast.records.loading.fit_epochs import FitEpochs
from abreast.records.loading.loader import Loader
from abreast.records.loading.sampling import Place
from abreast.records.loading.typed import Batch
from abreast.shares import OwnRows

if TYPE_CHECKING:
    from abreast.records.decoding.images import Pixels
    from abreast.records.loading import typed

fit_callback.install()


class ImageRecords(Loader[Batch], keras.utils.PyDataset, DataAdapter, Generic[Batch]):  # type: ignore[misc]  # Keras has no types
    """A packed data set as batches of `uint8` images, for `fit`, `evaluate`, `predict` and loops of one's own.

    A batch is `(images, targets)`, `(images, targets, weights)`, or the images alone. Images have the shape (rows, height,
    width, channels). One iteration yields the batches of an epoch, the next iteration those of the next epoch; `records[i]` is
    batch `i` of the epoch that comes next. Threads, processes and restarts do not change the batches. `fit` begins with the
    batches of the epoch that `initial_epoch` or `BackupAndRestore` names.

    Args:
        folder: the folder that `abreast pack` or `abreast.records.pack` made.
        batch_size: number of rows of the global batch, over all devices.
        size: height and width of a batch's images in pixels; one number for a square.
        augment: `True` takes a random part of each image and mirrors half of them, for training; `False` takes the centre, for
            evaluation; `abreast.records.RandomCrop` and `CenterCrop` have settings.
        targets: the column of the targets; several columns give a dictionary by name, and None gives images alone. Words
            become class numbers, `int64`.
        weights: the column of the sample weights.
        shuffle: by default True with random crops.
        seed: the number that chooses order and crops; the same seed gives the same batches, bit for bit.
        drop_remainder: leave out the last batch if it has fewer rows.
        antialias: average over all pixels of images that shrink; by default True without random crops.
        smaller: data sets of the same samples, packed with a smaller `size`: each part is read from the smallest data set that
            has enough pixels for its place in the batch.
        num_threads: number of decoding threads; by default one per core.
        num_workers: number of processes that share these threads; 0 is this process.
        decoder: `"cpu"`, `"gpu"` (NVIDIA DALI), or `"auto"` for the one that is measured to be faster.
        shard: the number of the process whose rows to read, from 0.
        num_shards: number of these processes.
        class_names: the names of the classes in the order of their numbers, as `train.class_names`; a file with a name on each
            line; or a packed data set.

    Attributes:
        records: the `Records` of `folder`.
        num_threads: number of decoding threads.

    Raises:
        DataError: a setting is wrong, or an image is damaged.
        DeviceError: there is no GPU to decode on, or it fails.
        WorkerError: a decoding process died.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> from abreast.records import pack
        >>> images = np.random.default_rng(0).integers(0, 256, (10, 40, 40, 3), np.uint8)
        >>> summary = pack((images, np.arange(10) % 2), "train.pack")
        >>> records = abreast.ImageRecords("train.pack", batch_size=4, size=32, seed=1)
        >>> len(records), records.batch_size, records[0][0].shape
        (3, 4, (4, 32, 32, 3))
        >>> model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(2)])
        >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        >>> history = model.fit(records, epochs=2, verbose=0)
        >>> held_out = abreast.ImageRecords("train.pack", 4, size=32, augment=False, class_names=["cat", "dog"])
        >>> held_out.class_names
        ('cat', 'dog')
        >>> for images, labels in held_out:  # a loop of your own
        ...     print(images.shape, images.dtype, labels)
        (4, 32, 32, 3) uint8 [0 1 0 1]
        (4, 32, 32, 3) uint8 [0 1 0 1]
        (2, 32, 32, 3) uint8 [0 1]
        >>> records.close()
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

    _goes_on = False  # True if Keras has requested a new iterator since it took a batch of the last one

    def get_numpy_iterator(self) -> Iterator[Any]:
        self._goes_on = True
        return self._for_keras()

    def _for_keras(self) -> Iterator[Any]:
        self._goes_on = False
        yield from map(_as_tuple, self._rest_of_epoch(may_only_look=True))  # `map` holds no batch

    def _parts(self, own_rows: OwnRows) -> Iterator[Part]:
        """The batches of an epoch, in which a process decodes only its own rows: see `feed/parts.py`."""
        self._goes_on = True
        return self._own_parts(own_rows)

    def _own_parts(self, own_rows: OwnRows) -> Iterator[Part]:
        self._goes_on = False
        sampling, begin = self._sampling, self._begin
        settings = {**self._sequence(), "shard": [int(sampling.shard), int(sampling.num_shards)], "epoch": begin.epoch}
        order = zlib.crc32(json.dumps(settings, sort_keys=True).encode())
        numbers = count(begin.batch)

        def part(data: Any) -> Part:
            batch = next(numbers)
            rows = len(sampling.positions(batch))
            return Part(_as_tuple(data), rows, own_rows(rows), zlib.crc32(b"%d" % batch, order))

        yield from map(part, self._rest_of_epoch(may_only_look=True, own_rows=own_rows))  # `map` holds no batch

    def _jump(self, num_batches: int) -> bool:
        """Move the newest iterator, which has returned no batch yet: see `feed/jump.py`."""
        begin = self._begin
        batch = begin.batch + num_batches
        if batch > len(self):
            raise ended_early(len(self) - begin.batch, num_batches)
        self._go_to(Place(begin.epoch, batch))
        return batch < len(self)

    def _fingerprint(self) -> dict[str, Any]:
        """See `feed/fingerprint.py`."""
        columns = {name: self._settings[name] for name in ("targets", "weights")}
        return {"kind": "ImageRecords", **self._sequence(), **columns}

    def _own_state(self) -> dict[str, Any]:
        """The place, and the epochs of the `fit`: see `feed/source_state.py`."""
        begin, fit = self._begin, self._fit_epochs
        if self._next.epoch > begin.epoch:  # all batches were given, but the end of the epoch is not reported yet
            begin = self._next
        epochs = None if fit is None else [fit.first, fit.begin.epoch, fit.begin.batch, fit.steps]
        return {"place": [begin.epoch, begin.batch], "fit": epochs}

    def _set_own_state(self, state: Mapping[str, Any]) -> None:
        self._go_to(Place(*state["place"]))
        if state["fit"] is not None:
            first, epoch, batch, steps = state["fit"]
            self._fit_epochs = FitEpochs(first, Place(epoch, batch), len(self), steps)

    def on_epoch_end(self) -> None:
        """End the epoch, unless Keras took only the first batch to build a model. Keras calls this in both cases.

        After an epoch, Keras has already requested the next iterator; after building, it has not. If an epoch has only one
        batch, there is no other difference.
        """
        if self._goes_on:
            self._end_if_all_given()

    def get_jax_iterator(self, super_batch: int | None = None) -> Iterator[Any]:
        if distribution.current() is not None:
            # Keras requests it late, so `on_epoch_end` sees no difference.
            batches: Iterator[Any] = map(_as_tuple, self)
        else:
            batches = self.get_numpy_iterator()
        return batches if super_batch is None else super_batch_iterator(batches, super_batch)

    def get_torch_dataloader(self) -> Any:
        return get_torch_dataloader(self.get_numpy_iterator())

    def get_tf_dataset(self) -> Any:
        # Keras on TensorFlow reads no batch beforehand, and requests an iterator when it takes the first batch.
        return pipeline_of(lambda: map(_as_tuple, self), _as_tuple(self._assembly.like()))


def _as_tuple(batch: Any) -> Any:
    return (batch,) if isinstance(batch, np.ndarray) else batch
