"""Models with code of the user's in their step: losses, metrics, a `train_step`. `MODELS[name](case)` as in `models.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from tests.contract.cases import Case
from tests.contract.models import head


class OwnComputeLoss(keras.Model):  # type: ignore[misc]
    """A loss that relates rows to one another, beside the compiled one."""

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **more: Any
    ) -> Any:
        loss = super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, **more)
        return loss + 0.1 * ops.mean(ops.square(y_pred - ops.mean(y_pred, axis=0)))


def own_compute_loss(case: Case) -> Any:
    inputs = keras.Input((5,))
    return OwnComputeLoss(inputs, head(case, layers.Dense(4, activation="tanh")(inputs)))


class OwnTrainStepJAX(keras.Model):  # type: ignore[misc]
    """The compiled loss scaled by two, in JAX's way."""

    def _loss(self, trainable: Any, non_trainable: Any, x: Any, y: Any) -> Any:
        y_pred, non_trainable = self.stateless_call(trainable, non_trainable, x, training=True)
        return 2.0 * self.compute_loss(x, y, y_pred), (y_pred, non_trainable)

    def train_step(self, state: Any, data: Any) -> Any:
        import jax

        trainable, non_trainable, optimizer, metrics_variables = state
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        gradient = jax.value_and_grad(self._loss, has_aux=True)
        (loss, (y_pred, non_trainable)), gradients = gradient(trainable, non_trainable, x, y)
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
        logs, metrics_variables = self._logs(metrics_variables, loss, y, y_pred)
        return logs, (trainable, non_trainable, optimizer, metrics_variables)

    def _logs(self, metrics_variables: Any, loss: Any, y: Any, y_pred: Any) -> Any:
        return {"loss": loss}, metrics_variables


class OwnTrainStepTensorFlow(keras.Model):  # type: ignore[misc]
    """The same in TensorFlow's way."""

    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            loss = 2.0 * self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return {"loss": loss}


class OwnTrainStepTorch(keras.Model):  # type: ignore[misc]
    """The same in PyTorch's way."""

    def train_step(self, data: Any) -> Any:
        import torch

        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        self.zero_grad()
        loss = 2.0 * self.compute_loss(x, y, self(x, training=True))
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in self.trainable_weights], self.trainable_weights)
        return {"loss": loss.detach()}


class Tracking:
    """The way of Keras's guides: a step updates the model's metrics, one of its own too, and returns their results."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.own_loss = keras.metrics.Mean("own_loss")

    def track(self, loss: Any, y: Any, y_pred: Any) -> Any:
        for metric in self.metrics:  # type: ignore[attr-defined]
            values = (loss,) if isinstance(metric, keras.metrics.Mean) else (y, y_pred)
            metric.update_state(*values)
        results = {metric.name: metric.result() for metric in self.metrics}  # type: ignore[attr-defined]
        return results | {"derived": 3.0 * results["own_loss"] + ops.mean(loss)}


class TrackingJAX(Tracking, OwnTrainStepJAX):
    def _logs(self, metrics_variables: Any, loss: Any, y: Any, y_pred: Any) -> Any:
        mapping = zip(self.metrics_variables, metrics_variables, strict=True)
        with keras.StatelessScope(state_mapping=mapping) as scope:
            logs = self.track(loss, y, y_pred)
        return logs, [scope.get_current_value(variable) for variable in self.metrics_variables]


class TrackingTensorFlow(Tracking, OwnTrainStepTensorFlow):
    def train_step(self, data: Any) -> Any:
        loss = super().train_step(data)["loss"]
        return self.track(loss, data[1], self(data[0], training=False))


class TrackingTorch(Tracking, OwnTrainStepTorch):
    def train_step(self, data: Any) -> Any:
        loss = super().train_step(data)["loss"]
        return self.track(loss, data[1], self(data[0], training=False).detach())


def own_train_step_with_metrics(case: Case) -> Any:
    kind = {"jax": TrackingJAX, "tensorflow": TrackingTensorFlow, "torch": TrackingTorch}
    inputs = keras.Input((5,))
    return kind[keras.backend.backend()](inputs, head(case, layers.Dense(4, activation="tanh")(inputs)))


def own_train_step(case: Case) -> Any:
    kind = {"jax": OwnTrainStepJAX, "tensorflow": OwnTrainStepTensorFlow, "torch": OwnTrainStepTorch}
    inputs = keras.Input((5,))
    return kind[keras.backend.backend()](inputs, head(case, layers.Dense(4, activation="tanh")(inputs)))


class ReadsWeights(keras.Model):  # type: ignore[misc]
    """A loss that reads weights and calls the model again, and counts its calls in a metric."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls = keras.metrics.Sum("calls")

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **more: Any
    ) -> Any:
        self.calls.update_state(1.0)
        loss = super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, **more)
        decay = ops.mean(ops.square(self.layers[1].kernel))
        return loss + decay + 0.3 * ops.mean(ops.square(self(0.5 * x) - y_pred))


def reads_weights(case: Case) -> Any:
    inputs = keras.Input((5,))
    return ReadsWeights(inputs, head(case, layers.Dense(4, activation="tanh")(inputs)))


class OwnComputeMetrics(keras.Model):  # type: ignore[misc]
    """More logs than there are metrics: one of results, one of the batch."""

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        results = super().compute_metrics(x, y, y_pred, sample_weight)
        return results | {"ratio": results["mae"] / results["loss"], "mean_of_batch": ops.mean(y_pred)}


def own_compute_metrics(case: Case) -> Any:
    inputs = keras.Input((5,))
    return OwnComputeMetrics(inputs, head(case, layers.Dense(4, activation="tanh")(inputs)))


class Endpoint(layers.Layer):  # type: ignore[misc]
    """A loss object and a metric in a layer's call, as in Keras's guide."""

    def __init__(self) -> None:
        super().__init__()
        self.loss_fn = keras.losses.MeanSquaredError()
        self.error = keras.metrics.MeanAbsoluteError("error")

    def call(self, x: Any) -> Any:
        half = ops.cast(x[:, :2], self.compute_dtype)
        self.add_loss(self.loss_fn(half, x[:, 2:4]))
        if keras.backend.backend() != "jax":  # where plain Keras 3.15 raises for a metric in a layer
            self.error.update_state(half, x[:, 2:4])
        return x


def endpoint(case: Case) -> Any:
    x = inputs = keras.Input((5,))
    return keras.Model(inputs, head(case, Endpoint()(layers.Dense(4, activation="tanh")(x))))


class Inherited(keras.Model):  # type: ignore[misc]
    """Keras's own step, called by one of the user's."""

    def train_step(self, *args: Any) -> Any:
        return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        return super().test_step(*args)


def inherited_step(case: Case) -> Any:
    x = inputs = keras.Input((5,))
    x = layers.BatchNormalization(momentum=0.7)(layers.Dense(4, activation="tanh", use_bias=False)(x))
    return Inherited(inputs, head(case, x))


MODELS: dict[str, Callable[[Case], Any]] = {
    function.__name__: function
    for function in (
        endpoint,
        inherited_step,
        own_compute_loss,
        own_compute_metrics,
        own_train_step,
        own_train_step_with_metrics,
        reads_weights,
    )
}
