"""Sparse arrays made dense, batch by batch: a step's rows are cut and copied to devices as plain memory.

Layers compute the same results from both. Each kind is recognized by its attributes. Imports no framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def is_sparse(leaf: Any) -> bool:
    """Whether a leaf of a batch is a SciPy matrix, a `tf.SparseTensor`, or a sparse array of JAX or PyTorch."""
    return (
        hasattr(leaf, "tocoo")
        or hasattr(leaf, "dense_shape")
        or type(leaf).__name__ in ("BCOO", "BCSR")
        or str(getattr(leaf, "layout", "")).startswith("torch.sparse")
    )


def dense(leaf: Any) -> Any:
    """A dense array of the same numbers; duplicate entries for one place are added, as in products with the sparse array."""
    if hasattr(leaf, "tocoo"):
        return leaf.toarray()
    if hasattr(leaf, "dense_shape"):
        return _of_tensorflow(leaf)
    return leaf.to_dense() if hasattr(leaf, "to_dense") else np.asarray(leaf.todense())


def _of_tensorflow(leaf: Any) -> np.ndarray[Any, Any]:
    values = np.asarray(leaf.values)
    array = np.zeros(np.asarray(leaf.dense_shape), values.dtype)
    np.add.at(array, tuple(np.asarray(leaf.indices).T), values)
    return array
