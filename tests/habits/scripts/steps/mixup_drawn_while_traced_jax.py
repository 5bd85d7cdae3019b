"""Mixup whose share NumPy draws while the step is traced, with a random order of the rows; the last batch is short."""

BACKENDS = ("jax",)

import jax
import keras
import numpy as np

from tests.habits.data import regression


class Mixed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, state, data):
        trainable, others, of_optimizer, of_metrics = state
        x, y = data
        share = np.random.beta(0.4, 0.4)
        order = jax.random.permutation(jax.random.key(0), x.shape[0])
        x, y = share * x + (1 - share) * x[order], share * y + (1 - share) * y[order]

        def loss_of(weights):
            y_pred, _ = self.stateless_call(weights, others, x)
            return keras.ops.mean(keras.losses.mean_squared_error(y, y_pred))

        loss, gradients = jax.value_and_grad(loss_of)(trainable)
        trainable, of_optimizer = self.optimizer.stateless_apply(of_optimizer, gradients, trainable)
        return {"loss": loss, "share": share}, (trainable, others, of_optimizer, of_metrics)


x, y = regression(rows=89)
model = Mixed()
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
result = {"model": model, "history": history, "next": np.random.random()}
