"""A callback sets the regularizer and the constraint of variables and a rate of their own, and changes these objects in place."""

import keras

from tests.habits.data import regression


class Scaled(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient * getattr(variable, "rate", 1.0), variable, learning_rate)


class Change(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        first, last = (layer.kernel for layer in self.model.layers)
        if epoch == 1:
            first.regularizer, last.constraint, last.rate = penalty, bound, 0.1
        if epoch == 2:
            penalty.l2, bound.max_value, last.rate = 1.0, 0.2, 2.0


x, y = regression()
penalty, bound = keras.regularizers.L2(0.1), keras.constraints.MaxNorm(0.5)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile(Scaled(0.05), "mse", run_eagerly=keras.backend.backend() != "jax")
history = model.fit(x, y, epochs=4, batch_size=14, callbacks=[Change()], verbose=0)
result = {"model": model, "history": history}
