"""Sparse sources of every kind train as with plain Keras, or are refused where plain Keras refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers
from tests.harness.differences import largest_difference

KINDS = {
    "csr": ("jax", "tensorflow", "torch"),
    "csc array": ("jax", "tensorflow", "torch"),
    "coo": ("jax", "tensorflow", "torch"),
    "two inputs": ("jax", "tensorflow", "torch"),
    "generator": ("jax", "tensorflow", "torch"),
    "dataset": ("jax", "tensorflow", "torch"),
    "tf.data": ("jax", "tensorflow", "torch"),
    "sparse tensor": ("jax", "tensorflow", "torch"),
    "input that is sparse": ("jax", "tensorflow"),
    "frame": ("jax", "tensorflow", "torch"),
    "bcoo": ("jax",),
    "torch": ("torch",),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["csr", "tf.data"])
def test_sparse_rows_train_as_with_plain_keras(workers: Workers, kind: str) -> None:
    assert comparison(workers, kind) < 1e-5


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_sources_of_plain_keras_train_on_several_devices(workers: Workers, kind: str) -> None:
    if workers.backend not in KINDS[kind]:
        pytest.skip("arrays of another framework")
    assert comparison(workers, kind) < 1e-5


def comparison(workers: Workers, kind: str) -> float:
    """The largest difference; 0 where both refuse."""
    plain, placed = (worker.run(trained_on, kind=kind) for worker in (workers.plain, workers.abreast))
    if isinstance(plain, str):
        more = workers.backend == "torch" or kind == "dataset"  # abreast makes batches dense, one by one
        assert isinstance(placed, str) or more, f"plain Keras refuses it: {plain}"
        return 0.0
    assert not isinstance(placed, str), placed
    return largest_difference(plain, placed)


def trained_on(kind: str) -> Any:
    """In a worker: losses, weights and predictions after two epochs, or the error."""
    import sys

    import keras

    keras.utils.set_random_seed(3)
    sparse = kind == "input that is sparse"
    inputs = keras.Input((12,), sparse=sparse)
    outputs = keras.layers.Dense(1)(keras.layers.Dense(4, activation="tanh")(inputs))
    model = keras.Model(inputs, outputs)
    if kind == "two inputs":
        other = keras.Input((12,))
        model = keras.Model([inputs, other], keras.layers.Add()([outputs, keras.layers.Dense(1)(other)]))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    if "abreast" in sys.modules:
        sys.modules["abreast"].parallelize(model, devices=4)
    x, fit = _source(kind)
    options = {"batch_size": 10} if len(fit) > 1 else {"steps_per_epoch": 4} if kind == "generator" else {}
    try:
        history = model.fit(*fit, epochs=2, shuffle=False, verbose=0, **options)
        predictions = [] if kind == "generator" else [model.predict(x, batch_size=10, verbose=0)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [np.asarray(history.history["loss"]), *model.get_weights(), *predictions]


def _source(kind: str) -> tuple[Any, tuple[Any, ...]]:
    """The arguments of `predict` and of `fit`."""
    import keras
    import scipy.sparse  # type: ignore[import-untyped]

    random = np.random.default_rng(0)
    matrix = scipy.sparse.random(33, 12, density=0.2, random_state=1, dtype="float32").tocsr()
    y = random.normal(size=(33, 1)).astype("float32")
    batches = [(matrix[i : i + 10], y[i : i + 10]) for i in range(0, 33, 10)]

    class Dataset(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(batches)

        def __getitem__(self, index: int) -> Any:
            return batches[index]

    if kind == "csc array":
        return scipy.sparse.csc_array(matrix), (scipy.sparse.csc_array(matrix), y)
    if kind == "coo":
        return matrix.tocoo(), (matrix.tocoo(), y)
    if kind == "two inputs":
        return [matrix, matrix.toarray()], ([matrix, matrix.toarray()], y)
    if kind == "generator":
        return None, ((batch for batch in batches * 2),)
    if kind == "dataset":
        return Dataset(), (Dataset(),)
    if kind == "frame":
        import pandas

        frame = pandas.DataFrame.sparse.from_spmatrix(matrix)
        return frame, (frame, y)
    if kind == "bcoo":
        from jax.experimental.sparse import BCOO

        return BCOO.fromdense(matrix.toarray()), (BCOO.fromdense(matrix.toarray()), y)
    if kind == "torch":
        import torch

        return torch.tensor(matrix.toarray()).to_sparse(), (torch.tensor(matrix.toarray()).to_sparse(), y)
    if kind in ("tf.data", "sparse tensor"):
        import tensorflow as tf

        whole = tf.sparse.from_dense(matrix.toarray())
        if kind == "sparse tensor":
            return whole, (whole, y)
        dataset = tf.data.Dataset.from_tensor_slices((whole, y)).batch(10)
        return dataset, (dataset,)
    return matrix, (matrix, y)
