"""Variables are copied once, since the training waits for that: into new memory, or into that of an older checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers


@pytest.mark.in_turn
def test_variables_are_copied_once(workers: Workers) -> None:
    found = workers.abreast.run(copied)
    assert 1.0 <= found["memory"] < 1.5  # over their bytes; 2 with a copy of a copy, 3 on TensorFlow
    assert found["memory with spare"] < 0.1
    assert found["kept while it trains"] and found["arrays"] and found["equal"] and found["in spare"]


@pytest.mark.in_turn
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "bool"])
def test_a_copy_has_the_type_and_bits_of_its_variable(workers: Workers, dtype: str) -> None:
    assert workers.abreast.run(bits, dtype=dtype)


def copied() -> dict[str, Any]:
    """In a worker: the memory that reading takes at most, over the bytes of what is read; and whether it is as it should be."""
    import tracemalloc

    import keras

    import abreast
    from abreast.checkpoints import variables

    model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(1024, dtype="float32")])
    model.compile("sgd", "mse")
    abreast.parallelize(model, 2)
    x = np.random.default_rng(0).normal(size=(8, 1024)).astype("float32")

    def read(*spare: Any) -> tuple[dict[str, Any], float]:
        tracemalloc.start()
        found = variables.read(model, *spare)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found, most / sum(array.nbytes for array in found.values())

    model.fit(x, x, verbose=0)
    first, memory = read()
    bits = {name: array.tobytes() for name, array in first.items()}
    model.fit(x, x, verbose=0)
    second = variables.read(model)
    trained = any(array.tobytes() != bits[name] for name, array in second.items())
    kept = all(array.tobytes() == bits[name] for name, array in first.items())
    third, memory_with_spare = read(first)
    return {
        "memory": memory,
        "memory with spare": memory_with_spare,
        "kept while it trains": trained and kept,
        "arrays": all(type(each) is np.ndarray and each.flags.c_contiguous for each in second.values()),
        "equal": all(np.array_equal(second[name], array) for name, array in third.items()),
        "in spare": all(first[name] is array for name, array in third.items()),
    }


def bits(dtype: str) -> bool:
    """In a worker: whether the copy of a variable, also of a scalar and of nothing, is what Keras converts it to."""
    import keras

    from abreast.checkpoints import variables

    for shape in ((), (3,), (2, 3), (0, 3)):
        variable = keras.Variable(np.ones(shape), dtype=dtype, trainable=False)
        expected = np.array(keras.ops.convert_to_numpy(variable))
        for found in (variables._copy(variable), variables._copy(variable, np.zeros_like(expected))):
            assert (type(found), found.dtype, found.shape) == (np.ndarray, expected.dtype, shape), found
            assert found.tobytes() == expected.tobytes(), found
    return True
