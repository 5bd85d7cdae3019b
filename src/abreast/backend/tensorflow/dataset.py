"""A `tf.data` pipeline of a source's batches, for plain Keras on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from keras import tree


def dataset(begin: Callable[[], Iterator[Any]], like: Any) -> Any:
    """Batches of the iterators that `begin` returns, one iterator per epoch; `like` is a batch with any number of rows.

    Nothing is read ahead here, because Keras makes iterators that it does not use, and a source counts its epochs.
    """
    signature = tree.map_structure(lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype), like)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.from_generator(begin, output_signature=signature).with_options(options)


def watched(dataset: Any, begin: Callable[[], Callable[[Any], None]]) -> Any:
    """The same batches, each also passed as NumPy arrays to a function. `begin` returns it when an iterator begins."""
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
