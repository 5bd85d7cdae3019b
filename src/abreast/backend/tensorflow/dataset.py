"""`tf.data` pipelines: a source's batches for plain Keras on TensorFlow, and arrays that begin at a later batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from keras import tree
from tensorflow.python.eager import context

from abreast.keras_private.data_adapters import Skips, in_first_epoch

_UNSEEDED = (
    "TensorFlow shuffled these arrays without a seed: the rest of this epoch is in another order, so some rows "
    "repeat and others are missing\n"
    "hint: call keras.utils.set_random_seed at the beginning of the script"
)


def dataset(begin: Callable[[], Iterator[Any]], like: Any) -> Any:
    """Batches of the iterators that `begin` returns, one iterator per epoch; `like` is a batch with any number of rows.

    Nothing is read ahead here, because Keras makes iterators that it does not use, and a source counts its epochs.
    """
    signature = tree.map_structure(lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype), like)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.from_generator(begin, output_signature=signature).with_options(options)


def arrays_after(adapter: Any, skips: Skips) -> Any:
    """Keras's pipeline of arrays without its first batches: their order is drawn, but their rows are not read."""
    owner: Any = tf.data.Dataset
    plain = vars(owner)["zip"]
    zipped = []

    def rest(datasets: Any, *args: Any, **kwargs: Any) -> Any:
        places, arrays = datasets
        zipped.append(places.skip(skips.num_batches))
        return plain.__func__((zipped[-1], arrays), *args, **kwargs)

    owner.zip = staticmethod(rest)  # Keras calls it with two datasets: the places of each batch's rows, and the arrays
    try:
        with in_first_epoch(adapter):
            dataset = adapter.get_tf_dataset()
    finally:
        owner.zip = plain
    if adapter._shuffle and context.global_seed() is None:
        skips.note = _UNSEEDED
    return dataset if zipped else dataset.skip(skips.num_batches)


def watched(dataset: Any, begin: Callable[[], Callable[[Any], None]]) -> Any:
    """The same batches, each also passed as NumPy arrays to a function, which `begin()` returns at an iterator's first batch."""
    shows: list[Callable[[Any], None]] = []

    def show(number: Any, *leaves: Any) -> Any:
        if number == 0:
            shows.append(begin())
        shows[-1](leaves)
        return np.int64(0)

    def look(number: Any, batch: Any) -> Any:
        leaves = [leaf for leaf in tf.nest.flatten(batch, expand_composites=True) if leaf.dtype != tf.variant]
        tf.numpy_function(show, [number, *leaves], tf.int64)
        return batch

    return dataset.enumerate().map(look)
