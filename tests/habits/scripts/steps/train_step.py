"""A `train_step` as the guides write it, for each backend in its own way."""

import keras

from tests.habits.data import regression

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf
elif keras.backend.backend() == "torch":
    import torch
else:
    import jax


class CustomModel(keras.Model):
    def train_step(self, *args):
        return getattr(self, f"_{keras.backend.backend()}_step")(*args)

    def _tensorflow_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self._logs(loss, y, y_pred)

    def _torch_step(self, data):
        x, y = data
        self.zero_grad()
        y_pred = self(x, training=True)
        loss = self.compute_loss(y=y, y_pred=y_pred)
        loss.backward()
        gradients = [variable.value.grad for variable in self.trainable_weights]
        with torch.no_grad():
            self.optimizer.apply(gradients, self.trainable_weights)
        return self._logs(loss, y, y_pred)

    def _logs(self, loss, y, y_pred):
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}

    def _jax_loss(self, trainable, non_trainable, x, y):
        y_pred, non_trainable = self.stateless_call(trainable, non_trainable, x, training=True)
        return self.compute_loss(x, y, y_pred), (y_pred, non_trainable)

    def _jax_step(self, state, data):
        trainable, non_trainable, optimizer, metrics_variables = state
        x, y = data
        compute = jax.value_and_grad(self._jax_loss, has_aux=True)
        (loss, (y_pred, non_trainable)), gradients = compute(trainable, non_trainable, x, y)
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
        logs, after = {}, []
        for metric in self.metrics:
            own = metrics_variables[len(after) : len(after) + len(metric.variables)]
            values = (loss,) if metric.name == "loss" else (y, y_pred)
            own = metric.stateless_update_state(own, *values)
            logs[metric.name] = metric.stateless_result(own)
            after += own
        return logs, (trainable, non_trainable, optimizer, after)


x, y = regression(rows=48)
inputs = keras.Input((6,))
model = CustomModel(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "relu")(inputs)))
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history, "evaluate": model.evaluate(x, y, verbose=0)}
