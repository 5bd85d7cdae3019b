"""Layers that run functions of others: `JaxLayer` (`FlaxLayer` is one) and `TFSMLayer`. Torch: `test_torch_modules.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.client import RemoteError, Workers
from tests.harness.differences import largest_difference


def test_a_jax_layer_with_batch_normalization_trains_as_on_one_device(workers: Workers) -> None:
    only(workers, "jax")
    plain = workers.plain.run(train_jax_layer, devices=0)
    placed = workers.abreast.run(train_jax_layer, devices=4)
    assert largest_difference(plain["weights"], placed["weights"]) < 1e-5
    assert placed["warnings"] == []


def test_local_statistics_do_not_reach_a_jax_layer_and_a_warning_says_so(workers: Workers) -> None:
    only(workers, "jax")
    plain = workers.plain.run(train_jax_layer, devices=0)
    placed = workers.abreast.run(train_jax_layer, devices=4, batch_norm="local")
    assert largest_difference(plain["weights"], placed["weights"]) < 1e-5
    assert ["see the global batch" in text for text in placed["warnings"]] == [True]


@pytest.mark.in_turn(1)
def test_the_state_of_a_jax_layer_on_tensorflow_is_announced(workers: Workers) -> None:
    only(workers, "tensorflow")
    plain = workers.plain.run(train_jax_layer, devices=0)
    placed = workers.abreast.run(train_jax_layer, devices=4)
    assert largest_difference(plain["weights"], placed["weights"]) < 1e-5
    assert ["Each device computes jax_layer (JaxLayer) for all rows" in text for text in placed["warnings"]] == [True]


def test_a_saved_model_that_would_train_is_refused(workers: Workers, tmp_path: Path) -> None:
    only(workers, "tensorflow")
    workers.plain.run(export, folder=str(tmp_path))
    with pytest.raises(RemoteError, match="calls functions of a SavedModel") as error:
        workers.abreast.run(train_on_saved_model, folder=str(tmp_path), devices=4, trainable=True)
    assert "ModelError" in error.value.kinds and "hint: freeze it" in error.value.message


def test_a_frozen_saved_model_gives_what_it_gives_on_one_device(workers: Workers, tmp_path: Path) -> None:
    only(workers, "tensorflow")
    workers.plain.run(export, folder=str(tmp_path))
    plain = workers.plain.run(train_on_saved_model, folder=str(tmp_path), devices=0, trainable=False)
    placed = workers.abreast.run(train_on_saved_model, folder=str(tmp_path), devices=4, trainable=False)
    assert largest_difference(plain, placed) < 1e-5


def test_an_endpoint_of_the_signatures_gives_what_it_gives_on_one_device(workers: Workers, tmp_path: Path) -> None:
    """`serving_default` is what saved models have that Keras did not write."""
    only(workers, "tensorflow")
    workers.plain.run(save, folder=str(tmp_path), counts=False)
    job: dict[str, Any] = {"folder": str(tmp_path), "trainable": False, "endpoint": "serving_default"}
    plain = workers.plain.run(train_on_saved_model, **job, devices=0)
    placed = workers.abreast.run(train_on_saved_model, **job, devices=4)
    assert largest_difference(plain, placed) < 1e-5


@pytest.mark.parametrize("endpoint", ["serving_default", "call"])
def test_a_saved_model_that_counts_its_calls_is_refused(workers: Workers, tmp_path: Path, endpoint: str) -> None:
    """Replicas would add to the same variable: four calls in each step instead of one."""
    only(workers, "tensorflow")
    workers.plain.run(save, folder=str(tmp_path), counts=True)
    job: dict[str, Any] = {"folder": str(tmp_path), "trainable": False, "endpoint": endpoint}
    assert workers.plain.run(train_on_saved_model, **job, devices=0)
    with pytest.raises(RemoteError, match="the step changes a variable in a concrete function") as error:
        workers.abreast.run(train_on_saved_model, **job, devices=4)
    assert "ModelError" in error.value.kinds


def only(workers: Workers, backend: str) -> None:
    if workers.backend != backend:
        pytest.skip(f"a layer on {backend}")


# In a worker.


def rows() -> tuple[Any, Any]:
    generator = np.random.default_rng(3)
    x = (generator.normal(size=(42, 5)) * np.linspace(0.5, 3, 42)[:, None]).astype("float32")
    return x, x.sum(1, keepdims=True)


def train_jax_layer(devices: int, batch_norm: str = "global") -> dict[str, Any]:
    import warnings

    import jax.numpy as jnp
    import keras

    def call(params: Any, state: Any, inputs: Any, training: bool) -> Any:
        mean, variance = (inputs.mean(0), inputs.var(0)) if training else (state["mean"], state["variance"])
        if training:
            state = {"mean": 0.9 * state["mean"] + 0.1 * mean, "variance": 0.9 * state["variance"] + 0.1 * variance}
        return (inputs - mean) / jnp.sqrt(variance + 1e-3) @ params, state

    state = {"mean": np.zeros(5, "float32"), "variance": np.ones(5, "float32")}
    layer = keras.layers.JaxLayer(call, params=np.full((5, 1), 0.1, "float32"), state=state)
    model = keras.Sequential([keras.Input((5,)), layer])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    if devices:
        import abreast

        abreast.parallelize(model, devices=devices, batch_norm=batch_norm)  # type: ignore[arg-type]
    x, y = rows()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    texts = [str(each.message) for each in caught if each.category is UserWarning]
    return {"weights": model.get_weights(), "warnings": [text for text in texts if "batch" in text or "own" in text]}


def export(folder: str) -> None:
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="tanh")])
    model.export(f"{folder}/saved", verbose=False)


def save(folder: str, counts: bool) -> None:
    """A saved model that Keras did not write."""
    import tensorflow as tf

    module = tf.Module()
    module.kernel = tf.Variable(tf.fill((5, 4), 0.3), trainable=False)
    module.calls = tf.Variable(0.0, trainable=False)

    def call(x: Any) -> Any:
        return {"out": x @ module.kernel + (module.calls.assign_add(1.0) if counts else module.calls)}

    module.call = tf.function(call, input_signature=[tf.TensorSpec((None, 5))])
    tf.saved_model.save(module, f"{folder}/saved", module.call)


def train_on_saved_model(folder: str, devices: int, trainable: bool, endpoint: str = "serve") -> list[Any]:
    import keras

    keras.utils.set_random_seed(0)
    layer = keras.layers.TFSMLayer(f"{folder}/saved", call_endpoint=endpoint, trainable=trainable)
    inputs = keras.Input((5,))
    outputs = layer(inputs)
    outputs = keras.layers.Dense(1)(outputs if endpoint == "serve" else outputs["out"])
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    if devices:
        import abreast

        abreast.parallelize(model, devices=devices)
    x, y = rows()
    model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    return [*model.get_weights(), model.predict(x, batch_size=16, verbose=0)]
