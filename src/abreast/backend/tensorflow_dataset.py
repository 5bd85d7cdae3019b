"""A `tf.data` pipeline of what a source gives, for plain Keras on TensorFlow. Imports TensorFlow and Keras's tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from keras import tree


def dataset(begin: Callable[[], Iterator[Any]], like: Any) -> Any:
    """Batches of the iterators that `begin` gives, one per epoch; `like` is a batch with any number of rows.

    Nothing is read ahead here: Keras makes iterators that it does not use, and a source counts its epochs.
    """
    signature = tree.map_structure(lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype), like)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.from_generator(begin, output_signature=signature).with_options(options)
