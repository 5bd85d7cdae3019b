"""The private names of Keras that `abreast.exact` uses exist, and have their known meaning."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.client import Workers


def test_keras_has_the_functions_that_we_replace(workers: Workers) -> None:
    assert workers.plain.run(parameters) == {
        "reduce_weighted_values": ["values", "sample_weight", "mask", "reduction", "dtype"],
        "scale_loss_for_distribution": ["value"],
        "unscale_loss_for_distribution": ["value"],
        "_moments": ["self", "inputs", "mask"],
        "next": ["self", "ordered"],
        "dropout": ["inputs", "rate", "noise_shape", "seed"],
        "add_loss": ["self", "loss"],
        "losses": ["self"],
        "_compute_loss": ["self", "x", "y", "y_pred", "sample_weight", "training"],
        "_get_regularization_losses": ["self"],
    }


def test_a_compiled_model_has_the_private_parts_that_we_read(workers: Workers) -> None:
    assert workers.plain.run(missing_parts) == []


def test_keras_calls_the_functions_that_we_replace(workers: Workers) -> None:
    """A name that still exists but is no longer called would leave every replica alone, without an error."""
    assert workers.plain.run(calls_in_a_step) == ["_moments", "reduce_weighted_values"]


def _replaced() -> dict[str, Any]:
    import keras
    from keras.src import backend
    from keras.src.losses import loss
    from keras.src.trainers import trainer

    return {
        "reduce_weighted_values": loss.reduce_weighted_values,
        "scale_loss_for_distribution": loss.scale_loss_for_distribution,
        "unscale_loss_for_distribution": loss.unscale_loss_for_distribution,
        "_moments": keras.layers.BatchNormalization._moments,
        "next": keras.random.SeedGenerator.next,
        "dropout": backend.random.dropout,
        "add_loss": keras.layers.Layer.add_loss,
        "losses": keras.layers.Layer.losses.fget,
        "_compute_loss": (getattr(trainer, "BaseTrainer", None) or trainer.Trainer)._compute_loss,
        "_get_regularization_losses": keras.layers.Layer._get_regularization_losses,
    }


def parameters() -> dict[str, list[str]]:
    import inspect

    return {name: list(inspect.signature(function).parameters) for name, function in _replaced().items()}


def _model() -> Any:
    import keras

    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.BatchNormalization()(inputs)))
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def missing_parts() -> list[str]:
    import numpy as np

    model = _model()
    model.train_on_batch(np.ones((4, 3), "float32"), np.ones((4, 2), "float32"))
    parts = {
        "model": (model, ("_compile_loss", "_compile_metrics", "_loss_tracker", "_flatten_layers")),
        "compile_loss": (model._compile_loss, ("_flat_losses", "metrics")),
        "entry": (model._compile_loss._flat_losses[0], ("loss", "_replace")),
        "metric": (model._compile_metrics.metrics[0], ("_fn", "_variables")),
        "normalization": (model.layers[1], ("_reduction_axes", "axis", "moving_mean")),
    }
    return [f"{part}.{name}" for part, (owner, names) in parts.items() for name in names if not hasattr(owner, name)]


def calls_in_a_step() -> list[str]:
    import keras
    import numpy as np
    from keras.src.losses import loss

    called = set()

    def recording(name: str, plain: Any) -> Any:
        def function(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return plain(*args, **kwargs)

        return function

    before = loss.reduce_weighted_values, keras.layers.BatchNormalization._moments
    loss.reduce_weighted_values = recording("reduce_weighted_values", before[0])
    keras.layers.BatchNormalization._moments = recording("_moments", before[1])
    try:
        _model().train_on_batch(np.ones((4, 3), "float32"), np.ones((4, 2), "float32"))
    finally:
        loss.reduce_weighted_values, keras.layers.BatchNormalization._moments = before
    return sorted(called)


def warnings_of_dropout(devices: int) -> list[str]:
    """In a worker: the warnings about random numbers in two fits of one model."""
    import warnings

    import keras
    import numpy as np

    import abreast

    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.predict(x, verbose=0)
        model.fit(x, y, verbose=0)
        model.fit(x, y, verbose=0)
    return [str(each.message) for each in said if "draws random numbers" in str(each.message)]


@pytest.mark.in_turn
def test_replicas_that_draw_other_random_numbers_warn_once(workers: Workers) -> None:
    assert workers.abreast.run(warnings_of_dropout, devices=1) == []
    assert len(workers.abreast.run(warnings_of_dropout, devices=4)) == (0 if workers.backend == "jax" else 1)
