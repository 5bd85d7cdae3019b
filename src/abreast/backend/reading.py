"""How Keras's trainers read a data adapter: by another method for each framework. Imports Keras, and a framework when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# Of a data adapter: those that return batches to iterate over in Python. `get_tf_dataset` returns a pipeline.
ITERATORS = ("get_numpy_iterator", "get_jax_iterator", "get_torch_dataloader")


def pipeline_of(begin: Callable[[], Iterator[Any]], like: Any) -> Any:
    """What `get_tf_dataset` returns: batches of the iterators that `begin` returns; `like` is a batch with any number of rows."""
    from abreast.backend.tensorflow.dataset import dataset

    return dataset(begin, like)


def watched_pipeline(pipeline: Any, begin: Callable[[], Callable[[Any], None]]) -> Any | None:
    """A `tf.data` pipeline that shows its batches to what `begin` returns, called at each iterator's first batch.

    None where Keras's trainer iterates over such a pipeline in Python.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        return None
    from abreast.backend.tensorflow.dataset import watched

    return watched(pipeline, begin)
