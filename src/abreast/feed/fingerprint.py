"""A description of a source, as JSON: a run that continues another compares the two. It reads no batch and draws nothing.

Not here: whether the batches themselves are the first run's (`jump.py`). Imports no framework.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from keras import tree

from abreast.feed.parts import COMPARED_ROWS, digest
from abreast.feed.tf_data import pipeline, step_name
from abreast.keras_private.data_adapters import (
    ArrayDataAdapter,
    GeneratorDataAdapter,
    PyDatasetAdapter,
    TFDatasetAdapter,
    TorchDataLoaderAdapter,
    stored_rows,
)


@runtime_checkable
class HasFingerprint(Protocol):
    """A data adapter of ours that describes its source itself; users do not call its method."""

    def _fingerprint(self) -> dict[str, Any]:
        """As JSON."""
        ...


def source_fingerprint(adapter: Any) -> dict[str, Any]:
    """The description of an adapter's source, as JSON: kind, numbers of rows and batches, types, order, and checksums."""
    if isinstance(adapter, HasFingerprint):
        return adapter._fingerprint()
    for kind, describe in _KINDS.items():
        if isinstance(adapter, kind):
            return describe(adapter)
    found = {"kind": type(adapter).__qualname__, "batches": _number(adapter.num_batches)}
    if (dataset := getattr(adapter, "_dataset", None)) is not None:  # Grain
        found |= {"class": type(dataset).__qualname__, "batch_size": _number(adapter.batch_size)}
    return found


def _of_arrays(adapter: Any) -> dict[str, Any]:
    rows = stored_rows(adapter, COMPARED_ROWS)
    return {
        "kind": "arrays",
        "rows": int(adapter._num_samples),
        "batch_size": int(adapter.batch_size),
        "shuffle": str(adapter._shuffle),
        "arrays": _types(rows),
        "checksum": digest(rows),
    }


def _of_generator(adapter: Any) -> dict[str, Any]:
    return {"kind": "generator", "arrays": _types(adapter._first_batches[0])}


def _of_py_dataset(adapter: Any) -> dict[str, Any]:
    source = adapter.py_dataset
    arrays = {name: value for name, value in vars(source).items() if isinstance(value, np.ndarray)}
    return {
        "kind": "PyDataset",
        "class": type(source).__qualname__,
        "batches": _number(adapter.num_batches),
        "shuffle": bool(adapter.shuffle),
        "batch_size": _number(getattr(source, "batch_size", None)),
        "arrays": {name: f"{value.dtype} {value.shape}" for name, value in arrays.items()},
    }


def _of_tf_data(adapter: Any) -> dict[str, Any]:
    dataset = adapter.get_tf_dataset()
    return {
        "kind": "tf.data",
        "batches": _number(adapter.num_batches),
        "arrays": str(getattr(dataset, "element_spec", None)),
        "pipeline": [_step(each) for each in pipeline(dataset)],
    }


def _step(dataset: Any) -> str:
    settings = [f"{name}={int(vars(dataset)[f'_{name}'])}" for name in _SETTINGS if f"_{name}" in vars(dataset)]
    return f"{step_name(dataset)}({', '.join(settings)})"


_SETTINGS = ("batch_size", "count", "reshuffle_each_iteration", "seed", "seed2")


def _of_torch_loader(adapter: Any) -> dict[str, Any]:
    loader = adapter._dataloader
    dataset = loader.dataset
    rows = len(dataset) if hasattr(dataset, "__len__") else None
    found: dict[str, Any] = {
        "kind": "DataLoader",
        "batches": _number(adapter.num_batches),
        "batch_size": _number(loader.batch_size),
        "dataset": type(dataset).__qualname__,
        "rows": rows,
        "sampler": type(getattr(loader, "sampler", None)).__qualname__,
    }
    if isinstance(tensors := getattr(dataset, "tensors", None), tuple):  # of a TensorDataset
        step = max(1, (rows or 0) // COMPARED_ROWS)
        found |= {"arrays": _types(tensors), "checksum": digest(tuple(each[::step] for each in tensors))}
    return found


_KINDS = {
    ArrayDataAdapter: _of_arrays,
    GeneratorDataAdapter: _of_generator,
    PyDatasetAdapter: _of_py_dataset,
    TFDatasetAdapter: _of_tf_data,
    TorchDataLoaderAdapter: _of_torch_loader,
}


def _types(data: Any) -> list[str]:
    return [f"{_dtype(leaf)} {tuple(leaf.shape[1:])}" for leaf in tree.flatten(data) if hasattr(leaf, "shape")]


def _dtype(leaf: Any) -> str:
    return str(leaf.dtype).removeprefix("torch.").removeprefix("<dtype: '").removesuffix("'>")


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
