"""Batches of a `tf.data` pipeline for another framework, without a second copy on the host; and the steps of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from keras import tree

from abreast.errors import DataError, a_type
from abreast.feed.sparse import dense, is_sparse
from abreast.keras_private.data_adapters import TFDatasetAdapter


def dataset_views(adapter: TFDatasetAdapter) -> Iterator[Any]:
    """The batches of one epoch. As in Keras, the dataset is begun, and a shuffled order drawn, when the first batch is read.

    After each epoch of a known length, Keras makes an iterator that it may never read.
    """
    # Keras's own adapters would copy each array; a tensor's memory does not change and lives as long as its view.
    for batch in adapter.get_tf_dataset():
        yield tree.map_structure(_view, batch, none_is_leaf=False)


def pipeline(dataset: Any) -> Iterator[Any]:
    """A data set and all data sets that it reads, the last step first."""
    yield dataset
    for each in getattr(dataset, "_inputs", list)():
        yield from pipeline(each)


def _view(leaf: Any) -> Any:
    if leaf is None or type(leaf).__name__ == "Optional":
        return None
    if is_sparse(leaf):
        return dense(leaf)
    return np.asarray(leaf.to_tensor() if type(leaf).__name__ == "RaggedTensor" else leaf)


def not_dense(leaf: Any) -> DataError:
    """The error for an array that cannot be cut by rows."""
    return DataError(
        f"the data source returns {a_type(leaf)}, which cannot be cut into shards",
        "make it dense, with to_tensor()",
    )
