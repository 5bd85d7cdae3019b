"""`tf.data` pipelines: their batches for another framework, without a second copy on the host, and their steps.

Not here: whether an order can be drawn again (`tf_order.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

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
    for batch in begin(adapter.get_tf_dataset()):
        yield tree.map_structure(_view, batch, none_is_leaf=False)


def pipeline(dataset: Any) -> Iterator[Any]:
    """A data set and all data sets that it reads, the last step first."""
    yield dataset
    for each in getattr(dataset, "_inputs", list)():
        yield from pipeline(each)


_begun: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # number of iterators made, by data set that shuffles


def begin(dataset: Any) -> Iterator[Any]:
    """An iterator of a data set. A data set that shuffles counts its iterators, and gives each another order."""
    for each in shuffles(dataset):
        _begun[each] = _begun.get(each, 0) + 1
    return iter(dataset)


def shuffles(dataset: Any) -> list[Any]:
    """The steps of a pipeline that shuffle, each once."""
    found = [each for each in pipeline(dataset) if step_name(each) == "ShuffleDataset"]
    return list({id(each): each for each in found}.values())


def step_name(dataset: Any) -> str:
    """The name of a step, such as `BatchDataset`."""
    return type(dataset).__name__.strip("_")


def num_begun(dataset: Any) -> list[int]:
    """The number of iterators made of each step that shuffles."""
    return [_begun.get(each, 0) for each in shuffles(dataset)]


def begin_up_to(dataset: Any, numbers: list[int]) -> None:
    """Make iterators up to the number of an earlier run, so that the next one gets the same order as there."""
    for each, number in zip(shuffles(dataset), numbers, strict=True):
        while _begun.get(each, 0) < number:
            begin(each)


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
