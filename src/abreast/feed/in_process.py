"""Sources that run the user's Python code in this process, where it can see changes by callbacks and steps.

`ImageRecords`, Grain, and sources with workers run no such code here, or plain Keras reads them ahead too. Arrays run none,
unless Keras draws an order of rows for each batch.
"""

from __future__ import annotations

from typing import Any

import keras

from abreast.feed.tf_data import pipeline
from abreast.keras_private.data_adapters import (
    DataAdapter,
    GeneratorDataAdapter,
    PyDatasetAdapter,
    TFDatasetAdapter,
    TorchDataLoaderAdapter,
)


def runs_here(adapter: DataAdapter) -> bool:
    """Whether the thread that asks for a batch runs the source's own code."""
    if isinstance(adapter, GeneratorDataAdapter):
        return True
    if isinstance(adapter, PyDatasetAdapter):
        return adapter.enqueuer is None
    if isinstance(adapter, TorchDataLoaderAdapter):
        return bool(adapter._dataloader.num_workers == 0)
    if isinstance(adapter, TFDatasetAdapter):
        return _calls_python(adapter.get_tf_dataset())
    if drawn_per_batch(adapter):
        return True
    return not any(kind.__module__.startswith(("abreast.", "keras.")) for kind in _own_kinds(adapter))


def drawn_per_batch(adapter: DataAdapter) -> tuple[str, ...]:
    """The global generators from which Keras draws an order of rows for each batch of arrays, in the thread that asks for it."""
    if getattr(adapter, "_shuffle", None) != "batch":
        return ()
    return {"jax": ("numpy",), "torch": ("framework",)}.get(keras.backend.backend(), ())


def _own_kinds(adapter: DataAdapter) -> list[type]:
    return [kind for kind in type(adapter).__mro__ if issubclass(kind, DataAdapter) and kind is not DataAdapter]


def _calls_python(dataset: Any) -> bool:
    """Whether a `tf.data` pipeline contains a `from_generator`, `py_function` or `numpy_function`."""
    return any(_holds_py_func(each) for step in pipeline(dataset) for each in getattr(step, "_functions", list)())


def _holds_py_func(function: Any) -> bool:
    graph = function.function.graph.as_graph_def()
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    return any("PyFunc" in node.op for node in nodes)
