"""The scripts of jobs by name: `SCRIPTS[name](job)` returns every number that the contract compares."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops, tree


class Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """The logs of every batch, and how many were trained."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.logs: dict[str, list[Any]] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += 1
        for name, value in (logs or {}).items():
            self.logs.setdefault(f"batch logs/{name}", []).append(np.asarray(value, "float64"))

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        for name, value in (logs or {}).items():
            self.logs.setdefault(f"test batch logs/{name}", []).append(np.asarray(value, "float64"))


def state(model: Any, prefix: str = "") -> dict[str, Any]:
    """Every weight and optimizer variable."""
    values = {f"{prefix}weights/{i}": value for i, value in enumerate(model.get_weights())}
    for i, variable in enumerate(model.optimizer.variables):
        values[f"{prefix}optimizer/{i} {variable.name}"] = ops.convert_to_numpy(variable.value)
    return values


def outputs(model: Any, x: Any, batch_size: int, prefix: str = "predict") -> dict[str, Any]:
    predicted = tree.flatten(model.predict(x, batch_size=batch_size, verbose=0))
    return {f"{prefix}/{i}": np.asarray(array, "float64") for i, array in enumerate(predicted)}


def fit(job: Any) -> dict[str, Any]:
    """Train, evaluate, predict."""
    history = _fit(job)
    return {**history, **state(job.model), **job.recorder.logs, **_evaluate(job), **_predict(job)}


def train(job: Any) -> dict[str, Any]:
    """Train only: fewer programs to compile."""
    history = _fit(job)
    return {**history, **state(job.model), **job.recorder.logs}


def _fit(job: Any, prefix: str = "", **more: Any) -> dict[str, Any]:
    history = job.model.fit(**{**job.fit_arguments(), "callbacks": job.callbacks, **more})
    return {f"{prefix}history/{name}": values for name, values in history.history.items()}


def _evaluate(job: Any) -> dict[str, Any]:
    data = job.data
    evaluated = job.model.evaluate(
        data.x, data.y, sample_weight=data.weight, batch_size=job.case.batch_size, verbose=0, return_dict=True
    )
    return {f"evaluate/{name}": value for name, value in evaluated.items()}


def _predict(job: Any) -> dict[str, Any]:
    return outputs(job.model, job.data.x, job.case.batch_size)


def evaluate_and_predict_first(job: Any) -> dict[str, Any]:
    """The model's first use is not `fit`."""
    return {**_evaluate(job), **_predict(job), **_fit(job), **state(job.model)}


def on_batch(job: Any) -> dict[str, Any]:
    """The `_on_batch` methods, on a batch that divides by the devices, one that does not, and one of a single row."""
    results: dict[str, Any] = {}
    for i, (first, last) in enumerate([(0, 8), (8, 15), (15, 16)]):
        x, y, *weight = job.data.between(first, last)
        weights = {"sample_weight": weight[0]} if weight else {}
        results[f"train/{i}"] = np.asarray(job.model.train_on_batch(x, y, **weights))
        results[f"test/{i}"] = np.asarray(job.model.test_on_batch(x, y, **weights))
        results[f"predict/{i}"] = np.asarray(job.model.predict_on_batch(x))
    results["train with class weights"] = np.asarray(
        job.model.train_on_batch(x, y, class_weight={0: 0.3, 1: 2.0, 2: 1.1})
    )
    return {**results, **state(job.model)}


def trainable_changed(job: Any) -> dict[str, Any]:
    """A layer is frozen between two fits and thawed for a third."""
    results = {}
    for i, trainable in enumerate((True, False, True)):
        job.model.layers[1].trainable = trainable
        job.compile(job.model)
        results.update(_fit(job, f"{i} ", epochs=1))
        results.update(state(job.model, f"{i} "))
    return {**results, **_predict(job)}


def thawed(job: Any) -> dict[str, Any]:
    """A layer that was frozen when the model first came to the devices is trained later."""
    job.model.layers[0].trainable = False
    job.compile(job.model)
    results = _fit(job, "frozen ", epochs=1)
    job.model.layers[0].trainable = True
    job.compile(job.model)
    return {**results, **_fit(job, "thawed "), **state(job.model)}


def two_fits(job: Any) -> dict[str, Any]:
    """A second fit continues the first, with `initial_epoch`, other rows and a recorded epoch number."""
    results = _fit(job, "first ")
    results.update(_fit(job, "second ", initial_epoch=1, epochs=3))
    return {**results, **state(job.model), **_evaluate(job)}


def weights_set_between(job: Any) -> dict[str, Any]:
    """Weights and learning rate that the user sets between two fits are those that the second starts from."""
    results = _fit(job, "first ")
    job.model.set_weights([weight * 0.5 for weight in job.model.get_weights()])
    job.model.optimizer.learning_rate = 0.03
    return {**results, **_fit(job, "second "), **state(job.model), **_evaluate(job)}


def trained_before(job: Any) -> dict[str, Any]:
    """A model that plain Keras trained continues with its weights and optimizer state."""
    model = keras.models.clone_model(job.model)
    model.set_weights(job.model.get_weights())
    job.compile(model)
    model.fit(**job.fit_arguments())
    job.model = job.parallelize(model)
    return fit(job)


def saved_and_loaded(job: Any) -> dict[str, Any]:
    """A `.keras` file holds weights and optimizer state; the loaded model trains on, with devices and without."""
    results = _fit(job)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        job.model.save(path)
        results.update({f"plain {name}": value for name, value in outputs(_load(path), job.data.x, 8).items()})
        job.model = job.parallelize(_load(path))
        job.model.save_weights(Path(folder) / "model.weights.h5")
        job.model.load_weights(Path(folder) / "model.weights.h5")
    results.update(_fit(job, "second "))
    return {**results, **state(job.model), **_evaluate(job)}


def _load(path: Path) -> Any:
    return keras.models.load_model(path)


SCRIPTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    function.__name__: function
    for function in (
        evaluate_and_predict_first,
        fit,
        on_batch,
        saved_and_loaded,
        thawed,
        train,
        trainable_changed,
        trained_before,
        two_fits,
        weights_set_between,
    )
}
