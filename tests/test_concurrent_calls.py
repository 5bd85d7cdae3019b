"""Calls of `fit` and its siblings in several threads of one process: each computes what it would compute alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers
from tests.harness.differences import largest_difference


@pytest.mark.in_turn
def test_two_fits_in_two_threads_train_as_alone(workers: Workers) -> None:
    alone, together = workers.abreast.run(fits_alone_and_together, devices=[4, 4])
    assert largest_difference(alone, together) < 1e-6  # measured 0


@pytest.mark.full
def test_models_predict_in_threads_while_one_trains(workers: Workers) -> None:
    # While `fit` runs on JAX, Keras has taken the variables out of the model: nobody can predict with it.
    found = workers.abreast.run(fit_beside_predictions, predicts_with_same=workers.backend != "jax")
    assert found["errors"] == [] and found["predictions"] > 0
    assert largest_difference(found["alone"], found["beside"]) < 1e-6


@pytest.mark.full
def test_a_callback_may_wait_for_a_thread_that_trains_and_predicts(workers: Workers) -> None:
    found = workers.abreast.run(fit_whose_callback_waits_for_a_thread)
    assert found["errors"] == [] and found["calls"] == 2
    assert largest_difference(found["alone"], found["waiting"]) < 1e-6


@pytest.mark.full
def test_fits_on_different_devices_in_two_threads_train_as_alone(workers: Workers) -> None:
    alone, together = workers.abreast.run(fits_alone_and_together, devices=[4, 2], timeout_seconds=280)
    assert largest_difference(alone, together) < 1e-6


# In a worker.


def made(seed: int, devices: int = 4) -> Any:
    import keras

    import abreast

    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(16, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
    return abreast.parallelize(model, devices=devices)


def fit(model: Any, epochs: int = 2, callbacks: Any = ()) -> list[Any]:
    x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
    y = x.sum(1, keepdims=True)
    model.fit(
        x, y, batch_size=8, epochs=epochs, verbose=0, shuffle=False, validation_data=(x, y), callbacks=[*callbacks]
    )
    return list(model.get_weights())


def in_threads(calls: list[Any]) -> list[BaseException]:
    """Run the calls at the same time; returns their errors."""
    import threading

    errors: list[BaseException] = []

    def run(call: Any) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def fits_alone_and_together(devices: list[int]) -> tuple[list[Any], list[Any]]:
    alone = [fit(made(seed, count)) for seed, count in enumerate(devices)]
    models = [made(seed, count) for seed, count in enumerate(devices)]
    errors = in_threads([lambda model=model: fit(model) for model in models])
    if errors:
        raise errors[0]
    together = [weight for model in models for weight in model.get_weights()]
    return [weight for weights in alone for weight in weights], together


def fit_beside_predictions(predicts_with_same: bool) -> dict[str, Any]:
    alone = fit(made(0), epochs=6)
    model, other = made(0), made(1)
    rows = np.ones((24, 8), "float32")
    expected = other.predict(rows, batch_size=8, verbose=0)
    done: list[Any] = []

    def predict() -> None:
        while not done:
            if predicts_with_same:
                model.predict(rows, batch_size=8, verbose=0)
            counts.append(1)
            assert np.allclose(other.predict(rows, batch_size=8, verbose=0), expected, atol=1e-6)

    counts: list[int] = []

    def train() -> None:
        try:
            fit(model, epochs=6)
        finally:
            done.append(True)

    errors = in_threads([train, predict])
    return {
        "alone": alone,
        "beside": list(model.get_weights()),
        "predictions": len(counts),
        "errors": [repr(error) for error in errors],
    }


def fit_whose_callback_waits_for_a_thread() -> dict[str, Any]:
    import keras

    alone = fit(made(0))
    model, errors, calls = made(0), [], []

    def in_a_thread(epoch: int, logs: Any) -> None:
        other = made(5)
        errors.extend(
            in_threads([lambda: fit(other), lambda: model.predict(np.ones((24, 8)), batch_size=8, verbose=0)])
        )
        calls.append(epoch)

    weights = fit(model, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=in_a_thread)])
    return {"alone": alone, "waiting": weights, "errors": [repr(error) for error in errors], "calls": len(calls)}
