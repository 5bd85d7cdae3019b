"""The methods by which Keras's trainers read a data adapter, one per framework. Imports Keras, and a framework when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# Methods of a data adapter that return batches to iterate over in Python. `get_tf_dataset` returns a pipeline.
ITERATORS = ("get_numpy_iterator", "get_jax_iterator", "get_torch_dataloader")


def pipeline_of(begin: Callable[[], Iterator[Any]], like: Any) -> Any:
    """A pipeline for `get_tf_dataset` with the batches of `begin()`'s iterators; `like` is a batch of any length."""
    from abreast.backend.tensorflow.dataset import dataset

    return dataset(begin, like)


def watched_pipeline(pipeline: Any, begin: Callable[[], Callable[[Any], None]]) -> Any | None:
    """A `tf.data` pipeline that passes its batches to a function, which `begin()` returns at each iterator's first batch.

    None if Keras's trainer iterates over such a pipeline in Python.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        return None
    from abreast.backend.tensorflow.dataset import watched

    return watched(pipeline, begin)
